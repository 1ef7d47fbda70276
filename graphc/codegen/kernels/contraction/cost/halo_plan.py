"""What a halo buffer holds: the rectangle of coordinates of an operand that a window sweeps over.

In: what a contraction reads, and the variables that run within a block. Out: the axes of the copy,
or None where there is no such rectangle. `halo` fills it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.codegen.kernels.contraction.problem.view import ContractionView
from graphc.ir.dims import Extent, bounds_of, greatest, known_number, least
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Quotient, Variable
from graphc.ops.kinds.movement import Case
from graphc.records import record


@record
class HaloAxis:
    """One axis of the operand in a halo buffer: coordinates `base + low + i` for i below `extent`,
    split into `split` interleaved parts. `dim`: the operand's own extent where the buffer may hang
    over it."""

    axis: int
    base: Expr
    low: int
    extent: Extent
    split: int
    dim: Extent | None

    @property
    def kept(self) -> tuple[int, Extent]:
        """The part of the axis that exists: its begin and end."""
        if self.dim is None:
            return 0, self.extent
        end = least(self.dim - self.low, self.extent)
        return max(0, -self.low), self.extent if end is None else end


@record
class HaloPlan:
    """What a halo buffer holds: these axes of operand `operand`. `guarded`: zeros stand for
    products that are skipped."""

    operand: int
    axes: tuple[HaloAxis, ...]
    guarded: bool

    @property
    def elements(self) -> Extent:
        return math.prod(axis.extent for axis in self.axes)


def plan_halo(
    view: ContractionView,
    cases: Sequence[Case],
    inner: frozenset[Variable],
    lane_axes: Sequence[int],
    split: int,
    grows: bool = False,
) -> HaloPlan | None:
    """The halo buffer that holds what `cases` read while the `inner` variables run over their
    extents; those in `lane_axes` come last, the very last one split into `split` parts. None where
    none does: an address that is not affine, or guards other than the operand's own bounds; or,
    unless it `grows`, a size known only at run time, which would decide how large it is; ends of
    which none is the last at every size."""
    operand = cases[0].operand
    shape: Shape = view.types[operand].shape
    axes: list[HaloAxis] = []
    order = [axis for axis in range(len(shape)) if axis not in lane_axes] + list(lane_axes)
    for axis in order:
        bases, bounds = set(), []
        for case in cases:
            expression: Expr = case.index[axis]
            if any(isinstance(atom, Quotient) for atom, _ in expression.terms):
                return None
            moving = frozenset(t for t in expression.terms if t[0] in inner)
            bases.add(Expr(0, expression.terms - moving))
            bounds.append(Expr(expression.constant, moving).bounds())
        if len(bases) != 1:
            return None
        base = bases.pop()
        lowest = known_number(least(*(low for low, _ in bounds)))
        last = greatest(*(high for _, high in bounds))
        if not grows:
            last = known_number(last)
        if lowest is None or last is None:
            return None
        guarded = [guard for case in cases for guard in case.guards if guard[0] == case.index[axis]]
        if any(guard[1:] != (0, shape[axis]) for guard in guarded) or (guarded and base.terms):
            return None
        extent: Extent | None = last - lowest + 1
        if guarded:
            extent = _reaching(last - lowest + 1, shape[axis] - lowest)
        if extent is None:
            return None
        axes.append(
            HaloAxis(
                axis, base, lowest, extent, split if axis == order[-1] else 1,
                shape[axis] if guarded else None,
            )
        )  # fmt: skip
    coordinates = [guard for case in cases for guard in case.guards]
    held = [guard for case in cases for guard in case.guards if guard[0] in case.index]
    if len(coordinates) != len(held):
        return None
    return HaloPlan(operand, tuple(axes), any(case.guards for case in cases))


def _reaching(extent: Extent, end: Extent) -> Extent | None:
    """The extent, or a few more, so that at all sizes it is known whether the axis ends where the
    operand does: windows with a stride may leave some of it, at some sizes. None where that is not
    known of any number."""
    if least(extent, end) is not None:
        return extent
    most = known_number(bounds_of(end - extent)[1])
    return None if most is None else extent + most
