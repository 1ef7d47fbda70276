"""The packed panel, a copy of an operand as [k][columns].

The vectors of a tile lie behind one another. It is filled by vectors: along columns where those are
neighbours in memory, by transposed blocks in registers where indices of k are, by gathers else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.copier import Copier
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.contraction.problem.view import ContractionView, operand_value
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.ir.dims import Extent, at_least, known_number
from graphc.ops.kinds.index_expr import Expr, Variable, of, resolved
from graphc.ops.kinds.movement import Case
from graphc.records import record

Tiles = Callable[[Callable[[Expr], None]], None]
"""Runs its argument for each of some tiles."""

ROWS_AT_ONCE = 8
"""Rows of which a panel's tiles are filled before the next: streams that a core fetches ahead."""

_names = itertools.count()


class Panel:
    """Scratch [k][columns] of one operand; `columns` is a multiple of the lanes of its reader."""

    def __init__(
        self, copier: Copier, view: ContractionView, name: str, depth: Extent, columns: int
    ) -> None:
        self.copier = copier
        self.view = view
        self.columns = columns
        self.memory = copier.builder.scratch(name, view.element_dtype, at_least(depth * columns, 1))

    def fill(
        self, tiles: Tiles, width: int, depth: Extent,
        element: Callable[[Expr, Expr, Expr], Case | None], first: Callable[[Expr], Expr],
        whole: bool = True,
    ) -> FilledPanel:  # fmt: skip
        """element(tile, k, column) for k below `depth` and columns below `width`, behind element
        first(tile) of the scratch. Where columns lie side by side, those of all tiles are read for
        a few k before the next: in runs of memory, no part of a cache line twice. `whole`: vectors
        are read to their ends, where zeros stand behind the last column, not what scratch held: an
        FMA on a denormal number takes as long as a hundred others."""
        copier, view = self.copier, self.view
        filled = self.filled_here()
        # Vectors along k start at multiples of the lanes: they may end where a row of k does.
        step = copier.lanes if depth % copier.lanes == 0 else 1
        extents = (at_least(depth // step, 2), step, max(width, 2))
        k, lane, column = (Variable(f"probe{next(_names)}", extent) for extent in extents)
        probe = element(of(0), of(k) * step + of(lane), of(column))
        transposed = not _side_by_side(view, probe, column)
        transposed = transposed and _side_by_side(view, probe, lane if step > 1 else k)
        known = known_number(depth)  # of a size one k is filled after the other
        transposed = transposed and known is not None

        def one(tile: Expr, begin: Expr, count: int) -> None:
            start = first(tile)

            def read(at: Expr, c: Expr, guards: tuple[Guard, ...]) -> LoopValue:
                case = element(tile, begin + at, c)
                return guarded_value(copier.evaluator, view, case, guards)

            def position(at: Expr, c: Expr) -> Expr:
                return start + (begin + at) * self.columns + c

            def row(at: Expr) -> None:
                for block, first in enumerate(range(0, width, copier.lanes)):
                    there = min(width - first, copier.lanes)
                    copier.vector(of(block), there, read, position, self.memory, at, whole)

            if transposed:
                copier.transposed(count, width, read, position, self.memory, whole)
            else:
                copier.loop(count, "row", row)

        def rows(begin: Expr, count: int) -> None:
            tiles(lambda tile: one(tile, begin, count))

        together = ROWS_AT_ONCE if len(view.k) == 1 else 1
        if transposed or known is None:
            together = known or 1
        copier.tiles(depth, together, "pk", lambda block, count: rows(block * together, count))
        return filled

    def filled_here(self) -> FilledPanel:
        """The panel, as all that fills it stands in the block at hand or ahead of it."""
        return FilledPanel(self, self.copier.builder.block)


@record
class FilledPanel:
    """A panel as it was filled in some block."""

    panel: Panel
    filled_in: OpenBlock

    def load(self, position: Expr) -> LoopValue:
        panel = self.panel
        return panel.copier.evaluator.load(panel.memory, position, (), self.filled_in)


def _side_by_side(view: ContractionView, case: Case | None, along: Variable) -> bool:
    """Whether elements lie behind one another in memory."""
    linear = view.linear(case) if case is not None and not case.guards else None
    return linear is not None and resolved(linear).coefficient(along) == 1


def guarded_value(
    evaluator: Evaluator, view: ContractionView, case: Case | None, guards: tuple[Guard, ...] = ()
) -> LoopValue:
    """An operand's element, 0 where the case's guards fail."""
    builder = evaluator.builder
    zero = builder.const(view.element_dtype, 0)
    if case is None:
        return zero
    value = operand_value(evaluator, view, case, guards)
    own = tuple(case.guards)
    if not own:
        return value
    held, where = evaluator.addresses.mask(own)
    block = evaluator.deepest([where, evaluator.block_of(value)])
    with builder.at(block):
        return evaluator.note(builder.select(held, value, zero), block)
