"""The recipe `nest` where an input is contiguous along another axis than the output: a transpose.

Vectors along the output's last axis would gather such an input element by element. So blocks of
lanes x lanes are read by vectors along the input's axis, transposed in registers, and computed and
stored by vectors along the output's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.evaluate.loop_cut import LoopCut, Part
from graphc.codegen.evaluate.shuffles import transpose
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.recipes.nest.destinations import StoreDestination
from graphc.codegen.recipes.nest.rows import AxisLoop, Nest
from graphc.ir.dims import Extent, always_le
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.ir.registry import lookup
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.movement import Movement
from graphc.schedule.access import Index, Read, reads, unflatten


class TransposedNest(Nest):
    """A nest whose two innermost loops, over `rows` and `columns`, run in blocks."""

    def __init__(
        self,
        builder: LoopBuilder,
        evaluator: Evaluator,
        body: Graph,
        outputs: list[StoreDestination],
    ):
        super().__init__(builder, evaluator, body, outputs)
        self.rows, self.columns = self.loops[-2:]

    @staticmethod
    def fits(nest: Nest) -> bool:
        """Whether the nest is elementwise, with an input that lies along its second-last loop."""
        body = nest.body
        plain = all(
            node.op in (INPUT, CONSTANT) or isinstance(lookup(node.op), Elementwise | Movement)
            for node in body.nodes
        )
        if not plain or len(nest.loops) < 2 or nest.lanes < 4:
            return False
        if any(type.shape != nest.domain for type in body.output_types):
            return False
        row, column = nest.loops[-2].variable, nest.loops[-1].variable
        if not all(always_le(nest.lanes, loop.extent) for loop in (row, column)):
            return False
        if any(read.guarded for read in nest.all_reads()):
            return False
        return any(_lies_along_rows(nest, read, row, column) for read in nest.all_reads())

    def build(self) -> Kernel:
        outer, part = self.loops[:-2], (self.builder.begin, self.builder.end)
        if not outer:
            self._row_blocks((), part)
            return self.builder.finish(extent=self._cut(self.rows).tiles)
        with self.builder.loop(*part, hint="i0") as loop:
            self._outer(0, loop.variable, ())
        return self.builder.finish(extent=outer[0].variable.extent)

    def _outer(self, level: int, variable: LoopValue, index: Index) -> None:
        loop = self.loops[level]
        self.evaluator.integers.bind(loop.variable, variable, self.builder.block)
        index += unflatten(of(loop.variable), self.domain[loop.first : loop.last + 1])
        if level + 3 == len(self.loops):
            self._row_blocks(index, None)
            return
        extent = self.builder.bound(self.loops[level + 1].variable.extent)
        with self.builder.loop(0, extent, hint=f"i{level + 1}") as inner:
            self._outer(level + 1, inner.variable, index)

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

        self._cut(self.rows).each(self.evaluator.integers, "rows_block", rows, part)

    def _block_row(self, prefix: Index, first: Expr) -> None:
        """Rows first…first + lanes."""

        def columns(number: Expr, rest: Extent | None) -> None:
            if rest is None:
                self._block(prefix, first, number * self.lanes)
                return
            with self._each_row(first, self.lanes) as row:
                self._row_vector(prefix, row, number, rest)

        self._cut(self.columns).each(self.evaluator.integers, "columns_block", columns)

    def _block(self, prefix: Index, row: Expr, column: Expr) -> None:
        lane = Variable("transposed_lane", self.lanes)
        block = self.builder.block
        self.evaluator.integers.bind_lane(lane, block)
        sample = self._reads_at(self._index_at(prefix, row + of(lane), column))
        transposed = [
            position for position, read in enumerate(sample)
            if flatten(read.index, self.body.type_of(read.value).shape).coefficient(lane) == 1
        ]  # fmt: skip
        along = [
            self._reads_at(self._index_at(prefix, row + of(lane), column + c))
            for c in range(self.lanes)
        ]
        across = [
            self._reads_at(self._index_at(prefix, row + r, column + of(lane)))
            for r in range(self.lanes)
        ]
        for position in transposed:
            if _lane_step(self, across[0][position], lane) in (0, 1):
                continue
            vectors = [
                self.evaluator.value(at_column[position].value, at_column[position].index)
                for at_column in along
            ]
            for r, vector in enumerate(transpose(self.builder, vectors)):
                read = across[r][position]
                self.evaluator.bind(read.value, read.index, vector, block)
        for r in range(self.lanes):
            self._store_level(len(self.loops), self._index_at(prefix, row + r, column + of(lane)))

    def _single_rows(self, prefix: Index, first: Expr, count: Extent) -> None:
        """Rows one by one."""
        with self._each_row(first, count) as row:
            self._cut(self.columns).each(
                self.evaluator.integers, "v_single", partial(self._row_vector, prefix, row)
            )

    @contextmanager
    def _each_row(self, first: Expr, count: Extent) -> Iterator[Expr]:
        """A loop over `count` rows, with the number of the row."""
        with self.builder.loop(0, self.builder.bound(count), hint="row") as loop:
            row = Variable(f"single_{count}", count)
            self.evaluator.integers.bind(row, loop.variable, self.builder.block)
            yield first + of(row)

    def _row_vector(self, prefix: Index, row: Expr, number: Expr, rest: Extent | None) -> None:
        lane = Variable("single_lane", self.lanes)
        self.evaluator.integers.bind_lane(lane, self.builder.block)
        guards: tuple[Guard, ...] = () if rest is None else ((of(lane), 0, rest),)
        index = self._index_at(prefix, row, number * self.lanes + of(lane))
        self._store_level(len(self.loops), index, guards)

    def _index_at(self, prefix: Index, row: Expr, column: Expr) -> Index:
        for loop, position in ((self.rows, row), (self.columns, column)):
            prefix += unflatten(position, self.domain[loop.first : loop.last + 1])
        return prefix

    def _reads_at(self, index: Index) -> list[Read]:
        from_memory: list[Read] = []
        for output in self.body.outputs:
            from_memory += reads(self.body, output, index, self.is_input)
        return from_memory


def _lies_along_rows(nest: Nest, read: Read, row: Variable, column: Variable) -> bool:
    linear = flatten(read.index, nest.body.type_of(read.value).shape)
    return linear.coefficient(row) == 1 and linear.coefficient(column) not in (0, 1)


def _lane_step(nest: Nest, read: Read, lane: Variable) -> Extent | None:
    return flatten(read.index, nest.body.type_of(read.value).shape).coefficient(lane)
