"""Normalisation layers without running statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Affine(Module):
    """A layer with `weight`, or `weight` and `bias`, of one shape, where they are wanted."""

    weight: Any
    bias: Any

    def _make(self, shape: tuple[int, ...], options: dict[str, Any], **wanted: bool) -> None:
        for name, want in wanted.items():
            self.register_parameter(name, Parameter(empty(shape, **options)) if want else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                (init.ones_ if name == "weight" else init.zeros_)(parameter)


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_Affine):
    """x over its last axes (`normalized_shape`) with mean 0 and variance 1, times `weight`, plus
    `bias`, both of that shape; `elementwise_affine=False` has neither."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        options = {"device": device, "dtype": dtype}
        self._make(
            self.normalized_shape, options,
            weight=elementwise_affine, bias=elementwise_affine and bias,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """x over the root mean square of its last axes (`normalized_shape`), times `weight` of that
    shape. `eps` None is that of the dtype."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        options = {"device": device, "dtype": dtype}
        self._make(self.normalized_shape, options, weight=elementwise_affine)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """x [N, C, *] with mean 0 and variance 1 in each of `num_groups` groups of channels, times
    `weight` [C], plus `bias` [C]. Raises ValueError where the channels cannot be grouped so."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        options = {"device": device, "dtype": dtype}
        self._make((num_channels,), options, weight=affine, bias=affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """x over (k + alpha · the mean square of `size` neighbouring channels)^beta."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
