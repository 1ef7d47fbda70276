"""What a convolution's vector operand is asked for: windows that move over planes.

In: a `ContractionView`, and the coordinate that is to run along vectors. Out: `Windows`, which of
the operand's axes are what, and how many products there are without those off the edge; None where
it is no convolution.
"""

from __future__ import annotations

import math

import numpy as np

from graphc.codegen.kernels.contraction.problem.view import ContractionView, batch_variables
from graphc.ir.dims import Extent, is_single, known_number
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import guards_hold
from graphc.records import record
from graphc.schedule.access import Index, as_index, unflatten


@record
class Windows:
    """`extent`: of the coordinate along vectors, the first of the batch (images) or, with
    `by_column`, the first of n (channels of a weight gradient). The other coordinates of n are the
    *positions*; of k the first is gone through, the others are the *taps*. `places` are the axes of
    operand `operand` that positions and taps lead to, `size` their extents. `products`: the pairs
    of a position and a tap that are not skipped."""

    by_column: bool
    extent: Extent
    positions: Shape
    operand: int
    places: tuple[int, ...]
    size: Shape
    products: int

    def index(self, at: Index, along: Expr, position: Expr) -> tuple[Index, Index]:
        """The coordinates of the batch and of n; `at` is the whole batch."""
        n = unflatten(position, self.positions)
        return (at, (along, *n)) if self.by_column else ((along, *at[1:]), n)


def windows_of(view: ContractionView, by_column: bool) -> Windows | None:
    """The windows of a view, whose other operand does not depend on what runs along vectors."""
    if view.swapped or len(view.k) < 2 or len(view.m) != 1 or not view.batch:
        return None
    extent = view.n[0] if by_column else view.batch[0]
    batch, n, k = (
        tuple(Variable(f"probe_{name}{axis}", dim) for axis, dim in enumerate(dims))
        for name, dims in (("b", view.batch), ("n", view.n), ("k", view.k))
    )
    along = n[0] if by_column else batch[0]
    moving, fixed = {*n, *k[1:]} - {along}, {*batch, k[0]} - {along}
    at_b, at_n, at_k = (tuple(of(v) for v in each) for each in (batch, n, k))
    other = view.broadcast(at_b, (of(Variable("probe_m", view.m[0])),), at_k)
    case = view.vector(at_b, at_n, at_k)
    if (
        is_single(extent)
        or other is None
        or other.guards
        or case is None
        or view.linear(other) is None
    ):
        return None
    if any(along in item.variables() for item in other.index):
        return None
    if not all(guard[0].variables() <= moving for guard in case.guards):
        return None
    kinds = [_kind(item, along, moving, fixed) for item in case.index]
    if kinds.count("along") != 1 or None in kinds:
        return None
    places = tuple(axis for axis, kind in enumerate(kinds) if kind in ("place", "inside"))
    shape = [
        (_inside(item, moving) if kind == "inside" else None) or extent
        for item, kind, extent in zip(case.index, kinds, view.types[case.operand].shape)
    ]
    positions = view.n[1:] if by_column else view.n
    size: Shape = tuple(shape[axis] for axis in places)
    return Windows(
        by_column, extent, positions, case.operand, places, size, _products(view, by_column)
    )


def _kind(item: Expr, along: Variable, moving: set[Variable], fixed: set[Variable]) -> str | None:
    """What an index of the operand depends on; "inside": on where it is in a pair, and on which."""
    variables = item.variables()
    if along in variables:
        apart = item.coefficient(along) == 1 and variables <= fixed | {along}
        return "along" if apart else None
    if variables <= fixed:
        return "fixed"
    if variables <= moving:
        return "place"
    apart = (item - _moved(item, moving)).variables() <= fixed
    return "inside" if apart and _inside(item, moving) is not None else None


def _inside(item: Expr, moving: set[Variable]) -> int | None:
    """How many places of an axis positions and taps lead to, from the first on; None where that is
    no number, or they do not begin there."""
    low, high = _moved(item, moving).bounds()
    return known_number(high + 1) if low == 0 else None


def _moved(item: Expr, moving: set[Variable]) -> Expr:
    """The part of an index that positions and taps lead to."""
    terms = (term for term in item.terms if Expr(0, frozenset((term,))).variables() <= moving)
    return Expr(item.constant, frozenset(terms))


def _products(view: ContractionView, by_column: bool) -> int:
    first = 1 if by_column else 0
    shape = view.n[first:] + view.k[1:]
    grid = np.indices(shape, sparse=True)
    count = len(view.n) - first
    n, k = (*(0,) * first, *grid[:count]), (0, *grid[count:])
    batch = (0,) * len(view.batch)
    case = view.op.right(batch, n, k, view.types, **view.attributes)
    return int(guards_hold(case.guards, shape).sum())


def index_of(view: ContractionView, windows: Windows, along: Expr, first: Expr) -> Index:
    """The operand's index for the coordinate along vectors and the first of k, at any place."""
    at = tuple(of(variable) for variable in batch_variables(view))
    batch, n = windows.index(at, along, of(0))
    k = (first, *(of(0) for _ in view.k[1:]))
    return as_index(view.op.right(batch, n, k, view.types, **view.attributes).index)


def index_in(view: ContractionView, windows: Windows, along: Expr, first: Expr, place: Expr
             ) -> Index:  # fmt: skip
    """The operand's index for the coordinate along vectors and the first of k, at a place."""
    index = list(index_of(view, windows, along, first))
    nowhere = (of(0),) * len(view.batch)
    batch, n = windows.index(nowhere, of(0), of(0))
    k = (of(0),) * len(view.k)
    start = as_index(view.op.right(batch, n, k, view.types, **view.attributes).index)
    for axis, at in zip(windows.places, unflatten(place, windows.size), strict=True):
        index[axis] = index[axis] - start[axis] + at
    return tuple(index)


def copied_elements(view: ContractionView, windows: Windows) -> Extent:
    """Elements of the operand that one lane is computed from."""
    first: Extent = view.k[0]
    return first * math.prod(windows.size)
