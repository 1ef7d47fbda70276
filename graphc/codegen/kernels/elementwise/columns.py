"""Strategy: sums of columns, a few rows at a time, for reductions over leading axes.

A column by itself would be read with the stride of a row. So a few rows at once are read along all
columns, tile by tile, and added to running sums in scratch; when these hold a block of 16 rows,
they are added to the sums of the next level, and so on. The order is that of
`codegen/elements/reduction.py`.

    for each 4 rows:
      for each tile of columns: level 0[tile] += row 0; += row 1; += row 2; += row 3
      after 16 rows, for each tile of columns: level 1[tile] += level 0[tile]; level 0[tile] = 0
      after 16 of these the same from level 1 to level 2, …
    for each tile of columns: what the levels hold, combined; the outputs
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.loop_cut import LoopCut, Part
from graphc.codegen.elements.outer_blocks import BLOCK, levels_of
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.ir.dims import Extent, always_le, fixed
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.reduce import ArgReduce, Reduce
from graphc.schedule.access import Index, coordinates, outer_axes, reads, reduced_index, unflatten

# Rows read at once: the sums of level 0 are loaded and stored once for all. More rows would be more
# streams than the processor follows. A divisor of BLOCK.
ROWS = 4
# Sums of one tile, in vectors.
TILE_SUMS = 4
# Operations of a tile, about: more only make the code longer.
TILE_OPERATIONS = 400
# Columns that have their sums in scratch at a time: all levels stay in L1.
CHUNK = 1024

_count = itertools.count()

Level = list[Buffer]


@dataclass(frozen=True, slots=True)
class _Tiling:
    """Columns in tiles: `whole` ones of `tile` columns and one of `rest`; `chunk` at a time."""

    tile: int
    whole: int
    rest: int
    chunk: int

    @property
    def tiles(self) -> int:
        return self.whole + bool(self.rest)

    @staticmethod
    def of(columns: int, lanes: int, sums: int, nodes: int) -> _Tiling:
        """Of a body of so many nodes, `sums` of which are sums."""
        vectors = -(-columns // lanes)
        most = max(1, min(TILE_SUMS // sums, TILE_OPERATIONS // (ROWS * nodes)))
        # Two tiles at least, so that two threads can share the columns.
        tiles = max(-(-vectors // most), min(vectors, 2))
        tile = -(-vectors // tiles) * lanes
        cut = LoopCut(columns, tile)
        chunk = max(min(CHUNK // tile, fixed(cut.tiles)), 1)
        return _Tiling(tile, fixed(cut.whole), fixed(cut.rest), chunk)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Tiles whose sums are in scratch, in `levels`: `present` ones from `first` on, of which
    `present_whole` are whole. `index` is that of the loops outside."""

    index: Index
    first: LoopValue
    present: LoopValue
    present_whole: LoopValue
    levels: list[Level]


