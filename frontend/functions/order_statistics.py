"""Medians, modes and quantiles, and what counts elements: unique ones, in bins. How many unique
elements or non-empty bins there are depends on the data, so those run eagerly only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, apply_one, filled
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.no_value import deciding
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tensors.views import own
from frontend.functions import pointwise as f
from frontend.functions import reduce, return_types
from frontend.functions import shape as s
from frontend.functions.arguments import fail, need_tensors, not_implemented, stored
from frontend.functions.declarations import public
from frontend.functions.logic import isfinite, logical_and
from frontend.functions.order import need_elements, one_of_line, order_of, picked
from frontend.functions.reduce import dimension
from frontend.functions.unary import ceil, floor
from frontend.functions.unary import round as rounded
from graphc.errors import AttributeValueError, DTypeError, IndexRangeError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops import elementwise as e
from graphc.ops import indexing
from graphc.ops import order as o
from graphc.ops import reduce as r
from graphc.ops.generate import iota

# -- medians and modes ---------------------------------------------------------------------------


def _median(name: str, kind: Any, input: Tensor, dim: int | None, keepdim: bool) -> Any:
    need_tensors(name, input=input)
    ignore = name == "nanmedian"
    if input.dtype is DType.bool:
        raise not_implemented("median_cpu", input.dtype)
    if dim is None:
        if input.numel():
            return apply_one(o.median, input, ignore_nan=ignore)
        return filled(math.nan if input.dtype.is_float else 0, input.dtype, ()).clone()
    axis = dimension(dim, input.dim())
    need_elements(name, input, axis)
    x = input if input.dim() else s.reshape(input, 1)
    index = apply_one(o.argmedian, x.detach(), axis=axis, ignore_nan=ignore)
    return one_of_line(kind, input, axis, index, keepdim)


@public(method=True, node_along="MedianBackward1", numpy_names=True)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The lower median of all elements, or (values, indices) along `dim`: NaN where there is one.
    Without `dim`, equal elements share the gradient."""
    return stored(_median("median", return_types.median, input, dim, keepdim), out)


@public(method=True, node="Nanmedian", numpy_names=True)
def nanmedian(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None
) -> Any:
    """`median` of the elements that are not NaN."""
    return stored(_median("nanmedian", return_types.nanmedian, input, dim, keepdim), out)


@public(method=True, node="Mode", numpy_names=True)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """(values, indices) of the most frequent element along `dim`, the smallest of several; the
    index is that of its last occurrence."""
    need_tensors("mode", input=input)
    axis = dimension(dim, input.dim())
    need_elements("mode", input, axis)
    x = (input if input.dim() else s.reshape(input, 1)).detach()
    x = casted(x, DType.i32) if x.dtype is DType.bool else x
    shape = x._sizes
    order = order_of(x, axis)
    line = picked(x, order, axis)
    place = _apply_iota(shape, axis)
    # A run of equal elements starts where one differs from that before it; how long it is so far
    # is the distance from the last start.
    before = s.narrow(line, axis, 0, max(shape[axis] - 1, 0))
    after = s.narrow(line, axis, 1, max(shape[axis] - 1, 0)) if shape[axis] > 1 else before
    first = filled(True, DType.bool, (*shape[:axis], 1, *shape[axis + 1 :]))
    starts = s.cat((first, apply_one(e.ne, after, before)), axis) if shape[axis] > 1 else first
    start = apply_one(o.argcummax, f.where(starts, place, -1), axis=axis)
    longest = s.unsqueeze(apply_one(r.argmax, place - start, axes=(axis,)), axis)
    index = picked(order, longest, axis)
    return stored(one_of_line(return_types.mode, input, axis, index, keepdim), out)


def _apply_iota(shape: tuple[int, ...], axis: int) -> Tensor:
    counted: Tensor = CONTEXT.apply(iota, (), {"shape": shape, "axis": axis, "dtype": DType.i64})[0]
    return counted


# -- quantiles -----------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _points(name: str, input: Tensor, q: Any) -> Tensor:
    """`q` as a tensor in [0, 1]."""
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise fail(AttributeValueError, f"{name}() q must be in the range [0, 1] but got {q}")
        return filled(float(q), input.dtype, ())
    if q.dim() > 1:
        raise fail(ShapeError, f"{name}() q must be a scalar or 1D tensor")
    if q.dtype is not input.dtype:
        raise fail(DTypeError, f"{name}() q tensor must be same dtype as the input tensor")
    inside = logical_and(q >= 0, q <= 1)
    message = f"{name}() q values must be in the range [0, 1]"
    inside = apply_one(indexing.check_all, inside, message=message)
    return f.where(inside, q, filled(0, q.dtype, q._sizes))


