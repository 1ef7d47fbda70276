"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from frontend.nn.checks import fail, require_float, sizes
from frontend.tensor import Tensor
from graphc.errors import DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ops import composite

__all__ = ["layer_norm"]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """input over its last axes (`normalized_shape`) with mean 0 and variance 1, times `weight`,
    plus `bias`, both of that shape. Raises ShapeError, DTypeError."""
    shape = tuple(normalized_shape)
    require_float(input, "LayerNormKernelImpl")
    if not shape:
        raise fail(
            ShapeError,
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []",
        )
    for name, part in (("weight", weight), ("bias", bias)):
        if part is not None and tuple(part.shape) != shape:
            raise fail(
                ShapeError,
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{sizes(part)} and normalized_shape = {list(shape)}",
            )
        if part is not None and part.dtype is not input.dtype:
            raise fail(DTypeError, "mixed dtype (CPU): all inputs must share same datatype.")
    if tuple(input.shape[-len(shape) :]) != shape:
        raise fail(
            ShapeError,
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{sizes(input)}",
        )
    scale = broadcast_to(lift(1, input), shape) if weight is None else weight
    shift = broadcast_to(lift(0, input), shape) if bias is None else bias
    return composite.layer_norm(input, scale, shift, eps=eps)
