"""The columns of a product in scaled blocks: quads of a few bits, computed from shared bytes.

in : the right operand of `block_matmul`, its scales and minimums, one tile of columns
out: vectors of quads, an i32 a column, and of floats
"""

from __future__ import annotations

import math

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.contraction.cost.costs import CACHE_LINE, PAGE
from graphc.codegen.kernels.contraction.cost.tiles import Columns
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.block_rows import SIGNED_QUADS
from graphc.codegen.kernels.contraction.operands.k_groups import GroupSource
from graphc.codegen.kernels.contraction.problem.view import ContractionView, stored_value
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, of, resolved
from graphc.ops.kinds.movement import Case
from graphc.ops.nn.block_products import BYTE, QUAD, parts_of
from graphc.records import record


def blocks_together(view: ContractionView) -> int:
    """Blocks of a step along k: as many as share no byte with others, so that it is known where
    code is written which bits of a byte an integer has."""
    attributes = view.attributes
    widths = [attributes["bits"], *([attributes["high_bits"]] if attributes["high_bits"] else [])]
    sharing = math.lcm(*(QUAD * (BYTE // bits) for bits in widths))
    return math.lcm(attributes["block"], sharing) // int(attributes["block"])


@record
class BlockColumns:
    """Reads the columns of a tile, whose first vector is number `first`. `byte`: the lanes of a
    vector of bytes, four a column."""

    emit: Emitter
    columns: Columns
    first: Expr
    lane: Expr
    byte: Expr
    together: int
    low: int
    scales: int
    high: int | None
    minimums: int | None
    """Which operands they are."""

    @staticmethod
    def of(emit: Emitter, columns: Columns, first: Expr, lane: Expr, byte: Expr) -> BlockColumns:
        view = emit.view
        _, _, *positions = parts_of(tuple(range(len(view.types))), view.attributes)
        return BlockColumns(emit, columns, first, lane, byte, blocks_together(view), *positions)

    @property
    def has_minimum(self) -> bool:
        return self.minimums is not None

    def scale(self, v: int, block: Expr) -> LoopValue:
        return self._floats(self.scales, v, block)

    def minimum(self, v: int, block: Expr) -> LoopValue:
        assert self.minimums is not None
        return self._floats(self.minimums, v, block)

    def _floats(self, operand: int, v: int, block: Expr) -> LoopValue:
        n, guards = self.columns.place(self.first + v, self.lane)
        case, emit = Case(operand, (block, *n)), self.emit
        numbers = stored_value(emit.evaluator, emit.view, case, guards)
        return self.emit.builder.splat(numbers, self.emit.lanes)

    def quad(self, v: int, step: Expr, number: int) -> LoopValue:
        """The quads of a vector of the tile, that of a number within a step along k."""
        attributes, b = self.emit.view.attributes, self.emit.builder
        quads = self._bits(self.low, attributes["bits"], 0, (v, step, number))
        if self.high is None:
            return quads
        place = v, step, number
        return b.op(
            "or", quads, self._bits(self.high, attributes["high_bits"], attributes["bits"], place)
        )

    def _bits(self, operand: int, bits: int, above: int, place: tuple[int, Expr, int]) -> LoopValue:
        """The integers of so many bits, so many places above the lowest."""
        v, step, number = place
        b, together = self.emit.builder, BYTE // bits
        in_step = self.together * int(self.emit.view.attributes["block"]) * bits // BYTE
        row = step * in_step + number // together * QUAD
        if number % together == 0 and v * QUAD * self.emit.lanes % CACHE_LINE == 0:
            self._fetch_ahead(operand, v, row)
        bytes_of_quads = self._bytes(operand, v, row)
        if bits == BYTE:
            return bytes_of_quads
        mask = int.from_bytes(bytes([((1 << bits) - 1) << above] * QUAD), "little", signed=True)
        return b.op("and", self._moved(bytes_of_quads, number % together * bits - above),
                    b.splat(b.const(DType.i32, mask), self.emit.lanes))  # fmt: skip

    def _moved(self, quads: LoopValue, down: int) -> LoopValue:
        """Shifted; what comes from a neighbour is masked behind it."""
        if down == 0:
            return quads
        b = self.emit.builder
        amount = b.splat(b.const(DType.i32, abs(down)), self.emit.lanes)
        return b.op("lshr" if down > 0 else "shl", quads, amount)

    def _fetch_ahead(self, operand: int, v: int, row: Expr) -> None:
        """Asks for what lies a page behind what a single row's product reads: it waits for memory,
        and processors that fetch ahead by themselves begin anew with each page. (Measured: 3 to
        4.5 KB gain a tenth, 2 and 8 nothing.)"""
        place = self.emit.view.place(self._case(operand, v, row, of(0)))
        if place is not None and self.emit.problem.rows == 1 and self._is_run(operand, v, row):
            number, linear = place
            self.emit.evaluator.prefetch(number, linear + PAGE)

    def _case(self, operand: int, v: int, row: Expr, byte: Expr) -> Case:
        """A byte of the quads of a vector, whose first are in `row`."""
        column = (self.first + v) * self.emit.lanes + byte // QUAD
        return Case(operand, (row + byte % QUAD, *self.columns.index(column)))

    def _is_run(self, operand: int, v: int, row: Expr) -> bool:
        """Whether the bytes of a vector lie side by side."""
        linear = self.emit.view.linear(self._case(operand, v, row, self.byte))
        (lane,) = self.byte.variables()
        return linear is not None and resolved(linear).coefficient(lane) == 1

    def _bytes(self, operand: int, v: int, row: Expr) -> LoopValue:
        """Four rows of bytes from `row` on, as an i32 for each column."""
        emit, columns = self.emit, self.columns
        first = (self.first + v) * emit.lanes
        case = self._case(operand, v, row, self.byte)
        if not self._is_run(operand, v, row):
            source = GroupSource(
                emit, SIGNED_QUADS, DType.u8, lambda k, n: Case(operand, (k, *columns.index(n)))
            )
            position = first + self.lane
            return source.across_k(row, position, self._there(position), QUAD)
        guards = self._there(first + self.byte // QUAD)
        read = stored_value(emit.evaluator, emit.view, case, guards)
        block = emit.evaluator.block_of(read)
        with emit.builder.at(block):
            return emit.evaluator.note(emit.builder.bitcast(read, DType.i32), block)

    def _there(self, position: Expr) -> tuple[Guard, ...]:
        used = self.columns.lanes_used
        return () if position.within(0, used) else ((position, 0, used),)