def _quantile(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    need_tensors(name, input=input)
    if not input.dtype.is_float:
        raise fail(DTypeError, f"{name}() input tensor must be either float or double dtype")
    if interpolation not in _INTERPOLATIONS:
        raise fail(
            AttributeValueError,
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}",
        )
    if not input.numel():
        raise fail(ShapeError, f"{name}() input tensor must be non-empty")
    points = _points(name, input, q)
    axis = dimension(dim, input.dim()) if dim is not None else 0
    lines = s.ravel(input) if dim is None or not input.dim() else s.movedim(input, axis, -1)
    rank = lines.dim() - 1
    ordered = picked(lines, order_of(lines, rank), rank)
    values = _interpolated(ordered, s.reshape(points, -1), interpolation, name == "nanquantile")
    # One dimension per point comes first; a single point has none.
    values = s.movedim(values, -1, 0)
    shape = input._sizes
    if dim is None:
        kept: tuple[int, ...] = (1,) * len(shape) if keepdim else ()
    else:
        kept = (*shape[:axis], *((1,) if keepdim and shape else ()), *shape[axis + 1 :])
    return own(s.reshape(values, (*points._sizes, *kept)))


def _interpolated(ordered: Tensor, points: Tensor, interpolation: str, ignore_nan: bool) -> Tensor:
    """The values [..., points] at fractions `points` of sorted lines [..., n], NaN last in them."""
    *lead, size = ordered._sizes
    rank = len(lead)
    nan = apply_one(e.ne, ordered, ordered)
    count = s.unsqueeze(apply_one(r.sum, casted(nan, ordered.dtype), axes=(rank,)), rank)
    wide = s.expand(points, (*lead, *points._sizes))
    if ignore_nan:
        ranks = f.maximum(wide * (size - 1 - count), filled(0, wide.dtype, ()))
    else:
        ranks = f.where(count > 0, filled(size - 1, wide.dtype, ()), wide * (size - 1))
    if interpolation in ("lower", "higher", "nearest"):
        rounding = {"lower": floor, "higher": ceil, "nearest": rounded}[interpolation]
        return picked(ordered, _as_position(rounding(ranks), size), rank)
    below = floor(ranks)
    low = picked(ordered, _as_position(below, size), rank)
    high = picked(ordered, _as_position(ceil(ranks), size), rank)
    weight = filled(0.5, ranks.dtype, ()) if interpolation == "midpoint" else ranks - below.detach()
    return f.lerp(low, high, weight)


def _as_position(ranks: Tensor, size: int) -> Tensor:
    return casted(ranks, DType.i64).clamp(0, size - 1)


@public(method=True, numpy_names=True, autocast="float32")
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear", out: Any = None,
) -> Tensor:  # fmt: skip
    """The values at fractions `q` (a number, or a vector, whose dimension then comes first) of the
    sorted elements, along `dim` or of all; between two elements by `interpolation`: "linear",
    "lower", "higher", "nearest", "midpoint". NaN where a line has one."""
    return stored(_quantile("quantile", input, q, dim, keepdim, interpolation), out)


@public(method=True, numpy_names=True, autocast="float32")
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear", out: Any = None,
) -> Tensor:  # fmt: skip
    """`quantile` of the elements that are not NaN."""
    return stored(_quantile("nanquantile", input, q, dim, keepdim, interpolation), out)


# -- unique elements -----------------------------------------------------------------------------


def _tensor(array: Any, like: Any = np.int64) -> Tensor:
    copy = np.array(array, like, order="C")
    return make(copy, TensorType.of(copy))


def _results(values: Any, inverse: Any, counts: Any, wanted: tuple[bool, bool], like: Any) -> Any:
    results = [_tensor(values, like)]
    results += [_tensor(each) for each, want in zip((inverse, counts), wanted) if want]
    return results[0] if len(results) == 1 else tuple(results)


