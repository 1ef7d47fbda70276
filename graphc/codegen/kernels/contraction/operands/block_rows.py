"""The rows of a product in scaled blocks: quads of i8, and the sums over blocks.

in : the left operand of `block_matmul`
out: a stage of its rows as i32 that are quads, of what sums of a block begin at (the columns' zero
     point times the row's sum, less than zero), and of the row's sums as floats, for the minimums
"""

from __future__ import annotations

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.k_groups import (
    FilledGroups,
    GroupMemory,
    GroupRows,
    KGroup,
)
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.nests.nest import Holds, NestPlace, Room
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr
from graphc.ops.nn.block_products import QUAD, parts_of
from graphc.records import record

SIGNED_QUADS = KGroup("quad", QUAD, "dot_quads", takes=lambda problem: False, ways=())
"""Quads of bytes that are multiplied as they are: the columns' are the unsigned ones."""
_ONES = int.from_bytes(bytes([1] * QUAD), "little")


@record
class FilledRows:
    """Reads what was copied of rows."""

    stage: BlockRows
    quads: FilledGroups
    sums: RowSums

    def quad(self, emit: Emitter, row: Expr, number: Expr) -> LoopValue:
        return self.quads.load(emit, self.stage.quads.position(row, number))

    def start(self, emit: Emitter, row: Expr, block: Expr) -> LoopValue:
        """What the sums of a block begin at, in all lanes."""
        b = emit.builder
        if self.sums.starts is None:
            return b.splat(b.const(DType.i32, 0), emit.lanes)
        return b.splat(self._read(emit, self.sums.starts, row, block), emit.lanes)

    def whole(self, emit: Emitter, row: Expr, block: Expr) -> LoopValue:
        """The sum of the row's elements in a block, a float."""
        assert self.sums.floats is not None
        return self._read(emit, self.sums.floats, row, block)

    def scale(self, emit: Emitter, row: Expr, block: Expr) -> LoopValue:
        return emit.evaluator.value(emit.view.node.operands[1], (row, block))

    def _read(self, emit: Emitter, memory: Buffer, row: Expr, block: Expr) -> LoopValue:
        at = row * self.stage.sums_stride + block
        return emit.evaluator.load(memory, at, (), self.quads.filled_in)


@record
class RowSums:
    """Scratch of what follows from the sums over blocks; None where nobody asks."""

    starts: Buffer | None
    floats: Buffer | None


@record
class BlockRows:
    """The stage of all rows. `along_k`: as in GroupRows."""

    problem: ContractionProblem
    along_k: bool
    lanes: int
    name: str = "broadcast"
    holds: Holds = Holds.BROADCAST
    whole: tuple[str, ...] = ()

    @property
    def quads(self) -> GroupRows:
        run = QUAD * self.lanes if self.along_k else 0
        return GroupRows(SIGNED_QUADS, self.problem, run, self.lanes, ())

    @property
    def room(self) -> Room:
        return self.quads.room

    @property
    def text(self) -> str:
        return f"{self.quads.text}, sums of {self.problem.view.attributes['block']}"

    @property
    def blocks(self) -> int:
        return self.problem.depth // int(self.problem.view.attributes["block"])

    @property
    def sums_stride(self) -> int:
        return -(-self.blocks // self.lanes) * self.lanes

    def declare(self, emit: Emitter) -> tuple[GroupMemory, RowSums]:
        view, size = self.problem.view, self.problem.rows * self.sums_stride
        *_, minimum = parts_of(view.node.operands, view.attributes)
        scratch = emit.builder.scratch
        return self.quads.declare(emit), RowSums(
            scratch("block_starts", DType.i32, size) if view.attributes["zero"] else None,
            scratch("block_sums", emit.dtype, size) if minimum is not None else None,
        )

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> FilledRows:
        memory, sums = place.memory[self.name]
        filled = self.quads.fill_into(emit, memory)
        if sums != RowSums(None, None):
            emit.copier.loop(
                self.problem.rows, "row", lambda row: self._sum(emit, filled, sums, row)
            )
        # What was stored above is read from here on.
        return FilledRows(self, FilledGroups(filled.memory, emit.builder.block, None), sums)

    def _sum(self, emit: Emitter, quads: FilledGroups, sums: RowSums, row: Expr) -> None:
        """The sums of one row, as many blocks at a time as there are lanes."""
        b, each = emit.builder, int(self.problem.view.attributes["block"]) // QUAD
        zero = int(self.problem.view.attributes["zero"])

        def some(tile: Expr, count: int) -> None:
            lane = emit.copier.lane()
            guards: tuple[Guard, ...] = ((lane, 0, count),) if count < emit.lanes else ()
            total = b.splat(b.const(DType.i32, 0), emit.lanes)
            ones = b.splat(b.const(DType.i32, _ONES), emit.lanes)
            for i in range(each):
                at = self.quads.position(row, (tile * emit.lanes + lane) * each + i)
                quad = emit.evaluator.load(quads.memory, at, guards, quads.filled_in)
                total = b.op("dot_quads", total, ones, b.splat(quad, emit.lanes))
            place = row * self.sums_stride + tile * emit.lanes + lane
            if sums.starts is not None:
                starts = b.mul(total, b.splat(b.const(DType.i32, -zero), emit.lanes))
                emit.evaluator.store(sums.starts, place, starts)
            if sums.floats is not None:
                emit.evaluator.store(sums.floats, place, b.convert(total, emit.dtype))

        emit.copier.tiles(self.blocks, emit.lanes, "blocks", some)
