"""Contractions whose results come in phases, every second one along the vectors.

The gradient of a strided convolution has other products for even and odd coordinates, so these are
computed apart; kept in scratch, two vectors of them then make two vectors of neighbours, for which
the body's outputs are computed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.recipes.contraction.choice import Choice
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile
from graphc.codegen.recipes.contraction.unblocked import ByColumns
from graphc.codegen.recipes.contraction.view import Phase, batch_variables
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index, unflatten


class ByPhases(ByColumns):
    """All phases of one batch element, then its outputs."""

    def __init__(
        self, builder: LoopBuilder, evaluator: Evaluator, outputs: list[Buffer], choice: Choice
    ) -> None:
        """Phases without any product (a 1x1 kernel has them) are zeros, and take no part."""
        computed = [phase for phase in choice.phases if _has_products(choice, phase)]
        super().__init__(builder, evaluator, outputs, replace(choice, phases=computed))
        self.every = choice.phases
        self.zero = {phase.offsets for phase in choice.phases if phase not in computed}

    def prepare(self, batch: Index, loops: list[Variable]) -> None:
        columns = [self.choice.columns(phase) for phase in self.choice.phases]
        self.blocks = max((column.blocks for column in columns), default=1)
        self.starts: dict[Shape, int] = {}
        size = 0
        for column in columns:
            self.starts[column.phase.offsets] = size
            size += self.rows * column.row_count * self.blocks * self.lanes
        self.results = self.builder.scratch("results", self.dtype, max(size, 1))
        super().prepare(batch, loops)

    def batch_element(self, batch: Index, split: bool) -> int:
        """A single one is not split."""
        super().batch_element(batch, split=False)
        rows = Variable("result_row", max(self.rows, 1))
        with self.builder.loop(0, self.rows, hint="row") as loop:
            self.integers.bind(rows, loop.variable, self.builder.block)
            for phase in self.every:
                if phase.offsets[-1] == 0:
                    self._outputs(batch, of(rows), self.choice.columns(phase))
        return 1

    def store(self, at: OutputTile, lane: Expr, totals: list[LoopValue]) -> None:
        """The results of one phase, in scratch."""
        for r in range(at.rows):
            for v in range(at.vectors):
                row, block = at.columns.row_and_block(at.vector + v)
                position = self._position(at.row + r, at.columns, row, block) + lane
                self.evaluator.store(self.results, position, totals[r * at.vectors + v])

    def _position(self, m: Expr, columns: Columns, row: Expr, block: Expr) -> Expr:
        start = self.starts[columns.phase.offsets]
        at = (m * columns.row_count + row) * self.blocks + block
        return at * self.lanes + start

    def _result(
        self, m: Expr, columns: Columns, row: Expr, block: Expr, lane: Expr, filled_in: OpenBlock
    ) -> LoopValue:
        if columns.phase.offsets in self.zero:
            return self.zeros[0]
        at = self._position(m, columns, row, block) + lane
        return self.evaluator.load(self.results, at, (), filled_in)

    def _outputs(self, batch: Index, m: Expr, even: Columns) -> None:
        """The outputs of one row for the coordinates of a phase and of its odd neighbour."""
        phase = even.phase
        odd = next(p for p in self.every if p.offsets == (*phase.offsets[:-1], 1))
        extents = tuple(phase.extents[axis] for axis in even.row_axes)
        whole, rest = divmod(self.view.n[-1], 2 * self.lanes)

        def row(r: Expr) -> None:
            at = unflatten(r, extents)
            outer = tuple(
                i * step + offset
                for i, step, offset in zip(at, phase.steps, phase.offsets, strict=False)
            )
            filled_in = self.builder.block

            def pair(block: Expr, count: int) -> None:
                lane = self.copier.lane()
                a, b = (
                    self._result(m, columns, r, block, lane, filled_in)
                    for columns in (even, self.choice.columns(odd))
                )
                for half in range(2 if count > self.lanes else 1):
                    vector = self._interleaved(a, b, half)
                    w = block * (2 * self.lanes) + half * self.lanes + lane
                    kept = min(count - half * self.lanes, self.lanes)
                    guards: tuple[Guard, ...] = ((lane, 0, kept),) if kept < self.lanes else ()
                    index = self.view.out(batch, self.m(m), (*outer, w))
                    self.finish(index, guards, vector)

            if whole:
                self.copier.loop(whole, "pair", lambda block: pair(block, 2 * self.lanes))
            if rest:
                pair(of(whole), rest)

        self.copier.loop(math.prod(extents), "r", row)

    def _interleaved(self, a: LoopValue, b: LoopValue, half: int) -> LoopValue:
        if self.lanes == 1:
            return b if half else a
        first = half * self.lanes // 2
        order = [first + i // 2 + (self.lanes if i % 2 else 0) for i in range(self.lanes)]
        return self.builder.shuffle(a, b, order)


def _has_products(choice: Choice, phase: Phase) -> bool:
    view = choice.view
    n = phase.index(
        tuple(of(Variable(f"probe_n{a}", extent)) for a, extent in enumerate(phase.extents))
    )
    batch = tuple(of(variable) for variable in batch_variables(view))
    channels = [Variable(f"probe_k{a}", dim) for a, dim in enumerate(view.k)]
    looped = tuple(of(variable) for variable in channels[: choice.unrolled])
    return any(
        view.vector(batch, n, (*looped, *(of(t) for t in tap))) is not None
        for tap in itertools.product(*map(range, view.k[choice.unrolled :]))
    )
