"""Cumulative ops and sorting along an axis. Extremes and sorts give positions: values are gathered
at them, so that one pass serves both, and the gradient is that of the gather. `topk` and `extreme`
give both by one op."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.dims import Extent
from graphc.ir.handle import broadcast_to, filled_like, lift
from graphc.ir.types import DType
from graphc.ops.elementwise import (
    cast,
    clamp,
    eq,
    exp,
    ge,
    gt,
    le,
    log,
    logical_and,
    logical_not,
    logical_or,
    minimum,
    ne,
    where,
)
from graphc.ops.indexing import gather, scatter_add
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import FLOATS, NUMBERS, Array, SampleDrawer
from graphc.ops.kinds.scan import ArgScan, Scan
from graphc.ops.kinds.sort import Sort
from graphc.ops.movement import reshape, slice_
from graphc.ops.reduce import argmax, argmin, keep_axes, sum
from graphc.ops.scalar_functions.bitwise import shift_right
from graphc.ops.scalar_functions.special import logaddexp


def flip(x: Any, axis: int) -> Any:
    """The order of the elements along `axis` reversed."""
    size = x.shape[axis]
    return slice_(
        x,
        start=tuple(max(size - 1, 0) if a == axis else 0 for a in range(len(x.shape))),
        size=x.shape,
        step=tuple(-1 if a == axis else 1 for a in range(len(x.shape))),
    )


def _backwards(scan: Any, x: Any, axis: int) -> Any:
    """A scan from the last element to the first."""
    return flip(scan(flip(x, axis), axis=axis), axis)


# -- cumulative ----------------------------------------------------------------------------------


def _lines(draw: Any) -> Any:
    return lambda m: [
        m(draw(m, 3, 5), axis=1), m(draw(m, 3, 5), axis=0), m(draw(m, 2, 4, 19), axis=1),
        m(draw(m, 70), axis=0), m(draw(m, 3, 1), axis=1), m(draw(m, 0, 3), axis=1),
        m(draw(m, 3, 0), axis=1), m(draw(m, 130, 9), axis=0),
    ]  # fmt: skip


def _accumulated(ufunc: np.ufunc) -> Any:
    return lambda x, axis: ufunc.accumulate(x, axis=axis, dtype=x.dtype)


cumsum: Scan = Scan(
    "cumsum",
    lambda s, running, x: s.add(running, x),
    _accumulated(np.add),
    dtypes=NUMBERS,
    vjp=lambda g, out, x, *, axis: (_backwards(cumsum, g, axis),),
    samples=_lines(lambda m, *shape: m.normal(*shape)),
)


def _cumprod_vjp(g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    # Before the first 0 of a line: Σ g·out over what follows, divided by x. At it: the same sum
    # with the 0 left out. After it every product has that 0 in it.
    zero = eq(x, filled_like(0, x))
    seen = cumsum(cast(zero, dtype=DType.i64), axis=axis)
    before = eq(seen, filled_like(0, seen))
    first = logical_and(zero, eq(seen, filled_like(1, seen)))
    safe = where(zero, filled_like(1, x), x)
    without = cumprod(where(first, filled_like(1, x), x), axis=axis)
    at_first = _backwards(cumsum, g * without, axis)
    others = _backwards(cumsum, g * out, axis) / safe
    return (where(before, others, where(first, at_first, filled_like(0, x))),)


cumprod: Scan = Scan(
    "cumprod",
    lambda s, running, x: s.mul(running, x),
    _accumulated(np.multiply),
    dtypes=NUMBERS,
    vjp=_cumprod_vjp,
    samples=lambda m: [
        *_lines(lambda m, *shape: m.normal(*shape) * 0.3 + 1)(m),
        m(np.array([[2.0, 0, 3, 4], [1, 2, 3, 0], [0, 2, 0, 3], [0, 0, 1, 1]]), axis=1),
    ],
)


def _logcumsumexp_vjp(g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    # Σ gⱼ·exp(xᵢ - outⱼ) over j from i on, as a logarithm: positive and negative gⱼ apart.
    # What has no logarithm takes the least number: its exponential is 0, and unlike an infinity it
    # has a difference from itself.
    least = filled_like(float(np.finfo(x.dtype.numpy).min), x)

    def part(weight: Any) -> Any:
        none = le(weight, filled_like(0, weight))
        logs = where(none, least, log(where(none, filled_like(1, weight), weight)))
        return exp(_backwards(logcumsumexp, logs - out, axis) + x)

    return (part(g) - part(-g),)


logcumsumexp: Scan = Scan(
    "logcumsumexp",
    logaddexp.scalar,
    _accumulated(np.logaddexp),
    dtypes=FLOATS,
    vjp=_logcumsumexp_vjp,
    samples=lambda m: [
        *_lines(lambda m, *shape: m.normal(*shape) * 3)(m),
        m(np.array([[-np.inf, -np.inf, 1, 2], [1, -np.inf, 2, np.inf]]), axis=1,
          differentiable=False),
    ],
)  # fmt: skip


def _best(ufunc: np.ufunc) -> Any:
    def positions(x: Array, axis: int) -> Array:
        takes = (x == ufunc.accumulate(x, axis=axis)) | (x != x)
        shape = [-1 if a == axis else 1 for a in range(x.ndim)]
        at = np.arange(x.shape[axis]).reshape(shape)
        return np.asarray(np.maximum.accumulate(np.where(takes, at, 0), axis=axis))

    return positions


def _with_ties(m: SampleDrawer) -> list[Any]:
    nans = m.normal(3, 9)
    nans[0, 4] = nans[0, 6] = nans[1, 0] = np.nan
    return [*_lines(lambda m, *shape: m.apart(*shape))(m), m(m.integers(3, 4, 9) * 1.0, axis=1),
            m(m.integers(2, 40, 3) * 1.0, axis=0), m(nans, axis=1), m(nans, axis=0)]  # fmt: skip


argcummax = ArgScan("argcummax", lambda s, running, x: s.ge(x, running), _best(np.maximum),
                    dtypes=NUMBERS, vjp=None, samples=_with_ties)  # fmt: skip
argcummin = ArgScan("argcummin", lambda s, running, x: s.le(x, running), _best(np.minimum),
                    dtypes=NUMBERS, vjp=None, samples=_with_ties)  # fmt: skip

# -- sorting -------------------------------------------------------------------------------------


def _sorts(m: SampleDrawer) -> list[Any]:
    zeros = np.array([[0.0, -0.0, 1, -0.0, 0.0, -1, np.inf, -np.inf]])
    drawn = [*_with_ties(m), m(zeros, axis=1), m(m.normal(2, 150), axis=1), m(m.normal(4), axis=0)]
    # Downwards: lines in the middle of an array, empty and long ones, and all with ties or NaN.
    down = [drawn[2], drawn[5], *drawn[7:]]
    return [
        *drawn, *(m(*sample.operands, **sample.attributes, descending=True) for sample in down),
    ]  # fmt: skip


argsort = Sort("argsort", vjp=None, samples=_sorts)


def _selections(m: SampleDrawer) -> list[Any]:
    """As many as there are, some, and none of them."""
    counts, drawn = (1, 2, 3, 40, 0), []
    for number, sample in enumerate(_sorts(m)):
        size = sample.operands[0].shape[sample.attributes["axis"]]
        count = min(counts[number % len(counts)], size)
        drawn.append(m(*sample.operands, **sample.attributes, count=count))
    return [*drawn, m(m.normal(2, 150), axis=1, count=100, descending=True)]


# The first `count` of the positions of `argsort`.
argtopk = Sort("argtopk", counted=True, vjp=None, samples=_selections)


def _searchsorted(boundaries: Any, x: Any, *, right: bool = False) -> Any:
    if boundaries.dtype is not x.dtype:
        raise DTypeError(f"searchsorted of {x.tensor_type} in {boundaries.tensor_type}")
    lead = boundaries.shape[:-1]
    if not boundaries.shape or len(x.shape) < 1 or x.shape[:-1] != lead:
        raise ShapeError(f"searchsorted of {x.tensor_type} in {boundaries.tensor_type}")
    axis, count = len(lead), boundaries.shape[-1]
    position = broadcast_to(x.context.constant(np.asarray(0)), x.shape)
    if not count:
        return position
    # By halves: `position` elements are known to stand before x; `step` more may.
    step = 1 << (int(count).bit_length() - 1)
    while step:
        further = minimum(position + step, filled_like(count, position))
        boundary = gather(boundaries, further - 1, axis=axis)
        before = logical_not(gt(boundary, x) if right else ge(boundary, x))
        if x.dtype.is_float:
            # NaN is greater than all numbers, and goes behind what equals it.
            before = logical_and(before, logical_or(eq(boundary, boundary), ne(x, x)))
        position = where(before, further, position)
        step //= 2
    return position


def _searches(m: SampleDrawer) -> list[Any]:
    drawn = []
    for right in (False, True):
        line = np.sort(m.integers(9, 2, 13) * 1.0, axis=1)
        x = m.integers(11, 2, 7, low=-2) * 1.0
        x[1, 3], x[0, 0] = np.nan, np.inf
        drawn += [
            m(line, x, right=right), m(line[0, :1], x[0], right=right),
            m(line[0, :0], x[0], right=right), m(line[:, :8], m.normal(2, 0), right=right),
            m(np.sort(m.normal(37)), m.normal(70), right=right),
        ]  # fmt: skip
    return drawn


searchsorted = Composite("searchsorted", _searchsorted, differentiable=False, samples=_searches)


# -- medians -------------------------------------------------------------------------------------


def _middle(x: Any, *, axis: int, ignore_nan: bool = False) -> Any:
    size = x.shape[axis]
    order = argsort(x, axis=axis)
    nan = sum(cast(ne(x, x), dtype=DType.i64), axes=(axis,)) if x.dtype.is_float else None
    half = lift((size - 1) // 2, order)
    at = broadcast_to(half, tuple(d for a, d in enumerate(x.shape) if a != axis))
    if nan is not None and ignore_nan:
        at = shift_right(filled_like(size - 1, nan) - nan, filled_like(1, nan))
    elif nan is not None:
        # NaNs are last in order: the first of them, if there is one.
        at = where(gt(nan, filled_like(0, nan)), filled_like(size, nan) - nan, at)
    at = clamp(at, filled_like(0, at), filled_like(size - 1, at))
    return gather(order, keep_axes(at, (axis,), x.shape), axis=axis)


def _middles(m: SampleDrawer) -> list[Any]:
    drawn = []
    for ignore in (False, True):
        nans = m.normal(5, 7)
        nans[0, 3] = nans[0, 5] = nans[2, 0] = nans[3] = np.nan
        drawn += [
            m(m.apart(3, 5), axis=1, ignore_nan=ignore), m(m.apart(1), axis=0, ignore_nan=ignore),
            m(nans, axis=1, ignore_nan=ignore), m(m.apart(0, 3), axis=1, ignore_nan=ignore),
            m(m.integers(3, 2, 9) * 1.0, axis=1, ignore_nan=ignore),
        ]  # fmt: skip
    return [*drawn, m(m.apart(4, 3), axis=0)]


# The position of the lower median along `axis`, which is kept with size 1.
argmedian = Composite("argmedian", _middle, differentiable=False, samples=_middles)


def _median(x: Any, *, ignore_nan: bool = False) -> Any:
    flat = reshape(x, shape=(x.tensor_type.numel,))
    return reshape(gather(flat, argmedian(flat, axis=0, ignore_nan=ignore_nan), axis=0), shape=())


def _median_vjp(g: Any, out: Any, x: Any, *, ignore_nan: bool) -> tuple[Any]:
    # All that equal the median share the gradient evenly.
    wide = broadcast_to(out, x.shape)
    chosen = logical_or(eq(x, wide), logical_and(ne(x, x), ne(wide, wide)))
    count = sum(cast(chosen, dtype=x.dtype), axes=tuple(range(len(x.shape))))
    return (where(chosen, broadcast_to(g / count, x.shape), filled_like(0, x)),)


median = Composite(
    "median",
    _median,
    vjp=_median_vjp,
    samples=lambda m: [
        m(m.apart(3, 5)), m(m.apart(6), ignore_nan=True), m(m.apart()),
        m(m.integers(3, 3, 5) * 1.0, differentiable=False),
        m(np.array([1, np.nan, 3, 2, 5]), ignore_nan=True, differentiable=False),
    ],
)  # fmt: skip


# -- values with their positions -----------------------------------------------------------------


def _scattered(g: Any, x: Any, index: Any, axis: int) -> Any:
    return scatter_add(filled_like(0, x), index, g, axis=axis)


def _topk(x: Any, *, k: Extent, axis: int, largest: bool = True) -> tuple[Any, Any]:
    index = argtopk(x, axis=axis, descending=largest, count=k)
    return gather(x, index, axis=axis), index


def _topk_vjp(g: Any, out: Any, x: Any, *, axis: int, **rest: Any) -> tuple[Any]:
    return (lambda: None if g[0] is None else _scattered(g[0], x, out[1], axis),)


# Results: the k greatest (or smallest) elements along the axis in order, and their positions.
topk = Composite("topk", _topk, vjp=_topk_vjp, samples=lambda m: [
    m(m.apart(3, 5), k=2, axis=1), m(m.apart(4, 2, 3), k=4, axis=0, largest=False),
    m(m.apart(2, 40), k=7, axis=1), m(m.apart(0, 3), k=1, axis=1),
    m(m.integers(3, 2, 9) * 1.0, k=5, axis=1, differentiable=False),
])  # fmt: skip


def _extreme(x: Any, *, axis: int, least: bool = False) -> tuple[Any, Any]:
    position = (argmin if least else argmax)(x, axes=(axis,))
    value = gather(x, keep_axes(position, (axis,), x.shape), axis=axis)
    return reshape(value, shape=position.shape), position


def _extreme_vjp(g: Any, out: Any, x: Any, *, axis: int, least: bool) -> tuple[Any]:
    def by_x() -> Any:
        if g[0] is None:
            return None
        kept = [keep_axes(each, (axis,), x.shape) for each in (g[0], out[1])]
        return _scattered(kept[0], x, kept[1], axis)

    return (by_x,)


# Results: the first greatest (or smallest) element along the axis, and its position.
extreme = Composite("extreme", _extreme, vjp=_extreme_vjp, samples=lambda m: [
    m(m.apart(3, 5), axis=1), m(m.apart(4, 2, 3), axis=0, least=True), m(m.apart(2, 130), axis=1),
    m(m.apart(0, 3), axis=1), m(m.integers(3, 2, 9) * 1.0, axis=1, differentiable=False),
])  # fmt: skip
