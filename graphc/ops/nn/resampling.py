"""Resampling along one axis: each place of the result is a weighted sum of a few places.

Which places, and with what weights, is a table: [taps, places], computed here for each rule and
kept. The gradient is a weighted sum too, by the adjoint table, so that both directions read
and neither scatters.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import aligned, broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.indexing import take
from graphc.ops.kinds.composite import Composite
from graphc.ops.movement import reshape

Array = np.ndarray[Any, Any]
Table = tuple[Array, Array]  # indices [taps, places], weights [taps, places]; weight 0: no tap

CUBIC = -0.75
"""The free parameter a of Keys' cubic convolution (1981), as PyTorch has it."""


# -- tables --------------------------------------------------------------------------------------


def _nearest(extent: int, size: int, step: float, dtype: Any, exact: bool) -> Table:
    # In the precision of the data, rounded where PyTorch rounds: a rounding moves a whole place.
    places, width = np.arange(size), np.float64(dtype(step))
    if exact:
        centres = np.maximum(((places + 0.5) * width - 0.5).astype(dtype), dtype(0))
        positions = centres + dtype(0.5)
    else:
        positions = (places * width).astype(dtype)
    index = np.minimum(np.floor(positions.astype(np.float32)).astype(np.int64), extent - 1)
    return index[None], np.ones((1, size))


def _centres(size: int, step: float, aligned: bool) -> Array:
    """Where the result's places lie in the operand."""
    places = np.arange(size)
    return places * step if aligned else (places + 0.5) * step - 0.5


def _linear(extent: int, size: int, step: float, aligned: bool) -> Table:
    centre = np.maximum(_centres(size, step, aligned), 0.0)
    low = np.minimum(np.floor(centre).astype(np.int64), extent - 1)
    high = np.minimum(low + 1, extent - 1)
    part = np.minimum(np.maximum(centre - low, 0.0), 1.0)
    return np.stack([low, high]), np.stack([1.0 - part, part])


def _cubic(extent: int, size: int, step: float, aligned: bool) -> Table:
    centre = _centres(size, step, aligned)
    first = np.floor(centre).astype(np.int64)
    offsets = np.arange(-1, 3)[:, None]
    distance = np.abs(centre - first - offsets)
    a = CUBIC
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    index = np.clip(first + offsets, 0, extent - 1)
    return index, np.where(distance <= 1, near, far)


def adaptive_windows(extent: int, size: int) -> tuple[Array, Array]:
    """First place and end of each of `size` windows that cover an axis: place i from
    floor(i·extent/size) to ceil((i + 1)·extent/size)."""
    places = np.arange(size, dtype=np.int64)
    return places * extent // max(size, 1), -(-(places + 1) * extent // max(size, 1))


def adaptive_taps(extent: int, size: int) -> tuple[Array, Array]:
    """[taps, places]: the indices of each adaptive window, and which of them count. Those that do
    not are the window's first."""
    start, end = adaptive_windows(extent, size)
    longest = int((end - start).max(initial=1))
    taps = start + np.arange(longest)[:, None]
    inside = taps < end
    return np.where(inside, taps, start), inside


def _mean(extent: int, size: int) -> Table:
    index, inside = adaptive_taps(extent, size)
    return index, inside / np.maximum(inside.sum(axis=0), 1)


_ALIGNED = {"linear": False, "linear_aligned": True, "cubic": False, "cubic_aligned": True}
RULES = ("nearest", "nearest_exact", *_ALIGNED, "mean")


def table(rule: str, extent: int, size: int, step: float, dtype: DType) -> Table:
    """The table of a rule from an axis of `extent` places to one of `size`; what is open among
    these is made a number."""
    return _table(rule, int(extent), int(size), float(step), dtype)


@lru_cache(maxsize=512)
def _table(rule: str, extent: int, size: int, step: float, dtype: DType) -> Table:
    if rule in ("nearest", "nearest_exact"):
        precision = np.float64 if dtype is DType.f64 else np.float32
        taps = _nearest(extent, size, step, precision, rule == "nearest_exact")
    elif rule == "mean":
        taps = _mean(extent, size)
    else:
        make = _linear if rule.startswith("linear") else _cubic
        taps = make(extent, size, step, _ALIGNED[rule])
    return _trimmed(*taps)


def _trimmed(index: Array, weights: Array) -> Table:
    """Without rows of taps that no place has."""
    used = (weights != 0).any(axis=1)
    used[0] = True
    return index[used], weights[used]


def adjoint_table(rule: str, extent: int, size: int, step: float, dtype: DType) -> Table:
    """The table of the adjoint: from `size` places back to `extent`."""
    return _adjoint_table(rule, int(extent), int(size), float(step), dtype)


