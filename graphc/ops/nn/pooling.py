"""Pooling over the last axes as composites: a window view, reduced over its taps.

`padding` lies on both sides of each axis, `overhang` more behind the end, so that a last window
fits (PyTorch's `ceil_mode`). Padding never wins a maximum, and counts in a mean where asked to.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.dims import is_symbolic
from graphc.ir.handle import aligned, broadcast_to, lift
from graphc.ir.size_guards import equal
from graphc.ir.types import DType, Shape
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.generate import iota_like
from graphc.ops.indexing import gather, scatter_add, scatter_set, take
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer
from graphc.ops.movement import pad, reshape, slice_, transpose
from graphc.ops.nn.resampling import adaptive_taps
from graphc.ops.windows import unwindows, windows

NOWHERE = 2**40
"""A position behind all others: that of a tap outside the image."""


# -- windows -------------------------------------------------------------------------------------


class Frame:
    """The windows over the last axes of `x`, and their adjoint."""

    def __init__(
        self, x: Any, kernel: Shape, stride: Shape, padding: Shape, overhang: Shape, dilation: Shape
    ):
        if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
            raise AttributeValueError(
                f"pool: pad should be at most half of kernel size, got {padding} for "
                f"kernel {kernel}"
            )
        self.count = len(kernel)
        if self.count > len(x.shape):
            raise ShapeError(f"pooling over {self.count} axes of {x.tensor_type}")
        self.lead = x.shape[: len(x.shape) - self.count]
        self.size = x.shape[len(self.lead) :]
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        self.padding = padding
        # With an overhang the two sides differ: the image is padded, and so are the windows not.
        self.frame: tuple[tuple[int, int], ...] = ()
        if any(overhang):
            sides = zip(padding, overhang, strict=True)
            self.frame = tuple((low, low + more) for low, more in sides)

    def _geometry(self) -> dict[str, Shape]:
        padding = (0,) * self.count if self.frame else self.padding
        return {
            "kernel": self.kernel, "stride": self.stride, "padding": padding,
            "dilation": self.dilation,
        }  # fmt: skip

    def taps(self, x: Any, fill: float) -> Any:
        """[lead, positions, kernel]: what each window sees of `x`, `fill` outside of it."""
        number = lift(fill, x)
        if self.frame:
            rest = (0,) * (len(x.shape) - self.count)
            low, high = (tuple(pair[side] for pair in self.frame) for side in (0, 1))
            x = pad(x, number, low=rest + low, high=rest + high, interior=(0,) * len(x.shape))
        return windows(tapped(x, self.kernel), number, **self._geometry())

    def flat_taps(self, x: Any, fill: float) -> Any:
        """[lead, positions, taps]: the same with one axis of taps."""
        view = self.taps(x, fill)
        return reshape(
            view, shape=(*view.shape[: len(view.shape) - self.count], math.prod(self.kernel))
        )

    def overlap(self, taps: Any) -> Any:
        """The adjoint of `taps`: each place takes the sum of the taps that fall on it."""
        if self.tiles():
            return self.tiled(taps, 0)
        axes = range(len(self.lead) + self.count, len(self.lead) + 2 * self.count)
        return r.sum(self.fallen(taps, 0), axes=tuple(axes))

    def fallen(self, taps: Any, fill: int) -> Any:
        """[lead, size, kernel]: for each place its element of `taps` as each of the taps, `fill`
        where there is no such window."""
        framed = self.size
        if self.frame:
            framed = tuple(n + a + b for n, (a, b) in zip(self.size, self.frame, strict=True))
        spread = unwindows(taps, lift(fill, taps), size=framed, **self._geometry())
        if not self.frame:
            return spread
        none = (0,) * self.count
        start = (*(0,) * len(self.lead), *(low for low, _ in self.frame), *none)
        size = (*self.lead, *self.size, *self.kernel)
        return slice_(spread, start=start, size=size, step=(1,) * len(start))

    def tiles(self) -> bool:
        """Whether the windows tile the axes: one tap falls on each place, none on a rest."""
        plain = not self.frame and not any(self.padding) and max(self.dilation) == 1
        return plain and self.stride == self.kernel

    def tiled(self, taps: Any, fill: int) -> Any:
        """[lead, size]: for each place the tap that falls on it, `fill` on a rest."""
        lead, count = len(self.lead), self.count
        order = [axis for i in range(count) for axis in (lead + i, lead + count + i)]
        side_by_side = transpose(taps, permutation=(*range(lead), *order))
        covered = tuple(n * k for n, k in zip(taps.shape[lead:], self.kernel, strict=False))
        flat = reshape(side_by_side, shape=(*self.lead, *covered))
        rest = tuple(whole - part for whole, part in zip(self.size, covered, strict=True))
        none = (0,) * (lead + count)
        return pad(flat, lift(fill, flat), low=none, high=(*none[:lead], *rest), interior=none)

    def first_inside(self, positions: Shape) -> np.ndarray[Any, Any]:
        """[positions]: the flat number of the first tap of each window that is not padding."""
        flat: Any = 0
        axes = zip(positions, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        for count, k, s, p, d in axes:
            first = np.maximum(-((np.arange(count) * s - p) // d), 0)
            flat = np.asarray(flat)[..., None] * k + first
        return np.asarray(flat, np.int32)

    def places(self, positions: Shape) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """[positions] and [taps]: where in the image, counted row by row, the first tap of each
        window falls (or would), and how far behind it each tap does."""
        corner: Any = 0
        behind: Any = 0
        axes = zip(positions, self.size, self.kernel, self.stride, self.padding, self.dilation,
                   strict=True)  # fmt: skip
        for count, size, k, s, p, d in axes:
            corner = np.asarray(corner)[..., None] * size + (np.arange(count) * s - p)
            behind = np.asarray(behind)[..., None] * size + np.arange(k) * d
        return np.asarray(corner, np.int64), np.asarray(behind, np.int64).reshape(-1)


def tapped(x: Any, kernel: Shape) -> Any:
    """x with an axis per tap, by an index map only."""
    unit = reshape(x, shape=(*x.shape, *(1,) * len(kernel)))
    return broadcast_to(unit, (*x.shape, *kernel))


# -- the greatest --------------------------------------------------------------------------------


def _max_pool(
    x: Any, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, overhang: Shape = ()
) -> Any:
    frame = Frame(x, kernel, stride, padding, overhang, dilation)
    return r.max(frame.flat_taps(x, r.lowest(x.dtype)), axes=(len(x.shape),))


def _max_pool_vjp(
    g: Any, out: Any, x: Any, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    overhang: Shape,
) -> tuple[Any]:  # fmt: skip
    # The first of equal maxima in a window takes the gradient, as in PyTorch. Each place looks at
    # the windows it is in, so that what is kept for backward is a number for each window.
    frame = Frame(x, kernel, stride, padding, overhang, dilation)
    best, gradient = tapped(_best_tap(frame, x), kernel), tapped(g, kernel)
    if frame.tiles():
        number = frame.tiled(_tap_numbers(x, g.shape, kernel), 0)
        chosen = e.eq(frame.tiled(best, -1), number)
        return (e.where(chosen, *aligned(frame.tiled(gradient, 0), 0.0)),)
    chosen = e.eq(frame.fallen(best, -1), _tap_numbers(x, x.shape, kernel))
    placed = e.where(chosen, *aligned(frame.fallen(gradient, 0), 0.0))
    return (r.sum(placed, axes=tuple(range(len(x.shape), len(placed.shape)))),)


def _best_tap(frame: Frame, x: Any) -> Any:
    """[lead, positions]: the number of the tap that is the first of the greatest of its window, as
    i32, which is what backward keeps."""
    flat = frame.flat_taps(x, r.lowest(x.dtype))
    best = r.argmax(flat, axes=(len(x.shape),), dtype=DType.i32)
    if not any(frame.padding):
        return best
    # Where all is -inf, padding comes first and is as great; else no tap is ahead of this one.
    inside = frame.first_inside(best.shape[len(frame.lead) :])
    return e.maximum(best, broadcast_to(x.context.constant(inside), best.shape))


def _tap_numbers(x: Any, positions: Shape, kernel: Shape) -> Any:
    """[positions, kernel]: the number of each tap, counted row by row."""
    count = iota_like(x, (math.prod(kernel),), 0, DType.i32)
    return broadcast_to(reshape(count, shape=kernel), (*positions, *kernel))


def _window(kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, **more: Any
            ) -> dict[str, Any]:  # fmt: skip
    return {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, **more}


def _max_samples(m: SampleDrawer) -> list[Any]:
    return [
        m(m.apart(2, 3, 6, 6), **_window((2, 2), (2, 2), (0, 0), (1, 1))),
        m(m.apart(2, 7, 5), **_window((2, 3), (2, 3), (0, 0), (1, 1))),
        m(m.apart(1, 5, 7), **_window((3, 2), (2, 1), (1, 1), (1, 2))),
        m(m.apart(2, 9), **_window((3,), (1,), (1,), (1,))),
        m(m.apart(1, 6, 5), **_window((3, 2), (2, 2), (1, 0), (1, 1), overhang=(1, 1))),
        m(m.apart(2, 3, 4, 5), **_window((2, 1, 3), (1, 1, 2), (1, 0, 1), (1, 1, 1))),
    ]


max_pool = Composite("max_pool", _max_pool, vjp=_max_pool_vjp, samples=_max_samples)


def _first_hit(seen: Any, places: Any) -> Any:
    """Along the last axis, the least place of those that hold the greatest. A NaN is greatest."""
    axis = len(seen.shape) - 1
    best = r.spread(r.max(seen, axes=(axis,)), (axis,), seen.shape)
    hit = e.logical_or(e.eq(seen, best), e.ne(seen, seen))  # a NaN equals nothing
    return r.min(e.where(hit, *aligned(places, NOWHERE)), axes=(axis,))


def _max_pool_indices(
    x: Any, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, overhang: Shape = ()
) -> Any:
    """Where in the image, counted row by row, the first of the greatest of each window stands."""
    frame = Frame(x, kernel, stride, padding, overhang, dilation)
    if any(equal(extent, 0) for extent in frame.size):
        raise ShapeError(f"max_pool of no elements: {x.tensor_type}")
    best = _best_tap(frame, x)
    corner, behind = frame.places(best.shape[len(frame.lead) :])
    taps = (*best.shape, math.prod(kernel))
    axis = len(best.shape)
    chosen = e.eq(r.spread(best, (axis,), taps), iota_like(x, taps, axis, DType.i32))
    behind = broadcast_to(x.context.constant(behind), taps)
    moved = r.sum(e.where(chosen, *aligned(behind, 0)), axes=(axis,))
    return moved + broadcast_to(x.context.constant(corner), moved.shape)


max_pool_indices = Composite(
    "max_pool_indices",
    _max_pool_indices,
    differentiable=False,
    samples=lambda m: [
        *_max_samples(m)[1:],
        m(m.integers(3, 2, 6, 6).astype(float), **_window((3, 3), (2, 2), (1, 1), (1, 1))),
    ],
    exempt={"gradient": "positions are integers"},
)


# -- the greatest of adaptive windows ------------------------------------------------------------
# Windows of unequal length, so they are read by tables. A tap too many is the window's first again.


def _adaptive_taps(x: Any, size: Shape) -> tuple[Any, Any]:
    """[lead, size, taps]: what each window sees, and where in the image that stands."""
    count = len(size)
    lead = len(x.shape) - count
    extents = x.shape[lead:]
    if lead < 0 or 0 in extents:
        raise ShapeError(f"adaptive pooling of {x.tensor_type} over {count} axes")
    view, places = x, None
    taps: list[int] = []
    for axis in range(count):
        # [taps, positions] in place of each axis, from the last to the first.
        at = count - 1 - axis
        index = adaptive_taps(extents[at], size[at])[0]
        view = take(view, x.context.constant(index), axis=lead + at)
        taps.insert(0, len(index))
    for at in range(count):
        index = adaptive_taps(extents[at], size[at])[0].T * math.prod(extents[at + 1 :])
        shape = [1] * (2 * count)
        shape[at], shape[count + at] = index.shape
        placed = reshape(x.context.constant(index), shape=tuple(shape))
        placed = broadcast_to(placed, (*size, *taps))
        places = placed if places is None else places + placed
    first = range(lead + 1, lead + 2 * count, 2)
    order = (*range(lead), *first, *(axis - 1 for axis in first))
    flat = (*x.shape[:lead], *size, math.prod(taps))
    seen = reshape(transpose(view, permutation=order), shape=flat)
    return seen, broadcast_to(reshape(places, shape=flat[lead:]), flat)


def _adaptive_indices(x: Any, *, size: Shape) -> Any:
    return _first_hit(*_adaptive_taps(x, size))


def _adaptive_max_vjp(g: Any, out: Any, x: Any, *, size: Shape) -> tuple[Any]:
    lead = x.shape[: len(x.shape) - len(size)]
    index = reshape(_adaptive_indices(x, size=size), shape=(*lead, math.prod(size)))
    gradient = reshape(g, shape=index.shape)
    empty = broadcast_to(lift(0, g), (*lead, math.prod(x.shape[len(lead) :])))
    return (reshape(scatter_add(empty, index, gradient, axis=len(lead)), shape=x.shape),)


def _adaptive_samples(m: SampleDrawer) -> list[Any]:
    return [m(m.apart(2, 3, 7), size=(3,)), m(m.apart(2, 7, 5), size=(3, 4)),
            m(m.apart(3, 4), size=(5,)), m(m.apart(2, 4, 3, 5), size=(3, 1, 2))]  # fmt: skip


def _adaptive_max_pool(x: Any, *, size: Shape) -> Any:
    return r.max(_adaptive_taps(x, size)[0], axes=(len(x.shape),))


adaptive_max_pool = Composite(
    "adaptive_max_pool",
    _adaptive_max_pool,
    vjp=_adaptive_max_vjp,
    samples=_adaptive_samples,
)
adaptive_max_pool_indices = Composite(
    "adaptive_max_pool_indices",
    _adaptive_indices,
    differentiable=False,
    samples=_adaptive_samples,
    exempt={"gradient": "positions are integers"},
)


# -- the mean ------------------------------------------------------------------------------------


def tap_counts(
    size: int, kernel: int, stride: int, padding: int, count: int, include_padding: bool
) -> np.ndarray[Any, Any]:
    """How many taps of each of `count` windows along an axis lie in the image, or in it and its
    padding."""
    start = np.arange(count) * stride - padding
    end = np.minimum(start + kernel, size + padding)
    if not include_padding:
        start, end = np.maximum(start, 0), np.minimum(end, size)
    return np.maximum(end - start, 0)


def _mean_of(
    total: Any, frame: Frame, positions: Shape, include_padding: bool, divisor: int | None
) -> Any:
    """Sums over windows, divided by the number of elements that count."""
    if divisor is not None:
        return total / divisor
    is_whole = not frame.frame and (include_padding or not any(frame.padding))
    if is_whole:
        return total / math.prod(frame.kernel)
    if is_symbolic(frame.size):
        return total / _counted_taps(total, frame, include_padding)
    counts: Any = 1
    axes = zip(frame.size, frame.kernel, frame.stride, frame.padding, positions, strict=True)
    for axis in axes:
        counts = np.multiply.outer(counts, tap_counts(*axis, include_padding))
    if counts.size and (counts == counts.flat[0]).all():
        return total / int(counts.flat[0])
    return total / total.context.constant(counts.astype(total.dtype.numpy))


def _counted_taps(total: Any, frame: Frame, include_padding: bool) -> Any:
    """The same numbers for sizes that are left open, computed: windows over an image of ones."""
    rank = frame.count
    image = broadcast_to(lift(1, total), frame.size)
    padding = frame.padding
    if include_padding:
        image = pad(image, lift(1, total), low=padding, high=padding, interior=(0,) * rank)
        padding = (0,) * rank
    overhang = tuple(high - low for low, high in frame.frame) or (0,) * rank
    ones = Frame(image, frame.kernel, frame.stride, padding, overhang, frame.dilation)
    counts = r.sum(ones.taps(image, 0), axes=tuple(range(rank, 2 * rank)))
    return broadcast_to(counts, total.shape)


def _avg_pool(
    x: Any, *, kernel: Shape, stride: Shape, padding: Shape, overhang: Shape = (),
    count_include_pad: bool = True, divisor: int | None = None,
) -> Any:  # fmt: skip
    if not x.dtype.is_float:
        raise DTypeError(f"avg_pool takes a float tensor, got {x.tensor_type}", hint="cast it")
    frame = Frame(x, kernel, stride, padding, overhang, (1,) * len(kernel))
    taps = frame.taps(x, 0.0)
    rank = len(x.shape)
    total = r.sum(taps, axes=tuple(range(rank, rank + frame.count)))
    positions = total.shape[len(frame.lead) :]
    return _mean_of(total, frame, positions, count_include_pad, divisor)


def _avg_pool_vjp(
    g: Any, out: Any, x: Any, *, kernel: Shape, stride: Shape, padding: Shape, overhang: Shape,
    count_include_pad: bool, divisor: int | None,
) -> tuple[Any]:  # fmt: skip
    frame = Frame(x, kernel, stride, padding, overhang, (1,) * len(kernel))
    share = _mean_of(g, frame, g.shape[len(frame.lead) :], count_include_pad, divisor)
    return (frame.overlap(tapped(share, kernel)),)


def _avg_window(kernel: Shape, stride: Shape, padding: Shape, **more: Any) -> dict[str, Any]:
    return {"kernel": kernel, "stride": stride, "padding": padding, **more}


avg_pool = Composite("avg_pool", _avg_pool, vjp=_avg_pool_vjp, samples=lambda m: [
    m(m.normal(2, 3, 6, 6), **_avg_window((2, 2), (2, 2), (0, 0))),
    m(m.normal(1, 5, 7), **_avg_window((3, 2), (2, 1), (1, 1))),
    m(m.normal(1, 5, 7), **_avg_window((3, 2), (2, 1), (1, 1), count_include_pad=False)),
    m(m.normal(2, 6, 5), **_avg_window((3, 2), (2, 2), (1, 0), overhang=(1, 1))),
    m(m.normal(2, 5), **_avg_window((3,), (2,), (1,), divisor=2)),
])  # fmt: skip


# -- back to where the greatest stood ------------------------------------------------------------


def _max_unpool(x: Any, index: Any, *, size: int) -> Any:
    """[*, size]: zeros, with the elements of `x` [*, n] at `index` [*, n]."""
    if not x.shape or x.shape != index.shape:
        raise ShapeError(f"max_unpool of {x.tensor_type} with indices {index.tensor_type}")
    empty = broadcast_to(lift(0, x), (*x.shape[:-1], size))
    return scatter_set(empty, index, x, axis=len(x.shape) - 1)


max_unpool = Composite(
    "max_unpool",
    _max_unpool,
    # Windows that overlap may give a place twice: then both take its gradient, as in PyTorch.
    vjp=lambda g, out, x, index, *, size: (gather(g, index, axis=len(x.shape) - 1), None),
    samples=lambda m: [
        m(m.normal(2, 3, 4), np.stack([m.random.permutation(9)[:4] for _ in range(6)])
          .reshape(2, 3, 4), size=9),
        m(m.normal(1, 20), m.random.permutation(70)[:20].reshape(1, 20), size=70),
    ],
)  # fmt: skip
