"""Copies of operands of bytes as quads of neighbours along k, each an i32, the first one low.

In: an operand's elements, and along what they lie side by side. Out: stages of both operands, in
scratch, and readers. The instruction multiplies u8 by i8, so an i8 that is broadcast is copied as a
u8, 128 more than it is, and sums begin at -128 times those of the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.copier import Copier
from graphc.codegen.evaluate.shuffles import transpose
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.nests.nest import Holds, NestPlace, Room
from graphc.codegen.recipes.contraction.emitter import Emitter
from graphc.codegen.recipes.contraction.pairs import room_of_tile
from graphc.codegen.recipes.contraction.problem import ContractionProblem
from graphc.codegen.recipes.contraction.tiles import Columns
from graphc.codegen.recipes.contraction.view import stored_value
from graphc.ir.dims import fixed
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Case
from graphc.ops.layouts.quads import OFFSET, QUAD

OFFSETS = int.from_bytes(bytes([OFFSET] * QUAD), "little", signed=True)
_ALIASING = 1024
"""Bytes between rows of which some would share a set of L1."""

Element = Callable[[Expr, Expr], Case]
"""The element at a k, and a row or column."""


def quad_count(problem: ContractionProblem) -> int:
    return -(-problem.depth // QUAD)


def is_signed(problem: ContractionProblem) -> bool:
    """Whether the operand that is broadcast is i8."""
    return problem.view.types[0].dtype is DType.i8


def packed_case(
    problem: ContractionProblem, columns: Columns, quad: Expr, vector: Expr, lane: Expr, byte: Expr
) -> Case | None:
    """The element of a quad at a lane of a vector of columns."""
    n = columns.index(vector * columns.lanes + lane)
    return problem.view.vector(problem.batch, n, problem.k(quad * QUAD + byte))


def is_packed(problem: ContractionProblem, columns: Columns) -> bool:
    """Whether vectors of quads are runs of memory."""
    lane, byte = Variable("probe_lane", columns.lanes), Variable("probe_byte", QUAD)
    quad = Variable("probe_quad", max(problem.depth // QUAD, 1))
    vector = Variable("probe_v", max(columns.vectors, 2))
    case = packed_case(problem, columns, of(quad), of(vector), of(lane), of(byte))
    view = problem.view
    return view.stride(case, lane) == QUAD and view.stride(case, byte) == 1


@dataclass(frozen=True, slots=True)
class QuadSource:
    """The elements of an operand as vectors of quads; 0 where they are not there."""

    emit: Emitter
    element: Element

    def along_k(self, k: Expr, other: Expr, count: int) -> LoopValue:
        """A quad in each lane, from index k on; only `count` elements are there."""
        wide = Copier(self.emit.builder, self.emit.evaluator, QUAD * self.emit.lanes)
        lane = wide.lane()
        guards: tuple[Guard, ...] = ((lane, 0, count),) if count < wide.lanes else ()
        return self._quads(self._elements(k + lane, other, guards, wide.lanes))

    def across_k(self, k: Expr, others: Expr, guards: tuple[Guard, ...], count: int) -> LoopValue:
        """The quad of k, …, k + 3 at some rows or columns, those for which guards hold; only
        `count` of the four are there."""
        b, lanes = self.emit.builder, self.emit.lanes
        rows = [self._elements(k + i, others, guards, lanes) for i in range(count)]
        rows += [self._zero(lanes)] * (QUAD - count)
        for left, right in ((0, 2), (1, 3)):
            order = [i // 2 + (i % 2) * lanes for i in range(2 * lanes)]
            rows.append(b.shuffle(rows[left], rows[right], order))
        order = [i // 2 + (i % 2) * 2 * lanes for i in range(4 * lanes)]
        even, odd = rows[QUAD:]
        return self._quads(b.shuffle(even, odd, order))

    def _quads(self, elements: LoopValue) -> LoopValue:
        return self.emit.builder.bitcast(elements, DType.i32)

    def _zero(self, lanes: int) -> LoopValue:
        dtype = self.emit.view.types[self.element(of(0), of(0)).operand].dtype
        return self.emit.builder.splat(self.emit.builder.const(dtype, 0), lanes)

    def _elements(self, k: Expr, other: Expr, guards: tuple[Guard, ...], lanes: int) -> LoopValue:
        emit, b = self.emit, self.emit.builder
        value = stored_value(emit.evaluator, emit.view, self.element(k, other), guards)
        value = b.splat(value, lanes)
        if not guards:
            return value
        mask, _ = emit.addresses.mask(guards)
        return b.select(b.splat(mask, lanes), value, self._zero(lanes))


@dataclass(frozen=True, slots=True)
class FilledQuads:
    """Quads as they were filled in some block."""

    memory: Buffer
    filled_in: OpenBlock

    def load(self, emit: Emitter, position: Expr) -> LoopValue:
        return emit.evaluator.load(self.memory, position, (), self.filled_in)


@dataclass(frozen=True, slots=True)
class QuadRows:
    """The stage of the operand that is broadcast: all rows [row][k], or, where rows and not indices
    of k lie side by side in memory, [k][row]."""

    problem: ContractionProblem
    along_k: bool
    lanes: int
    whole: tuple[str, ...]
    """The loops over the batch along which it differs."""
    name: str = "broadcast"
    holds: Holds = Holds.BROADCAST

    @property
    def room(self) -> Room:
        extents = ("rows", self.problem.rows), ("k", self.problem.view.k[0])
        return (*((name, 1) for name in self.whole), *extents)

    @property
    def text(self) -> str:
        return f"quads {'[row][k]' if self.along_k else '[k][row]'}"

    @property
    def stride(self) -> int:
        """Quads from one row of the copy to the next."""
        extent = quad_count(self.problem) if self.along_k else fixed(self.problem.rows)
        stride = -(-extent // self.lanes) * self.lanes
        return stride + (self.lanes if stride * DType.i32.itemsize % _ALIASING == 0 else 0)

    def position(self, row: Expr, k: Expr) -> Expr:
        return row * self.stride + k if self.along_k else k * self.stride + row

    def declare(self, emit: Emitter) -> Buffer:
        outer = self.problem.rows if self.along_k else quad_count(self.problem)
        return emit.scratch(self.name, outer * self.stride)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> FilledQuads:
        problem, lanes, memory = self.problem, emit.lanes, place.memory[self.name]
        view, b = problem.view, emit.builder

        def element(k: Expr, row: Expr) -> Case:
            case = view.broadcast(problem.batch, problem.m(row), problem.k(k))
            assert case is not None
            return case

        source = QuadSource(emit, element)

        def keep(vector: LoopValue, row: Expr, k: Expr) -> None:
            if is_signed(problem):
                vector = b.op("xor", vector, b.splat(b.const(DType.i32, OFFSETS), lanes))
            emit.evaluator.store(memory, self.position(row, k), vector)

        def of_row(row: Expr) -> None:
            def block(number: Expr, count: int) -> None:
                vector = source.along_k(number * (QUAD * lanes), row, count)
                keep(vector, row, number * lanes + emit.copier.lane())

            emit.copier.tiles(problem.depth, QUAD * lanes, "quads", block)

        def of_quad(quad: Expr, count: int) -> None:
            def block(number: Expr, rows: int) -> None:
                lane = emit.copier.lane()
                guards: tuple[Guard, ...] = ((lane, 0, rows),) if rows < lanes else ()
                row = number * lanes + lane
                keep(source.across_k(quad * QUAD, row, guards, count), row, quad)

            emit.copier.tiles(problem.rows, lanes, "rows", block)

        if self.along_k:
            emit.copier.loop(problem.rows, "row", of_row)
        else:
            emit.copier.tiles(problem.depth, QUAD, "quad", of_quad)
        return FilledQuads(memory, b.block)


@dataclass(frozen=True, slots=True)
class CopiedQuads:
    """Reads quads from the copy of a tile's columns. `starts`: what sums begin at."""

    quads: FilledQuads
    width: int
    starts: list[LoopValue]

    def vector(self, emit: Emitter, k: Expr, first: Expr, v: int, lane: Expr) -> LoopValue:
        """The quads at k of a vector, the v-th of its tile, which begins with vector `first`."""
        return self.quads.load(emit, k * self.width + v * emit.lanes + lane)