@dataclass(frozen=True, slots=True)
class _Vector:
    """A vector of a tile: its columns, where its sums begin in scratch, and which lanes exist."""

    column: Expr
    offset: Expr
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class ColumnsPlan:
    """The reductions of a body, all over the same leading axes, and how columns are tiled."""

    nest: LoopNest
    sums: tuple[int, ...]
    axes: Shape
    reduced_shape: Shape
    tiling: _Tiling

    @staticmethod
    def of(nest: LoopNest) -> ColumnsPlan | None:
        """For a nest all of whose reductions are over the same leading axes of operands of one
        shape, none of another, where vectors run along the columns."""
        body, sums = nest.body, _reductions(nest.body)
        columns = nest.inner.variable.extent if nest.loops else 0
        if not sums or nest.lanes < 2 or not isinstance(columns, int):
            return None
        shape, axes = _source(body, sums[0])
        if any(_source(body, identity) != (shape, axes) for identity in sums):
            return None
        reduced = tuple(shape[axis] for axis in axes)
        if outer_axes(shape, axes) != axes or always_le(math.prod(reduced), BLOCK):
            return None
        if any(type.shape != nest.domain.shape for type in body.output_types):
            return None
        if not _read_in_place(nest, sums) or _nested(body, sums):
            return None
        tiling = _Tiling.of(columns, nest.lanes, len(sums), len(body.nodes))
        return ColumnsPlan(nest, tuple(sums), axes, reduced, tiling)

    @property
    def count(self) -> Extent:
        """How many elements a sum has."""
        return math.prod(self.reduced_shape)

    def lower(self, emit: NestEmitter) -> Kernel:
        return emit.over_loops(self.nest, 1, ColumnSums(emit, self).write)


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """Writes the innermost loop, over columns."""

    emit: NestEmitter
    plan: ColumnsPlan

    @property
    def builder(self) -> LoopBuilder:
        return self.emit.builder

    @property
    def evaluator(self) -> Evaluator:
        return self.emit.evaluator

    def write(self, index: Index, part: Part | None) -> int:
        tiles = self.plan.tiling.tiles
        self._chunks(index, *(part or (0, self.builder.numbers.value(tiles))))
        return tiles

    # -- columns -----------------------------------------------------------------------------

    def _chunks(self, index: Index, begin: Number, end: Number) -> None:
        """Tiles `begin` to below `end`, as many at a time as have their sums in scratch."""
        builder, tiling = self.builder, self.plan.tiling
        with builder.loop(begin, end, step=tiling.chunk, hint="chunk") as loop:
            first = loop.variable
            n = builder.numbers
            present = n.value(n.minimum(n.sub(end, first), tiling.chunk))
            present_whole = n.value(n.minimum(present, n.sub(tiling.whole, first)))
            self._sweep(_Chunk(index, first, present, present_whole, self._levels()))

    def _each_tile(self, chunk: _Chunk, body: Callable[[list[_Vector]], None]) -> None:
        """`body` for each tile of the chunk; the last one of all may be smaller."""
        builder, addresses, tiling = self.builder, self.evaluator.addresses, self.plan.tiling
        size = tiling.tile
        if tiling.whole:
            with builder.loop(0, chunk.present_whole, hint="tile") as loop:
                near = Variable(f"near{next(_count)}", tiling.chunk)
                tile = Variable(f"tile{next(_count)}", tiling.whole)
                addresses.bind(near, loop.variable, builder.block)
                addresses.bind(tile, builder.add(chunk.first, loop.variable), builder.block)
                body(self._vectors(of(tile) * size, of(near) * size, size))
        if not tiling.rest:
            return
        is_last = builder.compare("gt", chunk.present, chunk.present_whole)
        with builder.if_(is_last) as branch:
            with branch.then():
                near = Variable(f"near{next(_count)}", tiling.chunk)
                addresses.bind(near, chunk.present_whole, builder.block)
                body(self._vectors(of(tiling.whole * size), of(near) * size, tiling.rest))
            with branch.otherwise():
                pass

    def _vectors(self, column: Expr, offset: Expr, count: int) -> list[_Vector]:
        lane = Variable(f"lane_t{next(_count)}", self.plan.nest.lanes)
        self.evaluator.addresses.bind_lane(lane, self.builder.block)
        vectors = []
        for start in range(0, count, self.plan.nest.lanes):
            left = count - start
            guards: tuple[Guard, ...] = (
                ((of(lane), 0, left),) if left < self.plan.nest.lanes else ()
            )
            at = of(lane) + start
            vectors.append(_Vector(column + at, offset + at, guards))
        return vectors

    # -- rows --------------------------------------------------------------------------------

    def _sweep(self, chunk: _Chunk) -> None:
        """All rows, and the outputs, of a chunk of columns."""
        rows = LoopCut(self.plan.count, ROWS)
        self._each_tile(chunk, lambda tile: self._clear(chunk, tile))
        rows.each(self.evaluator.addresses, f"rows_{next(_count)}", partial(self._group, chunk))
        self._each_tile(chunk, lambda tile: self._finish(chunk, tile))

    def _group(self, chunk: _Chunk, group: Expr, rest: Extent | None) -> None:
        """A group of rows, or what is left behind the whole ones."""
        first, builder = group * ROWS, self.builder
        if rest is None or isinstance(rest, int):
            self._each_tile(chunk, lambda tile: self._rows(chunk, first, rest or ROWS, tile))
        else:
            with builder.loop(0, rest, hint="row") as loop:
                row = Variable(f"row{next(_count)}", ROWS)
                self.evaluator.addresses.bind(row, loop.variable, builder.block)
                self._each_tile(chunk, lambda tile: self._rows(chunk, first + of(row), 1, tile))
        if rest is None:
            done = builder.numbers.add(self.evaluator.addresses.scalar(group), 1)
            self._carry_over(chunk, done, 0)

    def _levels(self) -> list[Level]:
        return [self._level(i) for i in range(levels_of(self.plan.count))]

    def _level(self, level: int) -> Level:
        size = self.plan.tiling.chunk * self.plan.tiling.tile
        return [
            self.builder.scratch(f"level{level}_{i}", self._dtype(identity), size)
            for i, identity in enumerate(self.plan.sums)
        ]

    def _clear(self, chunk: _Chunk, tile: list[_Vector]) -> None:
        for level in chunk.levels:
            self._store(level, tile, self._identities(tile))

    def _carry_over(self, chunk: _Chunk, done: Number, level: int) -> None:
        """What a level holds to the next one, when the `done` groups of rows fill it."""
        if level + 1 == len(chunk.levels):
            return
        source, target = chunk.levels[level : level + 2]
        n = self.builder.numbers
        over = self.builder.op("mod", n.value(done), n.value(BLOCK ** (level + 1) // ROWS))
        filled = n.compare("eq", over, 0)
        with self.builder.if_(filled) as branch:
            with branch.then():
                self._each_tile(chunk, lambda tile: self._move(source, target, tile))
                self._carry_over(chunk, done, level + 1)
            with branch.otherwise():
                pass

    def _rows(self, chunk: _Chunk, start: Expr, count: int, tile: list[_Vector]) -> None:
        sums = self._load(chunk.levels[0], tile)
        for row in range(count):
            elements = [
                self._element(chunk, identity, start + row, vector)
                for vector in tile for identity in self.plan.sums
            ]  # fmt: skip
            sums = self._combined(sums, elements)
        self._store(chunk.levels[0], tile, sums)

    def _move(self, source: Level, target: Level, tile: list[_Vector]) -> None:
        """Adds a level to another, and clears it."""
        sums = self._combined(self._load(target, tile), self._load(source, tile))
        self._store(target, tile, sums)
        self._store(source, tile, self._identities(tile))

    def _element(self, chunk: _Chunk, identity: int, row: Expr, vector: _Vector) -> LoopValue:
        """What a row adds to a sum."""
        at = self.plan.nest.domain.at(self.plan.nest.inner, vector.column)
        op, node = (
            lookup(self.plan.nest.body.nodes[identity].op),
            self.plan.nest.body.nodes[identity],
        )
        assert isinstance(op, Reduce)
        element = reduced_index(
            op, self.plan.axes, chunk.index + at, unflatten(row, self.plan.reduced_shape)
        )
        value = self.evaluator.value(node.operands[0], element, vector.guards)
        return self.builder.splat(value, self.plan.nest.lanes)

    # -- sums --------------------------------------------------------------------------------

    def _dtype(self, identity: int) -> DType:
        return self.plan.nest.body.type_of(GraphValue(identity, 0)).dtype

    def _identities(self, tile: list[_Vector]) -> list[LoopValue]:
        identities = []
        for identity in self.plan.sums:
            op, dtype = lookup(self.plan.nest.body.nodes[identity].op), self._dtype(identity)
            assert isinstance(op, Reduce)
            identities.append(self.builder.const(dtype, op.identity(dtype), self.plan.nest.lanes))
        return identities * len(tile)

    def _combined(self, left: list[LoopValue], right: list[LoopValue]) -> list[LoopValue]:
        combined = []
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            op = lookup(self.plan.nest.body.nodes[self.plan.sums[i % len(self.plan.sums)]].op)
            assert isinstance(op, Reduce)
            combined.append(op.combine(self.evaluator.algebra, a, b))
        return combined

    def _load(self, level: Level, tile: list[_Vector]) -> list[LoopValue]:
        block = self.builder.block
        return [
            self.evaluator.load(memory, vector.offset, (), block)
            for vector in tile for memory in level
        ]  # fmt: skip

    def _store(self, level: Level, tile: list[_Vector], values: list[LoopValue]) -> None:
        offsets = [(memory, vector.offset) for vector in tile for memory in level]
        for (memory, offset), value in zip(offsets, values, strict=True):
            self.evaluator.store(memory, offset, value)

    def _finish(self, chunk: _Chunk, tile: list[_Vector]) -> None:
        """What the levels hold, combined, and the tile's outputs."""
        nest = self.plan.nest
        total = self._load(chunk.levels[0], tile)
        for level in chunk.levels[1:]:
            total = self._combined(self._load(level, tile), total)
        sums = iter(total)
        for vector in tile:
            at = chunk.index + nest.domain.at(nest.inner, vector.column)
            for identity in self.plan.sums:
                value = GraphValue(identity, 0)
                self.evaluator.bind(value, at, next(sums), self.builder.block)
            self.emit.store(nest, len(nest.loops), at, vector.guards)


def _reductions(body: Graph) -> list[int]:
    """The reductions of the body, none where one is of another kind."""
    sums = [
        identity
        for identity, node in enumerate(body.nodes)
        if node.op not in (INPUT, CONSTANT) and isinstance(lookup(node.op), Reduce)
    ]
    if any(isinstance(lookup(body.nodes[identity].op), ArgReduce) for identity in sums):
        return []
    return sums


def _source(body: Graph, identity: int) -> tuple[Shape, Shape]:
    node = body.nodes[identity]
    return body.type_of(node.operands[0]).shape, node.attribute("axes")


def _read_in_place(nest: LoopNest, reductions: list[int]) -> bool:
    """Whether each output at a place of the domain needs the reductions at that place alone, and
    each reduction is needed."""
    at = coordinates(nest.domain.shape)
    needed = {output.node for output in nest.body.outputs}
    for output in nest.body.outputs:
        for read in reads(nest.body, output, at, lambda v: v.node in reductions):
            needed.add(read.value.node)
            if read.value.node in reductions and (read.index != at or read.guarded):
                return False
    return needed.issuperset(reductions)


def _nested(body: Graph, reductions: list[int]) -> bool:
    """Whether what is reduced depends on a reduction."""
    for identity in reductions:
        operand = body.nodes[identity].operands[0]
        at = coordinates(body.type_of(operand).shape)
        reductions_read = {
            read.value.node for read in reads(body, operand, at, lambda v: v.node in reductions)
        }
        if operand.node in reductions or not reductions_read.isdisjoint(reductions):
            return True
    return False
