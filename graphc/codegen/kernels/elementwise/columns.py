"""Strategy: sums of columns, a few rows at a time, for reductions over leading axes.

A column by itself would be read with the stride of a row. So a few rows at once are read along all
columns, tile by tile, and added to running sums in scratch; when these hold a block of 16 rows,
they are added to the sums of the next level, and so on. The order is that of
`codegen/elements/reduction.py`.

    for chunk:                        tiles of columns whose sums are in scratch
      for tile in chunk: clear the levels
      for rows:                       4 at a time
        for tile in chunk: level 0 += row 0; += row 1; += row 2; += row 3
        every 4 of rows:
          for tile in chunk: level 1 += level 0; level 0 = 0
          every 16 of rows:           the same from level 1 to level 2, …
      for tile in chunk: what the levels hold, combined; the outputs
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.outer_blocks import BLOCK, levels_of
from graphc.codegen.kernels.elementwise.axes import axis_of, index_at, outputs_of
from graphc.codegen.kernels.elementwise.element_nest import element_nest
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Effect,
    Every,
    Fill,
    ForEach,
    FunctionLeaf,
    Holds,
    Nest,
    NestPlace,
    Role,
    Room,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.ir.dims import Extent
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.reduce import ArgReduce, Reduce
from graphc.records import record, replace
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

Level = list[Buffer]


@record
class ColumnsPlan:
    """The reductions of a body, all over the same leading axes. Columns are in tiles of `tile`, so
    many tiles in a chunk."""

    over: LoopNest
    sums: tuple[int, ...]
    axes: Shape
    reduced_shape: Shape
    tile: int
    chunk: int

    @staticmethod
    def of(over: LoopNest) -> ColumnsPlan | None:
        """For a nest all of whose reductions are over the same leading axes of operands of one
        shape, none of another, where vectors run along the columns."""
        body, sums = over.body, _reductions(over.body)
        columns = over.length
        if not sums or over.lanes < 2 or columns is None:
            return None
        shape, axes = _source(body, sums[0])
        if any(_source(body, identity) != (shape, axes) for identity in sums):
            return None
        reduced = tuple(shape[axis] for axis in axes)
        if outer_axes(shape, axes) != axes or levels_of(math.prod(reduced)) == 1:
            return None
        if any(type.shape != over.domain.shape for type in body.output_types):
            return None
        if not _read_in_place(over, sums) or _nested(body, sums):
            return None
        tile = _tile(columns, over.lanes, len(sums), len(body.nodes))
        chunk = max(min(CHUNK // tile, -(-columns // tile)), 1)
        return ColumnsPlan(over, tuple(sums), axes, reduced, tile, chunk)

    @property
    def count(self) -> Extent:
        """How many elements a sum has."""
        return math.prod(self.reduced_shape)

    @property
    def levels(self) -> int:
        return levels_of(self.count)

    def nest(self) -> Nest:
        columns = axis_of(self.over, len(self.over.loops) - 1)
        summed = Axis("r", self.count, Role.SUM, block=BLOCK, levels=self.levels)
        tiles = Split("tile", columns, self.tile, Tail.WHOLE_AND_REST)
        chunks = Split("chunk", tiles, self.chunk, Tail.STEPPED)
        tail = Tail.by(self.count, Tail.WHOLE_AND_REST, Tail.ONE_BY_ONE)
        rows, levels = Split("rows", summed, ROWS, tail), ColumnLevels(self)

        def each_tile(done: str, effect: Effect, write: Callable[[_Tile], None]) -> ForEach:
            effect = replace(effect, tails=OF_NUMBERS | {Tail.STEPPED, tail})
            leaf = FunctionLeaf(
                f"{done}, vectors of {self.over.lanes}", effect,
                lambda emit, place: write(_Tile(self, emit, place)),
            )  # fmt: skip
            return ForEach(tiles, (Compute(leaf),), within=chunks)

        joins: tuple[Statement, ...] = ()
        for level in reversed(range(self.levels - 1)):
            done, effect = f"level {level} to level {level + 1}", Effect(adds="levels", joins=level)
            join = each_tile(done, effect, partial(_Tile.join, level=level))
            joins = (Every(rows, BLOCK ** (level + 1) // ROWS, (join, *joins)),)
        effect = Effect(adds="levels", continues=True)
        add = each_tile(f"{ROWS} rows to level 0", effect, _Tile.add_rows)
        outputs = tuple(output.name for output in outputs_of(self.over))
        effect = Effect(takes="levels", stores=True, outputs=outputs)
        body = (
            each_tile("no rows yet", Effect(clears="levels"), _Tile.clear),
            ForEach(rows, (add, *joins), rest=None if rows.rest == 0 else (add,)),
            Fill(levels), each_tile("all levels", effect, _Tile.store_outputs),
        )  # fmt: skip
        nest = element_nest(self.over, (ForEach(chunks, body),), tiles, stages=(levels,))
        domain = (*nest.domain, (Role.SUM, self.count))
        return replace(nest, domain=domain, axes=(*nest.axes, summed))


def _tile(columns: int, lanes: int, sums: int, nodes: int) -> int:
    """Columns of a tile, in a body of so many nodes, `sums` of which are sums."""
    vectors = -(-columns // lanes)
    most = max(1, min(TILE_SUMS // sums, TILE_OPERATIONS // (ROWS * nodes)))
    # Two tiles at least, so that two threads can share the columns.
    tiles = max(-(-vectors // most), min(vectors, 2))
    return -(-vectors // tiles) * lanes


@record
class ColumnLevels:
    """The sums of a chunk of columns: at each level those of every reduction."""

    plan: ColumnsPlan
    holds: Holds = Holds.SUMS

    @property
    def name(self) -> str:
        return "levels"

    @property
    def elements(self) -> int:
        return self.plan.chunk * self.plan.tile

    @property
    def room(self) -> Room:
        return ((f"i{len(self.plan.over.loops) - 1}", self.elements),)

    @property
    def whole(self) -> tuple[str, ...]:
        return (*(f"i{level}" for level in range(len(self.plan.over.loops) - 1)), "chunk")

    @property
    def text(self) -> str:
        kinds = ", ".join(self.plan.over.body.nodes[identity].op for identity in self.plan.sums)
        return f"{self.plan.levels} levels of {kinds} [{self.elements}]"

    def declare(self, emit: NestEmitter) -> list[Level]:
        dtypes = [_dtype(self.plan, identity) for identity in self.plan.sums]
        return [
            [
                emit.builder.scratch(f"level{level}_{i}", dtype, self.elements)
                for i, dtype in enumerate(dtypes)
            ]
            for level in range(self.plan.levels)
        ]

    def clear(self, emit: NestEmitter, place: NestPlace) -> None:
        raise NotImplementedError("levels are cleared tile by tile")

    def fill(self, emit: NestEmitter, place: NestPlace) -> list[Level]:
        levels: list[Level] = place.memory[self.name]
        return levels


# -- a tile of columns -----------------------------------------------------------------------------


@record
class _Vector:
    """A vector of a tile: its columns, where its sums begin in scratch, and which lanes exist."""

    column: Expr
    offset: Expr
    guards: tuple[Guard, ...]


class _Tile:
    """The vectors of the tile at a place, and the sums of all of them at a level."""

    def __init__(self, plan: ColumnsPlan, emit: NestEmitter, place: NestPlace) -> None:
        self.plan, self.emit, self.place = plan, emit, place
        self.levels: list[Level] = place.memory["levels"]
        lanes, span = plan.over.lanes, place["tile"]
        lane = Variable("lane_t", lanes)
        emit.addresses.bind_lane(lane, emit.builder.block)
        assert span.inside is not None
        self.vectors = []
        for start in range(0, span.size, lanes):
            left, at = span.size - start, of(lane) + start
            guards: tuple[Guard, ...] = ((of(lane), 0, left),) if left < lanes else ()
            self.vectors.append(_Vector(span.first + at, span.inside * plan.tile + at, guards))

    # -- what leaves do ----------------------------------------------------------------------

    def clear(self) -> None:
        for level in range(self.plan.levels):
            self._store(level, self._identities())

    def add_rows(self) -> None:
        rows, sums = self.place["rows"], self._load(0)
        for row in range(rows.size):
            at = unflatten(rows.first + row, self.plan.reduced_shape)
            elements = [
                self._element(identity, at, vector)
                for vector in self.vectors for identity in self.plan.sums
            ]  # fmt: skip
            sums = self._combined(sums, elements)
        self._store(0, sums)

    def join(self, level: int) -> None:
        self._store(level + 1, self._combined(self._load(level + 1), self._load(level)))
        self._store(level, self._identities())

    def store_outputs(self) -> None:
        over, emit, total = self.plan.over, self.emit, self._load(0)
        for level in range(1, self.plan.levels):
            total = self._combined(self._load(level), total)
        sums = iter(total)
        for vector in self.vectors:
            at = self._index(vector)
            for identity in self.plan.sums:
                value = GraphValue(identity, 0)
                emit.evaluator.bind(value, at, next(sums), emit.builder.block)
            emit.store(over, len(over.loops), at, vector.guards)

    # -- sums --------------------------------------------------------------------------------

    def _element(self, identity: int, row: Index, vector: _Vector) -> LoopValue:
        plan, op = self.plan, reduction(self.plan, identity)
        (operand,) = plan.over.body.nodes[identity].operands
        index = reduced_index(op, plan.axes, self._index(vector), row)
        value = self.emit.evaluator.value(operand, index, vector.guards)
        return self.emit.builder.splat(value, plan.over.lanes)

    def _index(self, vector: _Vector) -> Index:
        over = self.plan.over
        outer = index_at(over, self.place, len(over.loops) - 1)
        return outer + over.domain.at(over.inner, vector.column)

    def _identities(self) -> list[LoopValue]:
        identities = []
        for identity in self.plan.sums:
            dtype = _dtype(self.plan, identity)
            number = reduction(self.plan, identity).identity(dtype)
            identities.append(self.emit.builder.const(dtype, number, self.plan.over.lanes))
        return identities * len(self.vectors)

    def _combined(self, left: list[LoopValue], right: list[LoopValue]) -> list[LoopValue]:
        ops = [reduction(self.plan, identity) for identity in self.plan.sums] * len(self.vectors)
        algebra = self.emit.evaluator.algebra
        return [op.combine(algebra, a, b) for op, a, b in zip(ops, left, right, strict=True)]

    def _load(self, level: int) -> list[LoopValue]:
        block = self.emit.builder.block
        return [
            self.emit.evaluator.load(memory, vector.offset, (), block)
            for vector in self.vectors for memory in self.levels[level]
        ]  # fmt: skip

    def _store(self, level: int, values: list[LoopValue]) -> None:
        offsets = [(m, vector.offset) for vector in self.vectors for m in self.levels[level]]
        for (memory, offset), value in zip(offsets, values, strict=True):
            self.emit.evaluator.store(memory, offset, value)


def reduction(plan: ColumnsPlan, identity: int) -> Reduce:
    op = lookup(plan.over.body.nodes[identity].op)
    assert isinstance(op, Reduce)
    return op


def _dtype(plan: ColumnsPlan, identity: int) -> DType:
    return plan.over.body.type_of(GraphValue(identity, 0)).dtype


# -- what it fits ----------------------------------------------------------------------------------


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
