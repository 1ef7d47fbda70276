"""A tensor in parts along an axis: one op with many results, so that its gradient is one `concat`.

The same parts as separate slices would each have a gradient of the size of the whole, padded with
zeros: a loop over T time steps would move T times the memory of its input.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from graphc.errors import ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import Shape
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import Arrays
from graphc.ops.movement import concat, slice_


def _split(x: Any, *, sizes: Shape, axis: int) -> tuple[Any, ...]:
    shape = x.shape
    if not 0 <= axis < len(shape):
        raise ShapeError(f"split: axis {axis} is out of range for {x.tensor_type}")
    if not sizes or min(sizes) < 0 or sum(sizes) != shape[axis]:
        raise ShapeError(f"split of {x.tensor_type} along axis {axis}: parts of {list(sizes)}")
    ones, lead = (1,) * len(shape), (0,) * axis
    return tuple(
        slice_(x, start=(*lead, end - size, *(0,) * (len(shape) - axis - 1)),
               size=(*shape[:axis], size, *shape[axis + 1 :]), step=ones)
        for size, end in zip(sizes, accumulate(sizes), strict=True)
    )  # fmt: skip


def _split_vjp(g: Any, out: Any, x: Any, *, sizes: Shape, axis: int) -> tuple[Any]:
    """A part that nothing used (None) has gradient 0."""
    if len(sizes) == 1:
        return (g,)
    zero = lift(0, next(part for part in g if part is not None))
    shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]
    parts = [
        broadcast_to(zero, shape) if part is None else part
        for part, shape in zip(g, shapes, strict=True)
    ]
    return (concat(*parts, axis=axis),)


class SplitComposite(Composite):
    """A composite whose parts are views when computed: slices, not an interpreted graph."""

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        x, sizes, axis = arrays[0], attributes["sizes"], attributes["axis"]
        ends = accumulate(sizes)
        lead = (slice(None),) * axis
        return tuple([x[(*lead, slice(end - n, end))] for n, end in zip(sizes, ends, strict=True)])


split = SplitComposite("split", _split, vjp=_split_vjp, samples=lambda m: [
    m(m.normal(5, 3), sizes=(2, 2, 1), axis=0), m(m.normal(3, 8), sizes=(4, 4), axis=1),
    m(m.normal(2, 3, 4), sizes=(3,), axis=1), m(m.normal(3, 0), sizes=(0, 0), axis=1),
    m(m.normal(4), sizes=(1, 0, 3), axis=0), m(m.normal(2, 70), sizes=(3, 67), axis=1),
])  # fmt: skip
