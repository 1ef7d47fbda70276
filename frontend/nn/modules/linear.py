"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.modules.elsewhere import elsewhere
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]
__getattr__ = elsewhere(__name__, "attention")


class Linear(Module):
    """y = x weightᵀ + bias: [*, in_features] to [*, out_features].

    `weight` [out_features, in_features] and `bias` [out_features] start from
    U(-1/√in_features, 1/√in_features).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), **options))
        self.register_parameter("bias", Parameter(empty(out_features, **options)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            init.default_bias_(self.bias, self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """y[k] = x1ᵀ weight[k] x2 + bias[k]: [*, in1_features] and [*, in2_features] to
    [*, out_features].

    `weight` [out_features, in1_features, in2_features] and `bias` [out_features] start from
    U(-1/√in1_features, 1/√in1_features). Raises ValueError where `in1_features` is not positive.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        options = {"device": device, "dtype": dtype}
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), **options))
        self.register_parameter("bias", Parameter(empty(out_features, **options)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Identity(Module):
    """Returns its input. Takes any arguments, so that it can stand in for any layer."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input
