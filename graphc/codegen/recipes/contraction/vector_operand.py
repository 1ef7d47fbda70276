"""The operand of a contraction that is read by vectors of columns.

It is read where it lies, from a panel [k][columns of one tile], or from the box a window sweeps
over (`panel.py`, `box.py`).
"""

from __future__ import annotations

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.copier import Copier
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.recipes.contraction.choice import Choice
from graphc.codegen.recipes.contraction.halo import Box
from graphc.codegen.recipes.contraction.panel import Panel
from graphc.codegen.recipes.contraction.tiles import OutputTile
from graphc.codegen.recipes.contraction.view import operand_value
from graphc.ops.kinds.index_expr import Expr, flatten, of
from graphc.ops.kinds.movement import Case
from graphc.schedule.access import Index, unflatten


class VectorOperand:
    """Reads the operand, and copies it where the choice says so."""

    def __init__(self, copier: Copier, choice: Choice) -> None:
        self.copier = copier
        self.builder, self.evaluator = copier.builder, copier.evaluator
        self.view, self.choice = choice.view, choice
        self.lanes = choice.lanes
        self.width = choice.tile.vectors * self.lanes
        self.box: Box | None = None
        self.panel: Panel | None = None
        self._loaded: dict[Expr, list[tuple[LoopValue, OpenBlock]]] = {}

    def new_box(self) -> None:
        assert self.choice.box is not None
        self.box = Box(self.copier, self.view, self.choice.right_operand, self.choice.box)
        self.box.clear()

    def new_panel(self, depth: int) -> None:
        self.panel = Panel(self.copier, self.view, "right", depth, self.width)

    def copy_tile(self, at: OutputTile, depth: int) -> None:
        """The columns of one tile, all of k, into the panel."""
        if self.panel is None:
            self.new_panel(depth)
        panel = self.panel
        assert panel is not None
        start, width = at.vector * self.lanes, at.vectors * self.lanes
        if start.is_constant:
            width = min(width, at.columns.lanes_used - start.constant)
        panel.depth = depth
        panel.fill(
            lambda run: run(of(0)), width,
            lambda _, k, c: self.view.vector(
                at.batch, at.columns.index(start + c), unflatten(k, self.view.k)
            ),
            lambda _: of(0),
        )  # fmt: skip

    def vector(
        self, batch: Index, n: Index, guards: tuple[Guard, ...], k: Index, column: Expr, start: Expr
    ) -> LoopValue | None:
        """The elements at n and k; None where their products are skipped. In the panel they are
        those from `column` on, and index k is row `start` + k."""
        if self.panel is not None:
            row = start + flatten(k, self.view.k)
            return self.panel.load(row * self.panel.columns + column)
        case = self.view.vector(batch, n, k)
        if case is None:
            return None
        if self.box is not None:
            return self._from_box(self.box, case)
        value = operand_value(self.evaluator, self.view, case, guards)
        return self.builder.splat(value, self.lanes)

    def _from_box(self, box: Box, case: Case) -> LoopValue:
        """A vector of the box; for tiles of one row loaded once where windows share it."""
        at = box.position(case.index)
        for known, block in self._loaded.get(at, ()) if self.choice.tile.rows == 1 else ():
            if self.evaluator.usable(block):
                return known
        made = self.builder.splat(box.load(case), self.lanes)
        self._loaded.setdefault(at, []).append((made, self.builder.block))
        return made