@dataclass(frozen=True, slots=True)
class PackedQuads:
    """Reads quads where they lie as `pack_quads` stores them."""

    columns: Columns
    starts: list[LoopValue]

    def vector(self, emit: Emitter, k: Expr, first: Expr, v: int, lane: Expr) -> LoopValue:
        case = packed_case(emit.problem, self.columns, k, first + v, of(0), of(0))
        place = None if case is None else emit.view.place(case)
        assert place is not None
        run = emit.evaluator.run_of(*place, QUAD * emit.lanes)
        block = emit.evaluator.block_of(run)
        with emit.builder.at(block):
            return emit.evaluator.note(emit.builder.bitcast(run, DType.i32), block)


@dataclass(frozen=True, slots=True)
class QuadColumns:
    """The stage of the columns of one tile, [k][column]. `along_k`: indices of k lie side by side
    in memory, and blocks are transposed in registers."""

    problem: ContractionProblem
    columns: Columns
    width: int
    along_k: bool
    batch: tuple[str, ...]
    """The loops over it along which they differ."""
    name: str = "vectors"
    holds: Holds = Holds.VECTORS

    @property
    def room(self) -> Room:
        return room_of_tile(self.problem, self.columns, self.width, self.batch)

    @property
    def whole(self) -> tuple[str, ...]:
        return (*self.batch, "columns")

    @property
    def text(self) -> str:
        return f"quads [k][{self.width} columns]"

    def declare(self, emit: Emitter) -> Buffer:
        return emit.scratch(self.name, quad_count(self.problem) * self.width)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> CopiedQuads:
        problem, lanes, memory = self.problem, emit.lanes, place.memory[self.name]
        vectors = place["columns"].size
        start, width = place["columns"].first * lanes, vectors * lanes
        if start.is_constant:
            width = min(width, self.columns.lanes_used - fixed(start.constant))

        def element(k: Expr, column: Expr) -> Case:
            n = self.columns.index(start + column)
            case = problem.view.vector(problem.batch, n, problem.k(k))
            assert case is not None
            return case

        source = QuadSource(emit, element)

        def keep(vector: LoopValue, k: Expr, column: Expr) -> None:
            emit.evaluator.store(memory, k * self.width + column, vector)

        def transposed(number: Expr, count: int) -> None:
            for first in range(0, width, lanes):
                there = range(first, min(first + lanes, width))
                read = [source.along_k(number * (QUAD * lanes), of(c), count) for c in there]
                read += emit.zeros(lanes - len(read))
                for r, vector in enumerate(transpose(emit.builder, read)[: -(-count // QUAD)]):
                    keep(vector, number * lanes + r, emit.copier.lane() + first)

        def side_by_side(quad: Expr, count: int) -> None:
            for first in range(0, width, lanes):
                lane, kept = emit.copier.lane(), min(lanes, width - first)
                guards: tuple[Guard, ...] = ((lane, 0, kept),) if kept < lanes else ()
                vector = source.across_k(quad * QUAD, lane + first, guards, count)
                keep(vector, quad, lane + first)

        if self.along_k:
            emit.copier.tiles(problem.depth, QUAD * lanes, "quads", transposed)
        else:
            emit.copier.tiles(problem.depth, QUAD, "quad", side_by_side)
        copied = CopiedQuads(FilledQuads(memory, emit.builder.block), self.width, [])
        return CopiedQuads(copied.quads, self.width, self._starts(emit, copied, vectors))

    def _starts(self, emit: Emitter, copied: CopiedQuads, vectors: int) -> list[LoopValue]:
        """-128 times the sums of the columns, 0 where nothing is added to the rows."""
        sums = emit.zeros(vectors)
        if not is_signed(self.problem):
            return sums
        b, count = emit.builder, quad_count(self.problem)
        offsets = b.splat(b.const(DType.i32, OFFSETS), emit.lanes)
        with b.loop(0, count, carried=sums, hint="column_sum") as loop:
            quad = Variable(f"summed{count}", count)
            emit.addresses.bind(quad, loop.variable, b.block)
            lane = emit.copier.lane()
            read = [copied.vector(emit, of(quad), of(0), v, lane) for v in range(vectors)]
            both = zip(loop.carried, read, strict=True)
            loop.yield_(*(b.op("dot_quads", total, offsets, each) for total, each in both))
        return [b.op("neg", total) for total in loop.results]


@dataclass(frozen=True, slots=True)
class QuadsInPlace:
    """The stage of what sums begin at, behind the columns of one tile, which lie as quads."""

    problem: ContractionProblem
    columns: Columns
    width: int
    batch: tuple[str, ...]
    name: str = "vectors"
    holds: Holds = Holds.VECTORS

    @property
    def room(self) -> Room:
        return room_of_tile(self.problem, self.columns, self.width, self.batch)

    @property
    def whole(self) -> tuple[str, ...]:
        return (*self.batch, "columns")

    @property
    def text(self) -> str:
        return "what sums begin at"

    def declare(self, emit: Emitter) -> None:
        return None

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> PackedQuads:
        span, at = place["columns"], of(quad_count(self.problem))
        if not is_signed(self.problem):
            return PackedQuads(self.columns, emit.zeros(span.size))
        reader = PackedQuads(self.columns, [])
        starts = [reader.vector(emit, at, span.first, v, of(0)) for v in range(span.size)]
        return PackedQuads(self.columns, starts)
