"""Activations: elementwise, and softmax along an axis."""

from __future__ import annotations

import warnings
from typing import Any

from frontend.nn.checks import dimension, fail, require_float
from frontend.tensor import Tensor
from graphc.errors import AttributeValueError
from graphc.ops import composite, elementwise, movement

__all__ = ["relu", "gelu", "tanh", "sigmoid", "softmax", "log_softmax"]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0); the gradient at 0 is 0. With `inplace` the result replaces the input."""
    out = elementwise.relu(input)
    return input.copy_(out) if inplace else out


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input · Φ(input), exactly or by PyTorch's `approximate='tanh'` formula."""
    require_float(input, "GeluKernelImpl")
    if approximate not in ("none", "tanh"):
        raise fail(AttributeValueError, "approximate argument must be either none or tanh.")
    return composite.gelu(input, approximate=approximate)


def tanh(input: Tensor) -> Tensor:
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(input) over its sum along `dim`; `dtype` casts the input first. Without `dim`: 0 for
    inputs of 0, 1 or 3 dimensions, else 1, with PyTorch's warning. Raises IndexError."""
    return _along(composite.softmax, "softmax", input, dim, _stacklevel, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The logarithm of `softmax`, exact where softmax underflows; the same arguments."""
    return _along(composite.log_softmax, "log_softmax", input, dim, _stacklevel, dtype)


def _along(op: Any, name: str, x: Tensor, dim: int | None, stacklevel: int, dtype: Any) -> Tensor:
    if dim is None:
        warnings.warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
            "dim=X as an argument.",
            stacklevel=stacklevel,
        )
        dim = 0 if x.ndim in (0, 1, 3) else 1
    axis = dimension(dim, x.ndim)
    x = x if dtype is None else x.to(dtype)
    require_float(x, f"{name}_lastdim_kernel_impl")
    if x.ndim == 0:
        return movement.reshape(op(movement.reshape(x, shape=(1,)), axis=0), shape=())
    return op(x, axis=axis)