@public(method=True)
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The different elements (or slices along `dim`), sorted; with them, if asked for, which of
    them each element is, and how often each occurs. NaN differs from NaN. How many there are
    depends on the data, so a trace raises TraceError."""
    need_tensors("unique", input=input)
    array = deciding(input, "unique()")
    axis = None if dim is None else dimension(dim, input.dim())
    values, inverse, counts = np.unique(
        array, return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    inverse = inverse.reshape(array.shape if axis is None else -1)
    return _results(values, inverse, counts, (return_inverse, return_counts), array.dtype)


@public(method=True)
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The elements (or slices along `dim`) without those equal to the one before; with them, if
    asked for, which of them each element is, and how long each run is. Runs eagerly only."""
    need_tensors("unique_consecutive", input=input)
    array = deciding(input, "unique_consecutive()")
    axis = None if dim is None else dimension(dim, input.dim())
    rows = array.reshape(-1) if axis is None else np.moveaxis(array, axis, 0)
    starts = np.ones(len(rows), bool)
    starts[1:] = (rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim)))
    values = rows[starts] if axis is None else np.moveaxis(rows[starts], 0, axis)
    inverse = np.cumsum(starts) - 1
    counts = np.diff(np.append(np.flatnonzero(starts), len(rows)))
    inverse = inverse.reshape(array.shape) if axis is None else inverse
    return _results(values, inverse, counts, (return_inverse, return_counts), array.dtype)


# -- counting ------------------------------------------------------------------------------------


@public(method=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2, … occurs in a vector of integers, or the sum of the weights there
    (float64, or float32 where the weights are). As long as the greatest element asks for, at least
    `minlength`, so a trace raises TraceError."""
    need_tensors("bincount", input=input)
    if not input.dtype.is_integer:
        raise not_implemented("bincount_cpu", input.dtype)
    if minlength < 0:
        raise fail(AttributeValueError, "minlength should be >= 0")
    array = deciding(input, "bincount()")
    if array.ndim != 1 or (array.size and array.min() < 0):
        raise fail(AttributeValueError, "bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return _tensor(np.bincount(array, minlength=minlength))
    if weights._sizes != input._sizes:
        raise fail(ShapeError, "weights should be 1-d and have the same length as input")
    kind = np.float32 if weights.dtype is DType.f32 else np.float64
    return _tensor(np.bincount(array, weights._array("bincount()"), minlength), kind)


def _range(x: Tensor, low: float, high: float) -> tuple[float, float]:
    """The bounds of a histogram of a vector; its own range where they are equal."""
    if low == high and x.numel():
        array = x._array("histc() without bounds")
        low, high = float(array.min()), float(array.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise fail(AttributeValueError, f"torch.histc: range of [{low}, {high}] is not finite")
    if low > high:
        raise fail(IndexRangeError, "torch.histc: max must be larger than min")
    return low, high


def _traced_range(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same of a traced vector, in float64; and that it is finite, which the run checks."""
    low, high = casted(reduce.amin(x), DType.f64), casted(reduce.amax(x), DType.f64)
    finite = logical_and(isfinite(low), isfinite(high))
    message = "torch.histc: the range is not finite"
    finite = apply_one(indexing.check_all, finite, message=message)
    less = casted(low == high, DType.f64)
    return low - less, high + less, finite


@public(method=True)
def histc(input: Tensor, bins: int = 100, min: Any = 0, max: Any = 0, *, out: Any = None) -> Tensor:
    """How many elements lie in each of `bins` equal parts of [min, max] (of the elements' own range
    where both are equal, ); others, and NaN, are left out."""
    need_tensors("histc", input=input)
    if not input.dtype.is_float:
        raise not_implemented("histogram_cpu", input.dtype)
    if bins <= 0:
        raise fail(
            AttributeValueError,
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0",
        )
    x = input.detach().reshape(-1)
    low: Any = fitting(float(min), x.dtype)
    high: Any = fitting(float(max), x.dtype)
    finite: Any = None
    if low == high and input.numel() and STATE.mode is not None:
        low, high, finite = _traced_range(x)
    else:
        low, high = _range(x, low, high)
    # In the operand's dtype, as in PyTorch, so that the same elements lie on a boundary.
    inside = logical_and(x >= low, x <= high)
    if finite is not None:
        inside = logical_and(inside, finite)
    width = high - low
    if isinstance(low, Tensor):
        low, width = casted(low, x.dtype), casted(width, x.dtype)
    places = f.where(inside, (x - low) * bins / width, float(bins)).long()
    places = f.where(inside, f.clamp(places, max=bins - 1), bins)
    none = filled(0, input.dtype, (bins + 1,))
    ones = filled(1, input.dtype, (x.numel(),))
    counts = apply_one(indexing.index_add, none, places, ones, axis=0)[:bins]
    return stored(counts, out)