@lru_cache(maxsize=512)
def _adjoint_table(rule: str, extent: int, size: int, step: float, dtype: DType) -> Table:
    index, weights = _table(rule, extent, size, step, dtype)
    taps, places = np.nonzero(weights)
    # By source, then by place, so that a sum adds in the order of the result.
    order = np.lexsort((places, index[taps, places]))
    taps, places = taps[order], places[order]
    sources = index[taps, places]
    counts = np.bincount(sources, minlength=extent)
    row = np.arange(len(sources)) - np.repeat(np.cumsum(counts) - counts, counts)
    depth = max(int(counts.max(initial=1)), 1)
    back = np.zeros((depth, extent), np.int64)
    back_weights = np.zeros((depth, extent))
    back[row, sources] = places
    back_weights[row, sources] = weights[taps, places]
    return back, back_weights


# -- the op --------------------------------------------------------------------------------------


def weighted(x: Any, axis: int, index: Array, weights: Array) -> Any:
    """Σ over taps of x[index] · weight along `axis`. Taps of weight 0 are not read into the sum,
    so an infinity there does not become NaN."""
    taps, places = index.shape
    shape = x.shape
    whole = (*shape[:axis], taps, places, *shape[axis + 1 :])
    chosen = take(x, x.context.constant(index), axis=axis)
    if (weights != 1).any():
        after = (1,) * (len(shape) - axis - 1)
        column = weights.astype(x.dtype.numpy).reshape(taps, places, *after)
        wide = broadcast_to(x.context.constant(column), whole)
        chosen = chosen * wide
    if (weights == 0).any():
        chosen = e.where(e.ne(*aligned(wide, 0)), *aligned(chosen, 0))
    if taps == 1:
        return reshape(chosen, shape=(*shape[:axis], places, *shape[axis + 1 :]))
    return r.sum(chosen, axes=(axis,))


def repeats(rule: str, extent: int, size: int, step: float, dtype: DType) -> int:
    """How often each place is repeated in order, where that is all a rule does; else 0."""
    index, weights = table(rule, extent, size, step, dtype)
    places = index.shape[1]
    if len(index) != 1 or extent == 0 or places % extent or (weights != 1).any():
        return 0
    times = places // extent
    return times if (index[0] == np.arange(places) // max(times, 1)).all() else 0


def _resample(x: Any, *, axis: int, size: int, rule: str, step: float = 1.0) -> Any:
    if not x.dtype.is_float:
        raise DTypeError(f"resample takes a float tensor, got {x.tensor_type}", hint="cast it")
    if not 0 <= axis < len(x.shape) or size < 0 or not x.shape[axis]:
        raise ShapeError(f"resample of {x.tensor_type} along axis {axis} to {size} places")
    if rule not in RULES or not (math.isfinite(step) and step >= 0):
        raise AttributeValueError(f"resample: no rule {rule!r} with step {step}")
    extent = int(x.shape[axis])  # tables are of numbers
    times = repeats(rule, extent, size, step, x.dtype)
    if times == 1:
        return x
    if times == 0:
        return weighted(x, axis, *table(rule, extent, size, step, x.dtype))
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    unit = reshape(x, shape=(*before, extent, 1, *after))
    wide = broadcast_to(unit, (*before, extent, times, *after))
    return reshape(wide, shape=(*before, size, *after))


def _resample_vjp(
    g: Any, out: Any, x: Any, *, axis: int, size: int, rule: str, step: float
) -> tuple[Any]:
    extent = int(x.shape[axis])
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if size == 0:
        return (broadcast_to(lift(0, g), x.shape),)
    times = repeats(rule, extent, size, step, x.dtype)
    if times == 0:
        return (weighted(g, axis, *adjoint_table(rule, extent, size, step, x.dtype)),)
    apart = reshape(g, shape=(*before, extent, times, *after))
    return (r.sum(apart, axes=(axis + 1,)),)


resample = Composite("resample", _resample, vjp=_resample_vjp, samples=lambda m: [
    m(m.normal(2, 3, 4), axis=1, size=6, rule="nearest", step=0.5),
    m(m.normal(3, 5), axis=1, size=7, rule="nearest", step=5 / 7),
    m(m.normal(3, 5), axis=1, size=3, rule="nearest_exact", step=5 / 3),
    m(m.normal(2, 5, 3), axis=1, size=8, rule="linear", step=5 / 8),
    m(m.normal(20, 5), axis=0, size=9, rule="linear_aligned", step=19 / 8),
    m(m.normal(2, 6), axis=1, size=4, rule="cubic", step=1.5),
    m(m.normal(2, 6), axis=1, size=21, rule="cubic_aligned", step=0.25),
    m(m.normal(2, 7, 3), axis=1, size=3, rule="mean"),
    m(m.normal(2, 3), axis=1, size=5, rule="mean"),
    m(m.normal(2, 1), axis=1, size=3, rule="linear", step=1 / 3),
])  # fmt: skip
