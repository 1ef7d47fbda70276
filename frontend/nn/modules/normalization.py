"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.creation import empty
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from frontend.tensor import Tensor

__all__ = ["LayerNorm"]


class LayerNorm(Module):
    """x over its last axes (`normalized_shape`) with mean 0 and variance 1, times `weight`, plus
    `bias`, both of that shape; `elementwise_affine=False` has neither."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = None,
    ):
        super().__init__()
        if isinstance(normalized_shape, int):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            made = Parameter(empty(self.normalized_shape, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )
