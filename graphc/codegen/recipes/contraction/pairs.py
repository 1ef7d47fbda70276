"""Copies of bf16 operands as pairs of neighbours along k, each pair an i32, the even one low.

In: an operand's elements, and along what they lie side by side. Out: stages of both operands, in
scratch, and readers. While elements are copied the least magnitude of those that are not zero is
noted: of what no partial sum can be denormal the processor's instruction may add up.

An element is a multiple of 2^(e - 7), e being the least exponent among those of its operand that
are not zero, so products and all their sums are multiples of 2^(eA + eB - 14): from eA + eB = -112
on those are no denormal numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.shuffles import transpose
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.nests.nest import Holds, NestPlace, Room, Span
from graphc.codegen.recipes.contraction.emitter import Emitter
from graphc.codegen.recipes.contraction.problem import ContractionProblem
from graphc.codegen.recipes.contraction.tiles import Columns
from graphc.codegen.recipes.contraction.view import stored_value
from graphc.ir.dims import Extent, fixed
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Case

LEAST_FIELDS = 2 * 127 - 112
"""What the exponent fields of both operands' least elements sum up to at least."""
MANTISSA = 7
"""Bits of a bf16 behind its exponent."""
_ALIASING = 1024
"""Bytes between rows of which some would share a set of L1."""

Element = Callable[[Expr, Expr], Case | None]
"""The element at a k, and a row or column."""


@dataclass(frozen=True, slots=True)
class PairMemory:
    """Scratch of pairs, and of the least magnitudes, less 1, in each lane's halves."""

    pairs: Buffer
    least: Buffer

    @staticmethod
    def of(emit: Emitter, name: str, size: Extent) -> PairMemory:
        pairs = emit.builder.scratch(name, DType.i32, size)
        return PairMemory(pairs, emit.builder.scratch(f"{name}_least", DType.i32, emit.lanes))

    def clear(self, emit: Emitter) -> None:
        none = emit.builder.const(DType.i32, -1)
        emit.builder.store(self.least, 0, emit.builder.splat(none, emit.lanes))

    def note(self, emit: Emitter, vectors: list[LoopValue]) -> None:
        b = emit.builder
        least = b.load(self.least, 0, emit.lanes)
        for vector in vectors:
            least = b.op("least_pairs", least, vector)
        b.store(self.least, 0, least)

    def least_field(self, emit: Emitter) -> LoopValue:
        return least_field(emit, [emit.builder.load(self.least, 0, emit.lanes)])


def least_field(emit: Emitter, noted: Sequence[LoopValue]) -> LoopValue:
    """The exponent field of the least of the elements that were noted; 0: it is denormal."""
    b, lanes = emit.builder, emit.lanes
    low, high = b.const(DType.i32, 0xFFFF), b.const(DType.i32, 16)
    halves = [half for each in noted for half in (b.op("and", each, low), b.op("lshr", each, high))]
    least = functools.reduce(b.minimum, halves)
    while lanes > 1:
        lanes //= 2
        upper = b.shuffle(least, least, range(lanes, 2 * lanes))
        least = b.minimum(b.shuffle(least, least, range(lanes)), upper)
    one = b.const(DType.i32, 1)
    return b.op("lshr", b.add(least, one), b.const(DType.i32, MANTISSA))


@dataclass(frozen=True, slots=True)
class FilledPairs:
    """Pairs as they were filled in some block, where `field` is known too."""

    memory: PairMemory
    filled_in: OpenBlock
    field: LoopValue

    def load(self, emit: Emitter, position: Expr) -> LoopValue:
        return emit.evaluator.load(self.memory.pairs, position, (), self.filled_in)


@dataclass(frozen=True, slots=True)
class CopiedColumns:
    """Reads pairs from the copy of a tile's columns."""

    pairs: FilledPairs
    width: int

    @property
    def field(self) -> LoopValue | None:
        return self.pairs.field

    def vector(self, emit: Emitter, k: Expr, first: Expr, v: int, lane: Expr) -> LoopValue:
        """The pairs at k of a vector, the v-th of its tile, which begins with vector `first`."""
        return self.pairs.load(emit, k * self.width + v * emit.lanes + lane)


@dataclass(frozen=True, slots=True)
class PackedPairs:
    """Reads pairs where they lie as `pack_pairs` stores them. `field`: as in FilledPairs; None
    where it was not asked for."""

    columns: Columns
    field: LoopValue | None = None

    def vector(self, emit: Emitter, k: Expr, first: Expr, v: int, lane: Expr) -> LoopValue:
        case = packed_case(emit.problem, self.columns, k, first + v, of(0), of(0))
        place = None if case is None else emit.view.place(case)
        assert place is not None
        run = emit.evaluator.run_of(*place, 2 * emit.lanes)
        block = emit.evaluator.block_of(run)
        with emit.builder.at(block):
            return emit.evaluator.note(emit.builder.bitcast(run, DType.i32), block)


def packed_case(
    problem: ContractionProblem, columns: Columns, pair: Expr, vector: Expr, lane: Expr, odd: Expr
) -> Case | None:
    """The element of a pair at a lane of a vector of columns."""
    n = columns.index(vector * columns.lanes + lane)
    return problem.view.vector(problem.batch, n, problem.k(pair * 2 + odd))


