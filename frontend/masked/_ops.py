"""Reductions and normalizations over the elements for which a mask is True."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from frontend.engine.eager.uncompiled import conj
from frontend.engine.tensors.dtypes import as_dtype
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import (
    order,
    order_statistics,
    pointwise,
    pointwise_composites,
    reduce,
    unary,
)
from frontend.functions.layout import broadcast_to
from frontend.functions.linalg import vector_norm
from frontend.functions.reduce import axes_of, dimension
from graphc.ir.types import DType

# -- masks ---------------------------------------------------------------------------------------


def _kept(input: Tensor, mask: Tensor) -> Tensor:
    """The mask in the input's shape, as bools."""
    if mask.dim() > input.dim():
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the "
            "input)"
        )
    return broadcast_to(mask, input.shape).bool()


def _filled(input: Tensor, mask: Tensor | None, value: float) -> Tensor:
    return input if mask is None else pointwise.where(_kept(input, mask), input, value)


def _least(kind: DType) -> Any:
    """What is below all numbers of a dtype."""
    if kind.is_float:
        return -math.inf
    return False if kind is DType.bool else int(np.iinfo(kind.numpy).min)


def _greatest(kind: DType) -> Any:
    if kind.is_float:
        return math.inf
    return True if kind is DType.bool else int(np.iinfo(kind.numpy).max)


def _kind(input: Tensor, dtype: Any, sums: bool = False) -> DType:
    """The result's dtype: the one asked for, else the input's, else int64 for sums of others."""
    if dtype is not None:
        return as_dtype(dtype)
    return DType.i64 if sums and not input.dtype.is_float else input.dtype


def _axes(input: Tensor, dim: Any) -> list[int] | None:
    """The dimensions to reduce; None for one without dimensions."""
    return list(axes_of(dim, input.dim())) or None


# -- sums and products -----------------------------------------------------------------------------


def sum(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum of what the mask keeps; integers and bools sum to int64."""
    kind = _kind(input, dtype, sums=True)
    return reduce.sum(_filled(input, mask, 0), _axes(input, dim), keepdim, dtype=kind)


def prod(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The product of what the mask keeps; integers and bools multiply to int64."""
    result = _filled(input, mask, 1).to(_kind(input, dtype, sums=True))
    for axis in reversed(axes_of(dim, input.dim())):
        result = reduce.prod(result, axis, keepdim)
    return result


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running sums of what the mask keeps."""
    kind = _kind(input, dtype)
    return order.cumsum(_filled(input, mask, 0), dimension(dim, input.dim()), dtype=kind)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running products of what the mask keeps."""
    kind = _kind(input, dtype)
    return order.cumprod(_filled(input, mask, 1), dimension(dim, input.dim()), dtype=kind)


# -- extremes --------------------------------------------------------------------------------------


def amax(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The greatest of what the mask keeps; the least number of the dtype where that is nothing."""
    filled = _filled(input, mask, _least(input.dtype))
    return reduce.amax(filled, _axes(input, dim) or (), keepdim).to(_kind(input, dtype))


def amin(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The least of what the mask keeps; the greatest number of the dtype where that is nothing."""
    filled = _filled(input, mask, _greatest(input.dtype))
    return reduce.amin(filled, _axes(input, dim) or (), keepdim).to(_kind(input, dtype))


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the greatest of what the mask keeps is, in the input's dtype as PyTorch has it."""
    filled = _filled(input, mask, _least(input.dtype))
    return reduce.argmax(filled, dim, bool(keepdim)).to(_kind(input, dtype))


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the least of what the mask keeps is, in the input's dtype as PyTorch has it."""
    filled = _filled(input, mask, _greatest(input.dtype))
    return reduce.argmin(filled, dim, bool(keepdim)).to(_kind(input, dtype))


# -- moments ---------------------------------------------------------------------------------------


def _count(input: Tensor, dim: Any, keepdim: bool, mask: Tensor | None) -> Any:
    if mask is not None:
        return reduce.sum(_kept(input, mask), _axes(input, dim), keepdim)
    return math.prod([input.shape[axis] for axis in axes_of(dim, input.dim())])


def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean of what the mask keeps; NaN where that is nothing."""
    kind = _kind(input, dtype)
    if not kind.is_float:
        raise ValueError(
            f"mean(): Could not infer output dtype. {'Input' if dtype is None else 'Optional'} "
            f"dtype must be either a floating point or complex dtype. Got: {kind}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / _count(input, dim, keepdim, mask)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The lower median of what the mask keeps; NaN where that is nothing, which raises ValueError
    for integers."""
    x = input if input.dtype.is_float else input.float()
    axis = dimension(dim, input.dim())
    result = order_statistics.nanmedian(_filled(x, mask, math.nan), axis, keepdim).values
    if input.dtype.is_float:
        return result
    if bool(reduce.any(result.isnan())):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return result.to(_kind(input, dtype))


def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance of what the mask keeps, with that many degrees of freedom fewer (`correction`,
    1 unless told)."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    less = float(correction if correction is not None else unbiased is not False)
    kind = _kind(input, dtype)
    kind = kind if kind.is_float or dtype is not None else DType.f32
    inner = kind if kind.is_float else DType.f32
    count = _count(input, dim, True, mask)
    center = sum(input, dim, keepdim=True, dtype=kind, mask=mask) / count
    off = input - center
    total = sum(off * conj(off), dim, keepdim=keepdim, dtype=inner, mask=mask)
    if isinstance(count, Tensor):
        real = DType.f32 if inner.is_complex else inner
        degrees = (count.to(real) - less).clamp(min=0).reshape(total.shape)
    else:
        degrees = max(count - less, 0.0)
    return (total / degrees).to(kind)


def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The square root of `var`."""
    options: dict[str, Any] = {"keepdim": keepdim, "dtype": dtype, "mask": mask}
    return unary.sqrt(var(input, dim, unbiased, correction=correction, **options))


# -- exponentials ----------------------------------------------------------------------------------


def logsumexp(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The logarithm of the sum of the exponentials of what the mask keeps."""
    axes = axes_of(dim, input.dim())
    result = reduce.logsumexp(_filled(input, mask, _least(input.dtype)), axes, keepdim)
    return result.to(_kind(input, dtype))


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(eˣ + eʸ), where what a mask does not keep counts as -inf."""
    x = _filled(input, input_mask, -math.inf)
    return pointwise_composites.logaddexp(x, _filled(other, other_mask, -math.inf)).to(
        _kind(input, dtype)
    )


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax over what the mask keeps; 0 elsewhere."""
    filled = _filled(input, mask, _least(input.dtype))
    return reduce.softmax(filled, dimension(dim, input.dim()), dtype=_kind(input, dtype))


def log_softmax(
    input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of `softmax`; -inf elsewhere."""
    filled = _filled(input, mask, _least(input.dtype))
    return reduce.log_softmax(filled, dimension(dim, input.dim()), dtype=_kind(input, dtype))


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negated elements that the mask keeps; 0 elsewhere."""
    filled = _filled(input, mask, _greatest(input.dtype))
    return reduce.softmax(-filled, dimension(dim, input.dim()), dtype=_kind(input, dtype))


# -- norms -----------------------------------------------------------------------------------------


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The vector norm of what the mask keeps."""
    power = 2.0 if ord is None else ord
    filled = _filled(input, mask, math.inf if power == -math.inf else 0)
    axes = _axes(input, dim)
    return vector_norm(filled, power, axes, keepdim, dtype=_kind(input, dtype))


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """What the mask keeps over its norm (at least `eps`); 0 elsewhere."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / length.clamp(min=eps)
