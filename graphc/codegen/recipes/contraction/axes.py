"""The axes of a contraction's nests, and the loops over its batch.

In: a problem. Out: axes by name (`rows`, `columns`, `k`, a `b0` for each axis of the batch), splits
of them, a nest whose outermost loops are those over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphc.codegen.nests.nest import (
    Axis,
    ForEach,
    Nest,
    Role,
    Split,
    Stage,
    Statement,
    walk_splits,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.recipes.contraction.problem import ContractionProblem
from graphc.codegen.recipes.contraction.tiles import Columns, Tile
from graphc.codegen.recipes.contraction.view import batch_variables
from graphc.ops.kinds.index_expr import Variable

ROWS, COLUMNS, SUM = "rows", "columns", "k"


def each(name: str, variable: Variable, role: Role) -> Split:
    """One position after the other, as this variable."""
    axis = Axis(name, variable.extent, role)
    return Split(name, axis, 1, Tail.EXACT, variable=variable.name)


def batch_loops(problem: ContractionProblem, first: int = 0) -> list[Variable]:
    """The variables of the batch's axes, from the first so many on, that need a loop."""
    return [v for v in batch_variables(problem.view)[first:] if v.extent != 1]


def column_split(
    columns: Columns, tile: Tile, name: str = COLUMNS, variable: str = "columns"
) -> Split:
    """Vectors of columns in tiles: runs of equal ones."""
    runs = tuple(columns.tiles(tile))
    axis = Axis(name, columns.vectors, Role.COLUMNS)
    return Split(name, axis, tile.vectors, Tail.RUNS, runs, variable)


@dataclass(frozen=True, slots=True)
class BatchNest:
    """What a strategy writes for each element of the batch. `once`: ahead of all of them."""

    problem: ContractionProblem
    stages: tuple[Stage, ...]
    body: tuple[Statement, ...]
    note: str
    once: tuple[Statement, ...] = ()
    parallel: tuple[Split, ...] = ()
    fused: Split | None = None

    def nest(self, loops: Sequence[Variable]) -> Nest:
        """The nest in loops over these variables of the batch. What is split is the outermost of
        them; where there is none, what `parallel` says."""
        splits = [each(variable.name, variable, Role.BATCH) for variable in loops]
        body = self.body
        for split in reversed(splits):
            body = (ForEach(split, body, always=True),)
        axes = dict.fromkeys(each.axis for each in walk_splits((*self.once, *body)))
        nest = Nest(
            self.problem.name, tuple(axes), self.stages, self.parallel, (*self.once, *body),
            self.note, self.fused,
        )  # fmt: skip
        return replace(nest, parallel=(splits[0],), fused=None) if splits else nest