def is_noted(problem: ContractionProblem, columns: Columns) -> bool:
    """Whether the least magnitudes of a tile lie behind its pairs."""
    view, none = problem.view, of(0)
    case = packed_case(problem, columns, none, none, none, none)
    place = None if case is None else view.place(case)
    if place is None:
        return False
    shape = view.body.nodes[place[0]].types[0].shape
    return len(shape) == 4 and shape[1] > pair_count(problem)


def is_packed(problem: ContractionProblem, columns: Columns) -> bool:
    """Whether vectors of pairs are runs of memory."""
    lane, odd = Variable("probe_lane", columns.lanes), Variable("probe_odd", 2)
    pair = Variable("probe_pair", max(problem.depth // 2, 1))
    vector = Variable("probe_v", max(columns.vectors, 2))
    case = packed_case(problem, columns, of(pair), of(vector), of(lane), of(odd))
    view = problem.view
    runs = view.stride(case, lane) == 2 and view.stride(case, odd) == 1
    return runs and case is not None and view.is_stored(case)


def is_normal(emit: Emitter, x: LoopValue, y: LoopValue) -> LoopValue:
    """Whether no sum of products can be denormal, by the fields of the operands' least elements."""
    b, one = emit.builder, emit.builder.const(DType.i32, 1)
    enough = b.compare("ge", b.add(x, y), b.const(DType.i32, LEAST_FIELDS))
    for field in (x, y):
        enough = b.op("and", enough, b.compare("ge", field, one))
    return enough


def pair_count(problem: ContractionProblem) -> int:
    return -(-problem.depth // 2)


@dataclass(frozen=True, slots=True)
class PairSource:
    """The elements of an operand as vectors of pairs."""

    emit: Emitter
    element: Element

    def along_k(self, k: Expr, other: Expr, count: int) -> LoopValue:
        """A pair in each lane, from index k on; only `count` elements are there."""
        emit, lane = self.emit, self.emit.copier.lane()
        b, lanes = emit.builder, emit.lanes
        halves = []
        for start in (0, lanes):
            kept = min(max(count - start, 0), lanes)
            guards: tuple[Guard, ...] = ((lane, 0, kept),) if kept < lanes else ()
            halves.append(self._elements(k + start + lane, other, guards, kept))
        return b.bitcast(b.shuffle(halves[0], halves[1], range(2 * lanes)), DType.i32)

    def across_k(self, k: Expr, others: Expr, guards: tuple[Guard, ...], last: bool) -> LoopValue:
        """The pair of k and k + 1 at some rows or columns, those for which guards hold; `last`:
        there is no k + 1."""
        b, lanes = self.emit.builder, self.emit.lanes
        even = self._elements(k, others, guards, lanes)
        odd = self._elements(k + 1, others, guards, 0 if last else lanes)
        order = [i // 2 + (i % 2) * lanes for i in range(2 * lanes)]
        return b.bitcast(b.shuffle(even, odd, order), DType.i32)

    def _elements(self, k: Expr, other: Expr, guards: tuple[Guard, ...], kept: int) -> LoopValue:
        """A vector of elements, 0 where they are not there."""
        emit = self.emit
        b = emit.builder
        zero = b.splat(b.const(DType.bf16, 0), emit.lanes)
        case = self.element(k, other) if kept else None
        if case is None:
            return zero
        value = b.splat(stored_value(emit.evaluator, emit.view, case, guards), emit.lanes)
        if not guards:
            return value
        mask, _ = emit.addresses.mask(guards)
        return b.select(b.splat(mask, emit.lanes), value, zero)


@dataclass(frozen=True, slots=True)
class PairedRows:
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
        return f"pairs {'[row][k]' if self.along_k else '[k][row]'}"

    @property
    def stride(self) -> int:
        """Pairs from one row of the copy to the next."""
        extent = pair_count(self.problem) if self.along_k else fixed(self.problem.rows)
        stride = -(-extent // self.lanes) * self.lanes
        return stride + (self.lanes if stride * DType.i32.itemsize % _ALIASING == 0 else 0)

    def position(self, row: Expr, k: Expr) -> Expr:
        return row * self.stride + k if self.along_k else k * self.stride + row

    def declare(self, emit: Emitter) -> PairMemory:
        outer = self.problem.rows if self.along_k else pair_count(self.problem)
        return PairMemory.of(emit, self.name, outer * self.stride)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> FilledPairs:
        problem, lanes, memory = self.problem, emit.lanes, place.memory[self.name]
        source = PairSource(
            emit, lambda k, row: problem.view.broadcast(problem.batch, problem.m(row), problem.k(k))
        )
        memory.clear(emit)

        def keep(vector: LoopValue, row: Expr, k: Expr) -> None:
            emit.evaluator.store(memory.pairs, self.position(row, k), vector)
            memory.note(emit, [vector])

        def of_row(row: Expr) -> None:
            def block(number: Expr, count: int) -> None:
                vector = source.along_k(number * (2 * lanes), row, count)
                keep(vector, row, number * lanes + emit.copier.lane())

            emit.copier.tiles(problem.depth, 2 * lanes, "pairs", block)

        def of_pair(pair: Expr, count: int) -> None:
            def block(number: Expr, rows: int) -> None:
                lane = emit.copier.lane()
                guards: tuple[Guard, ...] = ((lane, 0, rows),) if rows < lanes else ()
                row = number * lanes + lane
                keep(source.across_k(pair * 2, row, guards, count < 2), row, pair)

            emit.copier.tiles(problem.rows, lanes, "rows", block)

        if self.along_k:
            emit.copier.loop(problem.rows, "row", of_row)
        else:
            emit.copier.tiles(problem.depth, 2, "pair", of_pair)
        return FilledPairs(memory, emit.builder.block, memory.least_field(emit))


def room_of_tile(
    problem: ContractionProblem, columns: Columns, width: int, batch: tuple[str, ...]
) -> Room:
    """That of the columns of one tile, all of k."""
    tile = ("columns", width // columns.lanes), ("k", problem.view.k[0])
    return (*((name, 1) for name in batch), *tile)


@dataclass(frozen=True, slots=True)
class PairedColumns:
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
        return f"pairs [k][{self.width} columns]"

    def declare(self, emit: Emitter) -> PairMemory:
        return PairMemory.of(emit, self.name, pair_count(self.problem) * self.width)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> CopiedColumns:
        problem, lanes, memory = self.problem, emit.lanes, place.memory[self.name]
        start, width = place["columns"].first * lanes, place["columns"].size * lanes
        if start.is_constant:
            width = min(width, self.columns.lanes_used - fixed(start.constant))

        def element(k: Expr, column: Expr) -> Case | None:
            n = self.columns.index(start + column)
            return problem.view.vector(problem.batch, n, problem.k(k))

        source = PairSource(emit, element)
        memory.clear(emit)

        def keep(vector: LoopValue, k: Expr, column: Expr) -> None:
            emit.evaluator.store(memory.pairs, k * self.width + column, vector)

        def transposed(number: Expr, count: int) -> None:
            none = emit.builder.splat(emit.builder.const(DType.i32, 0), lanes)
            for first in range(0, width, lanes):
                there = range(first, min(first + lanes, width))
                read = [source.along_k(number * (2 * lanes), of(c), count) for c in there]
                memory.note(emit, read)
                vectors = transpose(emit.builder, read + [none] * (lanes - len(read)))
                for r in range(-(-count // 2)):
                    keep(vectors[r], number * lanes + r, emit.copier.lane() + first)

        def side_by_side(pair: Expr, count: int) -> None:
            vectors = []
            for first in range(0, width, lanes):
                lane, kept = emit.copier.lane(), min(lanes, width - first)
                guards: tuple[Guard, ...] = ((lane, 0, kept),) if kept < lanes else ()
                vectors.append(source.across_k(pair * 2, lane + first, guards, count < 2))
                keep(vectors[-1], pair, lane + first)
            memory.note(emit, vectors)

        if self.along_k:
            emit.copier.tiles(problem.depth, 2 * lanes, "pairs", transposed)
        else:
            emit.copier.tiles(problem.depth, 2, "pair", side_by_side)
        pairs = FilledPairs(memory, emit.builder.block, memory.least_field(emit))
        return CopiedColumns(pairs, self.width)


@dataclass(frozen=True, slots=True)
class ColumnsInPlace:
    """The stage of what is noted of the columns of one tile, which lie as pairs; `checked`: their
    least magnitude."""

    problem: ContractionProblem
    columns: Columns
    width: int
    checked: bool
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
        return "the least magnitude" if self.checked else "nothing"

    def declare(self, emit: Emitter) -> None:
        return None

    def _noted(self, emit: Emitter, span: Span) -> list[LoopValue]:
        """The magnitudes behind the pairs of a tile, less 1."""
        reader, at = PackedPairs(self.columns), of(pair_count(self.problem))
        none = emit.builder.splat(emit.builder.const(DType.i32, -1), emit.lanes)
        read = (reader.vector(emit, at, span.first, v, of(0)) for v in range(span.size))
        return [emit.builder.op("least_pairs", none, each) for each in read]

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> PackedPairs:
        reader = PackedPairs(self.columns)
        if not self.checked:
            return reader
        span = place["columns"]
        if is_noted(self.problem, self.columns):
            return PackedPairs(self.columns, least_field(emit, self._noted(emit, span)))
        b, count = emit.builder, pair_count(self.problem)
        none = b.splat(b.const(DType.i32, -1), emit.lanes)
        with b.loop(0, count, carried=[none] * span.size, hint="noted") as loop:
            pair = Variable(f"noted{count}", count)
            emit.addresses.bind(pair, loop.variable, b.block)
            read = [reader.vector(emit, of(pair), span.first, v, of(0)) for v in range(span.size)]
            loop.yield_(*(b.op("least_pairs", *both) for both in zip(loop.carried, read)))
        return PackedPairs(self.columns, least_field(emit, loop.results))
