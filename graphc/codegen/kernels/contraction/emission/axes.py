"""The axes of a contraction's nests, and the loops over its batch.

In: a problem. Out: axes by name (`rows`, `columns`, `k`, a `b0` for each axis of the batch), splits
of them, a nest whose outermost loops are those over the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.codegen.kernels.contraction.cost.tiles import Columns, Tile
from graphc.codegen.kernels.contraction.problem.k_blocks import known_cut
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.kernels.contraction.problem.view import batch_variables
from graphc.codegen.nests.nest import (
    Axis,
    ForEach,
    Holds,
    Nest,
    Role,
    Split,
    Stage,
    Statement,
    walk_splits,
)
from graphc.codegen.nests.tails import Tail
from graphc.ir.dims import Extent
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Variable, flatten, of
from graphc.records import record, replace

ROWS, COLUMNS, SUM = "rows", "columns", "k"


def each(name: str, variable: Variable, role: Role, number: int = 0) -> Split:
    """One position after the other, as this variable; `number`: see Axis."""
    axis = Axis(name, variable.extent, role, number)
    return Split(name, axis, 1, Tail.EXACT, variable=variable.name)


def batch_loops(problem: ContractionProblem, first: int = 0) -> list[Variable]:
    """The variables of the batch's axes, from the first so many on, that need a loop."""
    return [v for v in batch_variables(problem.view)[first:] if v.extent != 1]


def batch_of(
    problem: ContractionProblem, loops: Sequence[Variable], holds: Holds
) -> tuple[str, ...]:
    """The names of the loops over the batch along which an operand differs; sums along all."""
    view, k = problem.view, tuple(of(variable) for variable in k_variables(problem.view))
    m, n = (
        tuple(of(Variable(f"probe_{name}{axis}", extent)) for axis, extent in enumerate(extents))
        for name, extents in (("m", view.m), ("n", view.n))
    )
    if holds is Holds.BROADCAST:
        case = view.broadcast(problem.batch, m, k)
    else:
        case = view.vector(problem.batch, n, k) if holds is Holds.VECTORS else None
    if case is None:
        return tuple(variable.name for variable in loops)
    used = {v for item in (*case.index, *(g[0] for g in case.guards)) for v in item.variables()}
    return tuple(variable.name for variable in loops if variable in used)


def sum_axis(problem: ContractionProblem) -> Axis:
    """The axis of sums: the first of the reduced coordinates, with all indices of those behind."""
    k = problem.view.k
    axis, step = known_cut(k) or (0, None)
    block = step if step is None else max(step, 1) if axis == 0 else 1
    return Axis(SUM, k[0] if k else 1, Role.SUM, inner=math.prod(k[1:]), block=block)


@record
class VectorCells:
    """Columns by vectors: the lanes of a vector that are there; `shape`: of n."""

    columns: Columns
    shape: Shape

    @property
    def count(self) -> int:
        return self.columns.row_count * self.columns.lanes_used

    def coordinates(self, position: int) -> tuple[int, ...]:
        columns = self.columns
        row, block = columns.row_and_block(of(position))
        first = block.number * columns.lanes
        lanes = range(first, min(first + columns.lanes, columns.lanes_used))
        at = (columns.index(of(lane), row) for lane in lanes)
        return tuple(flatten(index, self.shape).number for index in at)


def vector_axis(problem: ContractionProblem, columns: Columns, name: str = COLUMNS) -> Axis:
    """The axis of vectors of columns."""
    cells = VectorCells(columns, problem.view.n)
    return Axis(name, columns.vectors, Role.COLUMNS, cells=cells)


def column_split(
    problem: ContractionProblem, columns: Columns, tile: Tile, name: str = COLUMNS,
    variable: str = "columns",
) -> Split:  # fmt: skip
    """Vectors of columns in tiles: runs of equal ones."""
    axis, runs = vector_axis(problem, columns, name), tuple(columns.tiles(tile))
    return Split(name, axis, tile.vectors, Tail.RUNS, runs, variable)


@record
class BatchNest:
    """What a strategy writes for each element of the batch. `once`: ahead of all of them.
    `covered`: axes that leaves go through and no loop does, but for `rows`, `columns` and `k`."""

    problem: ContractionProblem
    stages: tuple[Stage, ...]
    body: tuple[Statement, ...]
    note: str
    once: tuple[Statement, ...] = ()
    parallel: tuple[Split, ...] = ()
    fused: Split | None = None
    covered: tuple[Axis, ...] = ()

    def nest(self, loops: Sequence[Variable]) -> Nest:
        """The nest in loops over these variables of the batch. What is split is the outermost of
        them; where there is none, what `parallel` says."""
        numbers = {v.name: i for i, v in enumerate(batch_variables(self.problem.view))}
        splits = [each(v.name, v, Role.BATCH, numbers[v.name]) for v in loops]
        body = self.body
        for split in reversed(splits):
            body = (ForEach(split, body, always=True),)
        nest = Nest(
            self.problem.name, self._domain(), self._axes((*self.once, *body)), self.stages,
            self.parallel, (*self.once, *body), self.note, self.fused,
        )  # fmt: skip
        return replace(nest, parallel=(splits[0],), fused=None) if splits else nest

    def _domain(self) -> tuple[tuple[Role, Extent], ...]:
        problem = self.problem
        return (
            (Role.BATCH, problem.batch_count), (Role.ROWS, problem.rows),
            (Role.COLUMNS, math.prod(problem.view.n)), (Role.SUM, problem.depth),
        )  # fmt: skip

    def _axes(self, body: tuple[Statement, ...]) -> tuple[Axis, ...]:
        """Those of loops, and those that only leaves go through."""
        axes = dict.fromkeys((*(split.axis for split in walk_splits(body)), *self.covered))
        roles = {axis.role for axis in axes}
        if Role.ROWS not in roles and self.problem.rows != 1:
            axes[Axis(ROWS, self.problem.rows, Role.ROWS)] = None
        if Role.COLUMNS not in roles and math.prod(self.problem.view.n) != 1:
            axes[Axis(COLUMNS, math.prod(self.problem.view.n), Role.COLUMNS)] = None
        if Role.SUM not in roles:
            axes[sum_axis(self.problem)] = None
        return tuple(axes)
