"""Strategy: transposes, where an input is contiguous along another axis than the output.

Vectors along the output's last axis would gather such an input element by element. So blocks of
lanes x lanes are read by vectors along the input's axis, transposed in registers, and computed and
stored by vectors along the output's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.loop_cut import LoopCut, Part
from graphc.codegen.evaluate.shuffles import transpose
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.recipes.nest.emitter import NestEmitter, NestPart
from graphc.codegen.recipes.nest.problem import AxisLoop, LoopNest
from graphc.ir.dims import Extent, always_le
from graphc.ir.nodes import CONSTANT, INPUT
from graphc.ir.registry import lookup
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Movement
from graphc.schedule.access import Index


@dataclass(frozen=True, slots=True)
class TransposedPlan:
    """The two innermost loops run in blocks of lanes x lanes."""

    nest: LoopNest

    @staticmethod
    def of(nest: LoopNest) -> TransposedPlan | None:
        """For an elementwise nest with an input that lies along its second-last loop."""
        body = nest.body
        plain = all(
            node.op in (INPUT, CONSTANT) or isinstance(lookup(node.op), Elementwise | Movement)
            for node in body.nodes
        )
        if not plain or len(nest.loops) < 2 or nest.lanes < 4:
            return None
        if any(type.shape != nest.domain.shape for type in body.output_types):
            return None
        row, column = nest.loops[-2].variable, nest.loops[-1].variable
        if not all(always_le(nest.lanes, loop.extent) for loop in (row, column)):
            return None
        reads = nest.reads()
        if any(read.guarded for read in reads):
            return None
        along_rows = any(_lies_along_rows(nest.problem.linear(read), row, column) for read in reads)
        return TransposedPlan(nest) if along_rows else None

    def lower(self, emit: NestEmitter) -> Kernel:
        return emit.over_loops(self.nest, 2, TransposedRows(emit, self.nest).write)


@dataclass(frozen=True, slots=True)
class TransposedRows(NestPart):
    """Writes the two innermost loops, over `rows` and `columns`."""

    nest: LoopNest

    @property
    def lanes(self) -> int:
        return self.nest.lanes

    @property
    def rows(self) -> AxisLoop:
        return self.nest.loops[-2]

    @property
    def columns(self) -> AxisLoop:
        return self.nest.loops[-1]

    def write(self, prefix: Index, part: Part | None) -> Extent:
        self._row_blocks(prefix, part)
        return self._cut(self.rows).tiles

    def _cut(self, loop: AxisLoop) -> LoopCut:
        return LoopCut(loop.variable.extent, self.lanes)

    def _row_blocks(self, prefix: Index, part: Part | None) -> None:
        """All blocks of rows, or a part of them."""

        def rows(number: Expr, rest: Extent | None) -> None:
            first = number * self.lanes
            if rest is None:
                self._block_row(prefix, first)
            else:
                self._single_rows(prefix, first, rest)

        self._cut(self.rows).each(self.evaluator.addresses, "rows_block", rows, part)

    def _block_row(self, prefix: Index, first: Expr) -> None:
        """Rows first…first + lanes."""

        def columns(number: Expr, rest: Extent | None) -> None:
            if rest is None:
                self._block(prefix, first, number * self.lanes)
                return
            with self._each_row(first, self.lanes) as row:
                self._row_vector(prefix, row, number, rest)

        self._cut(self.columns).each(self.evaluator.addresses, "columns_block", columns)

    def _block(self, prefix: Index, row: Expr, column: Expr) -> None:
        lane = Variable("transposed_lane", self.lanes)
        block = self.builder.block
        self.evaluator.addresses.bind_lane(lane, block)
        sample = self.nest.problem.reads(self._index_at(prefix, row + of(lane), column))
        transposed = [
            position for position, read in enumerate(sample)
            if self.nest.problem.linear(read).coefficient(lane) == 1
        ]  # fmt: skip
        along = [
            self.nest.problem.reads(self._index_at(prefix, row + of(lane), column + c))
            for c in range(self.lanes)
        ]
        across = [
            self.nest.problem.reads(self._index_at(prefix, row + r, column + of(lane)))
            for r in range(self.lanes)
        ]
        for position in transposed:
            if self.nest.problem.linear(across[0][position]).coefficient(lane) in (0, 1):
                continue
            vectors = [
                self.evaluator.value(at_column[position].value, at_column[position].index)
                for at_column in along
            ]
            for r, vector in enumerate(transpose(self.builder, vectors)):
                read = across[r][position]
                self.evaluator.bind(read.value, read.index, vector, block)
        for r in range(self.lanes):
            self._store(self._index_at(prefix, row + r, column + of(lane)))

    def _single_rows(self, prefix: Index, first: Expr, count: Extent) -> None:
        """Rows one by one."""
        with self._each_row(first, count) as row:
            self._cut(self.columns).each(
                self.evaluator.addresses, "v_single", partial(self._row_vector, prefix, row)
            )

    @contextmanager
    def _each_row(self, first: Expr, count: Extent) -> Iterator[Expr]:
        """A loop over `count` rows, with the number of the row."""
        with self.builder.loop(0, count, hint="row") as loop:
            row = Variable(f"single_{count}", count)
            self.evaluator.addresses.bind(row, loop.variable, self.builder.block)
            yield first + of(row)

    def _row_vector(self, prefix: Index, row: Expr, number: Expr, rest: Extent | None) -> None:
        lane = Variable("single_lane", self.lanes)
        self.evaluator.addresses.bind_lane(lane, self.builder.block)
        guards: tuple[Guard, ...] = () if rest is None else ((of(lane), 0, rest),)
        index = self._index_at(prefix, row, number * self.lanes + of(lane))
        self._store(index, guards)

    def _store(self, index: Index, guards: tuple[Guard, ...] = ()) -> None:
        self.emit.store(self.nest, len(self.nest.loops), index, guards)

    def _index_at(self, prefix: Index, row: Expr, column: Expr) -> Index:
        at = self.nest.domain.at
        return prefix + at(self.rows, row) + at(self.columns, column)


def _lies_along_rows(linear: Expr, row: Variable, column: Variable) -> bool:
    return linear.coefficient(row) == 1 and linear.coefficient(column) not in (0, 1)
