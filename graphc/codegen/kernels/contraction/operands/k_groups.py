"""Operands of few bits as groups of neighbours along k, each group an i32, the first one low.

`PAIRS` of bf16 and `QUADS` of bytes are what instructions multiply and add at a time; another
narrow precision is another `KGroup`. In: an operand's elements, and along what they lie side by
side. Out: stages of both operands, in scratch, and readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.copier import Copier
from graphc.codegen.elements.leaf_loops import fold
from graphc.codegen.elements.shuffles import transpose
from graphc.codegen.kernels.contraction.cost.tiles import Columns
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.least_magnitude import least_field, none_noted
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.problem.view import stored_value
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.nests.nest import Holds, NestPlace, Room, Span
from graphc.codegen.target import Target
from graphc.ir.dims import Extent
from graphc.ir.types import DType
from graphc.ops.contract import int_matmul
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Case
from graphc.ops.layouts.quads import OFFSET, QUAD
from graphc.records import record, replace

_ALIASING = 1024
"""Bytes between rows of which some would share a set of L1."""

Element = Callable[[Expr, Expr], Case | None]
"""The element at a k, and a row or column."""


@record
class GroupWay:
    """How the products of a group are added up. `share`: of the time of one FMA (of integers: of a
    product of i32, which takes two and a half), what one of them takes. `checked`: where no sum is
    denormal, which the instruction flushes to zero; else FMAs add up the same sums."""

    text: str
    share: float
    is_there: Callable[[Target, bool], bool]
    """On a target, for columns that lie as groups or do not."""
    checked: bool = False


@record
class KGroup:
    """`size` neighbours along k. `of_block`: groups of a K block; None: sums are exact in any
    order. `reads`: the vectors in which those of as many groups as lanes are read along k.
    `offset`: what an i8 that is broadcast is more in its copy, since the instruction multiplies u8
    by i8; sums begin at that times the columns' sums, less than zero."""

    name: str
    size: int
    opcode: str
    takes: Callable[[ContractionProblem], bool]
    ways: tuple[GroupWay, ...]
    of_block: int | None = None
    reads: int = 1
    offset: int = 0

    @property
    def flushes(self) -> bool:
        """Whether the opcode is told that nothing is denormal."""
        return any(way.checked for way in self.ways)

    def count(self, problem: ContractionProblem) -> int:
        return -(-problem.depth // self.size)

    def is_offset(self, problem: ContractionProblem) -> bool:
        return self.offset != 0 and problem.view.types[0].dtype is DType.i8

    def offsets(self, emit: Emitter) -> LoopValue:
        """The offset in each place of each group."""
        bits = int.from_bytes(bytes([self.offset] * self.size), "little", signed=True)
        return emit.builder.splat(emit.builder.const(DType.i32, bits), emit.lanes)

    def packed_case(
        self, problem: ContractionProblem, columns: Columns, group: Expr, vector: Expr, lane: Expr,
        place: Expr,
    ) -> Case | None:  # fmt: skip
        """The element at a place of a group, at a lane of a vector of columns."""
        n = columns.index(vector * columns.lanes + lane)
        return problem.view.vector(problem.batch, n, problem.k(group * self.size + place))

    def is_packed(self, problem: ContractionProblem, columns: Columns) -> bool:
        """Whether vectors of groups are runs of memory, the last one too: behind a matrix of as
        many rows as a group has, which is such a run, nothing need be."""
        lane, place = Variable("probe_lane", columns.lanes), Variable("probe_place", self.size)
        group = Variable("probe_group", max(problem.depth // self.size, 1))
        vector = Variable("probe_v", max(columns.vectors, 2))
        case = self.packed_case(problem, columns, of(group), of(vector), of(lane), of(place))
        view = problem.view
        runs = view.stride(case, lane) == self.size and view.stride(case, place) == 1
        if not runs or case is None or not view.is_stored(case):
            return False
        last = of(self.count(problem) - 1), of(columns.vectors - 1)
        behind = self.packed_case(problem, columns, *last, of(lane), of(place))
        at = None if behind is None else view.place(behind)
        return at is not None and at[1].below(view.body.nodes[at[0]].types[0].numel)

    def is_noted(self, problem: ContractionProblem, columns: Columns) -> bool:
        """Whether behind the groups of a packed tile something more lies."""
        view, none = problem.view, of(0)
        case = self.packed_case(problem, columns, none, none, none, none)
        place = None if case is None else view.place(case)
        if place is None:
            return False
        shape = view.body.nodes[place[0]].types[0].shape
        return len(shape) == 4 and shape[1] > self.count(problem)


PAIR_INSTRUCTION = GroupWay(
    "pairs of bf16 by the instruction", 0.5, lambda target, packed: target.paired_products,
    checked=True,
)  # fmt: skip
PAIRS = KGroup(
    "pair", 2, "dot_pairs",
    takes=lambda problem: problem.pairs and problem.view.types[0].dtype is DType.bf16,
    ways=(
        GroupWay("pairs of bf16 by FMAs", 1.1, lambda target, packed: packed), PAIR_INSTRUCTION,
    ),
    of_block=K_BLOCK // 2, reads=2,
)  # fmt: skip
QUADS = KGroup(
    "quad", QUAD, "dot_quads", takes=lambda problem: problem.view.op is int_matmul,
    ways=(
        GroupWay("four products at a time", 0.1, lambda target, packed: target.quad_products),
        GroupWay(
            "two products at a time", 0.4,
            lambda target, packed: target.triple.startswith("x86") and not target.quad_products,
        ),
    ),
    offset=OFFSET,
)  # fmt: skip
K_GROUPS = (PAIRS, QUADS)


# -- copies ----------------------------------------------------------------------------------------


@record
class GroupMemory:
    """Scratch of groups, and of what is noted of their least magnitude, where it is asked for."""

    groups: Buffer
    least: Buffer | None

    @staticmethod
    def of(emit: Emitter, group: KGroup, name: str, size: Extent) -> GroupMemory:
        scratch = emit.builder.scratch
        groups = scratch(name, DType.i32, size)
        least = scratch(f"{name}_least", DType.i32, emit.lanes) if group.flushes else None
        return GroupMemory(groups, least)

    def clear(self, emit: Emitter) -> None:
        if self.least is not None:
            emit.builder.store(self.least, 0, none_noted(emit))

    def note(self, emit: Emitter, vectors: list[LoopValue]) -> None:
        b = emit.builder
        if self.least is None:
            return
        least = b.load(self.least, 0, emit.lanes)
        for vector in vectors:
            least = b.op("least_pairs", least, vector)
        b.store(self.least, 0, least)

    def filled(self, emit: Emitter) -> FilledGroups:
        field, block = None, emit.builder.block
        if self.least is not None:
            field = least_field(emit, [emit.builder.load(self.least, 0, emit.lanes)])
        return FilledGroups(self.groups, block, field)


@record
class FilledGroups:
    """Groups as they were filled in some block, where `field` of their least magnitude is known
    too, if it was noted."""

    memory: Buffer
    filled_in: OpenBlock
    field: LoopValue | None

    def load(self, emit: Emitter, position: Expr) -> LoopValue:
        return emit.evaluator.load(self.memory, position, (), self.filled_in)


@record
class GroupSource:
    """The elements of an operand as vectors of groups; 0 where they are not there."""

    emit: Emitter
    group: KGroup
    dtype: DType
    element: Element

    def along_k(self, k: Expr, other: Expr, count: int, run: int | None = None) -> LoopValue:
        """A group in each lane, from index k on; only `count` elements are there. `run`: so many
        that begin at a multiple of it lie side by side (as many as one vector is read of)."""
        b, whole = self.emit.builder, self.group.size * self.emit.lanes
        lanes = min(whole // self.group.reads, whole if run is None else run)
        lane, parts = Copier(b, self.emit.evaluator, lanes).lane(), []
        for start in range(0, whole, lanes):
            kept = min(max(count - start, 0), lanes)
            guards = _first_lanes(lane, kept, lanes)
            parts.append(self._elements(k + start + lane, other, guards, lanes, kept))
        while len(parts) > 1:
            lanes = 2 * parts[0].type.lanes
            parts = [b.shuffle(x, y, range(lanes)) for x, y in zip(parts[::2], parts[1::2])]
        return b.bitcast(parts[0], DType.i32)

    def across_k(self, k: Expr, others: Expr, guards: tuple[Guard, ...], count: int) -> LoopValue:
        """The group from index k on at some rows or columns, those for which guards hold; only
        `count` of its indices are there."""
        rows = [
            self._elements(k + i, others, guards, self.emit.lanes, max(count - i, 0))
            for i in range(self.group.size)
        ]
        return self.emit.builder.bitcast(self._interleaved(rows), DType.i32)

    def _interleaved(self, rows: list[LoopValue]) -> LoopValue:
        if len(rows) == 1:
            return rows[0]
        left, right = self._interleaved(rows[::2]), self._interleaved(rows[1::2])
        lanes = left.type.lanes
        order = [i // 2 + (i % 2) * lanes for i in range(2 * lanes)]
        return self.emit.builder.shuffle(left, right, order)

    def _elements(
        self, k: Expr, other: Expr, guards: tuple[Guard, ...], lanes: int, kept: int
    ) -> LoopValue:
        emit, b = self.emit, self.emit.builder
        case = self.element(k, other) if kept else None
        if case is None:
            return b.splat(b.const(self.dtype, 0), lanes)
        value = b.splat(stored_value(emit.evaluator, emit.view, case, guards), lanes)
        if not guards:
            return value
        mask, _ = emit.addresses.mask(guards)
        return b.select(b.splat(mask, lanes), value, b.splat(b.const(self.dtype, 0), lanes))


@record
class GroupRows:
    """The stage of the operand that is broadcast: all rows [row][k], where `run` indices of k lie
    side by side in memory, or, where rows do (`run` is 0), [k][row]."""

    group: KGroup
    problem: ContractionProblem
    run: int
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
    def along_k(self) -> bool:
        return self.run > 0

    @property
    def text(self) -> str:
        return f"{self.group.name}s {'[row][k]' if self.along_k else '[k][row]'}"

    @property
    def stride(self) -> int:
        """Groups from one row of the copy to the next."""
        count = self.group.count(self.problem)
        extent = count if self.along_k else self.problem.rows
        stride = -(-extent // self.lanes) * self.lanes
        return stride + (self.lanes if stride * DType.i32.itemsize % _ALIASING == 0 else 0)

    def position(self, row: Expr, k: Expr) -> Expr:
        return row * self.stride + k if self.along_k else k * self.stride + row

    def declare(self, emit: Emitter) -> GroupMemory:
        outer = self.problem.rows if self.along_k else self.group.count(self.problem)
        return GroupMemory.of(emit, self.group, self.name, outer * self.stride)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> FilledGroups:
        return self.fill_into(emit, place.memory[self.name])

    def fill_into(self, emit: Emitter, memory: GroupMemory) -> FilledGroups:
        problem, lanes = self.problem, emit.lanes
        name, size, view = self.group.name, self.group.size, problem.view

        def element(k: Expr, row: Expr) -> Case | None:
            return view.broadcast(problem.batch, problem.m(row), problem.k(k))

        source = GroupSource(emit, self.group, view.types[0].dtype, element)
        memory.clear(emit)

        def keep(vector: LoopValue, row: Expr, k: Expr) -> None:
            if self.group.is_offset(problem):
                vector = emit.builder.op("xor", vector, self.group.offsets(emit))
            emit.evaluator.store(memory.groups, self.position(row, k), vector)
            memory.note(emit, [vector])

        def of_row(row: Expr) -> None:
            whole = max(size * lanes, self.run)

            def block(number: Expr, count: int) -> None:
                for at in range(0, count, size * lanes):
                    vector = source.along_k(number * whole + at, row, count - at, self.run)
                    keep(vector, row, number * (whole // size) + at // size + emit.copier.lane())

            emit.copier.tiles(problem.depth, whole, f"{name}s", block)

        def of_group(group: Expr, count: int) -> None:
            def block(number: Expr, rows: int) -> None:
                lane = emit.copier.lane()
                guards, row = _first_lanes(lane, rows, lanes), number * lanes + lane
                keep(source.across_k(group * size, row, guards, count), row, group)

            emit.copier.tiles(problem.rows, lanes, "rows", block)

        if self.along_k:
            emit.copier.loop(problem.rows, "row", of_row)
        else:
            emit.copier.tiles(problem.depth, size, name, of_group)
        return memory.filled(emit)


# -- columns ---------------------------------------------------------------------------------------


@record
class CopiedColumns:
    """Reads groups from the copy of a tile's columns. `starts`: what sums begin at."""

    groups: FilledGroups
    width: int
    starts: list[LoopValue]

    @property
    def field(self) -> LoopValue | None:
        return self.groups.field

    def vector(self, emit: Emitter, k: Expr, first: Expr, v: int, lane: Expr) -> LoopValue:
        """The groups at k of a vector, the v-th of its tile, which begins with vector `first`."""
        return self.groups.load(emit, k * self.width + v * emit.lanes + lane)


@record
class ColumnsInPlace:
    """Reads groups where they lie as `pack_pairs` or `pack_quads` stores them. `field`: as in
    FilledGroups; None where it was not asked for. `starts`: what sums begin at."""

    group: KGroup
    columns: Columns
    starts: list[LoopValue]
    field: LoopValue | None = None

    def vector(self, emit: Emitter, k: Expr, first: Expr, v: int, lane: Expr) -> LoopValue:
        """As that of CopiedColumns."""
        none = of(0)
        case = self.group.packed_case(emit.problem, self.columns, k, first + v, none, none)
        place = None if case is None else emit.view.place(case)
        assert place is not None
        run = emit.evaluator.run_of(*place, self.group.size * emit.lanes)
        block = emit.evaluator.block_of(run)
        with emit.builder.at(block):
            return emit.evaluator.note(emit.builder.bitcast(run, DType.i32), block)


@record
class GroupColumns:
    """The stage of the columns of one tile, [k][column], or, where they are `packed`, of what is to
    be known of them. `along_k`: indices of k lie side by side in memory, and blocks are transposed
    in registers. `checked`: their least magnitude is asked for."""

    group: KGroup
    problem: ContractionProblem
    columns: Columns
    width: int
    along_k: bool
    packed: bool
    checked: bool
    batch: tuple[str, ...]
    """The loops over it along which they differ."""
    name: str = "vectors"
    holds: Holds = Holds.VECTORS

    @property
    def room(self) -> Room:
        """That of the columns of one tile, all of k."""
        tile = ("columns", self.width // self.columns.lanes), ("k", self.problem.view.k[0])
        return (*((name, 1) for name in self.batch), *tile)

    @property
    def whole(self) -> tuple[str, ...]:
        return (*self.batch, "columns")

    @property
    def text(self) -> str:
        if not self.packed:
            return f"{self.group.name}s [k][{self.width} columns]"
        known = "what sums begin at" if self.group.offset else "nothing"
        return "the least magnitude" if self.checked else known

    def declare(self, emit: Emitter) -> GroupMemory | None:
        if self.packed:
            return None
        size = self.group.count(self.problem) * self.width
        return GroupMemory.of(emit, self.group, self.name, size)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> CopiedColumns | ColumnsInPlace:
        span = place["columns"]
        if not self.packed:
            return self._copied(emit, span, place.memory[self.name])
        behind = of(self.group.count(self.problem))
        reader = ColumnsInPlace(self.group, self.columns, emit.zeros(span.size))
        if self.group.is_offset(self.problem):
            return replace(reader, starts=[*_read(emit, reader, behind, span)])
        if not self.checked:
            return reader
        return replace(reader, field=least_field(emit, self._noted(emit, reader, behind, span)))

    def _noted(
        self, emit: Emitter, reader: ColumnsInPlace, behind: Expr, span: Span
    ) -> list[LoopValue]:
        """What is noted of the columns: that lies behind them, or they are gone through."""
        b, count, none = emit.builder, self.group.count(self.problem), none_noted(emit)
        if self.group.is_noted(self.problem, self.columns):
            return [b.op("least_pairs", none, x) for x in _read(emit, reader, behind, span)]

        def lesser(at: Expr, known: list[LoopValue]) -> list[LoopValue]:
            both = zip(known, [*_read(emit, reader, at, span)], strict=True)
            return [b.op("least_pairs", least, x) for least, x in both]

        at = Variable(f"noted{count}", count)
        return fold(emit.addresses, at, (0, count), "noted", [none] * span.size, lesser)

    def _copied(self, emit: Emitter, span: Span, memory: GroupMemory) -> CopiedColumns:
        problem, lanes, size = self.problem, emit.lanes, self.group.size
        start, width = span.first * lanes, self.columns.lanes_of(span.first, span.size)

        def element(k: Expr, column: Expr) -> Case | None:
            n = self.columns.index(start + column)
            return problem.view.vector(problem.batch, n, problem.k(k))

        source = GroupSource(emit, self.group, problem.view.types[1].dtype, element)
        memory.clear(emit)

        def keep(vector: LoopValue, k: Expr, column: Expr) -> None:
            emit.evaluator.store(memory.groups, k * self.width + column, vector)

        def transposed(number: Expr, count: int) -> None:
            none = emit.builder.splat(emit.builder.const(DType.i32, 0), lanes)
            for first in range(0, width, lanes):
                there = range(first, min(first + lanes, width))
                read = [source.along_k(number * (size * lanes), of(c), count) for c in there]
                memory.note(emit, read)
                vectors = transpose(emit.builder, read + [none] * (lanes - len(read)))
                for r in range(-(-count // size)):
                    keep(vectors[r], number * lanes + r, emit.copier.lane() + first)

        def side_by_side(group: Expr, count: int) -> None:
            vectors = []
            for first in range(0, width, lanes):
                lane = emit.copier.lane()
                guards = _first_lanes(lane, min(lanes, width - first), lanes)
                vectors.append(source.across_k(group * size, lane + first, guards, count))
                keep(vectors[-1], group, lane + first)
            memory.note(emit, vectors)

        if self.along_k:
            emit.copier.tiles(problem.depth, size * lanes, f"{self.group.name}s", transposed)
        else:
            emit.copier.tiles(problem.depth, size, self.group.name, side_by_side)
        copied = CopiedColumns(memory.filled(emit), self.width, emit.zeros(span.size))
        if not self.group.is_offset(problem):
            return copied
        return replace(copied, starts=self._starts(emit, copied, span))

    def _starts(self, emit: Emitter, copied: CopiedColumns, span: Span) -> list[LoopValue]:
        """The sums of the columns times what elements of rows are more, less than zero."""
        b, count, offsets = emit.builder, self.group.count(self.problem), self.group.offsets(emit)

        def added(at: Expr, sums: list[LoopValue]) -> list[LoopValue]:
            lane = emit.copier.lane()
            read = [copied.vector(emit, at, of(0), v, lane) for v in range(span.size)]
            both = zip(sums, read, strict=True)
            return [b.op(self.group.opcode, total, offsets, each) for total, each in both]

        at = Variable(f"summed{count}", count)
        sums = fold(emit.addresses, at, (0, count), "column_sum", copied.starts, added)
        return [b.op("neg", total) for total in sums]


def _first_lanes(lane: Expr, count: int, lanes: int) -> tuple[Guard, ...]:
    """The guard of so many lanes, where not all are there."""
    return ((lane, 0, count),) if count < lanes else ()


def _read(emit: Emitter, reader: ColumnsInPlace, k: Expr, span: Span) -> Iterator[LoopValue]:
    """The groups at k of all vectors of a tile."""
    return (reader.vector(emit, k, span.first, v, of(0)) for v in range(span.size))
