"""The recipe `winograd`: a 3x3 convolution by 16 products, block of tiles by block of tiles.

A block is as many tiles of 2 x 2 results as are columns of one register tile, so that what is made
of them on the way stays in the second cache: Bᵀ d B for all channels, the 16 products with the
transformed weights for a number of rows (output channels), and Aᵀ m A, from which the body's
outputs are computed in registers. The bits are those of the definition (ops/layouts/winograd.py).

Along a vector lie neighbouring tiles of one row of tiles, a *group*; a group that hangs over the
end of its row computes with zeros there.
"""

from __future__ import annotations

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.common import declare_buffers
from graphc.codegen.kernels.contraction.emission.emitter import EmissionContext
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK, KLoops
from graphc.codegen.kernels.winograd.plan import WinogradPlan, plan_winograd
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Kernel, LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Nest,
    NestPlace,
    Role,
    Room,
    Split,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.writer import write_nest
from graphc.codegen.target import Target
from graphc.ir.nodes import INPUT, Graph
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.layouts.winograd import PLANES, after, before, both_ways
from graphc.records import record
from graphc.schedule.access import Index, unflatten

_TAILS = OF_NUMBERS | {Tail.COUNTED, Tail.CLIPPED, Tail.NUMBERED}


def winograd_nest(body: Graph, target: Target) -> Nest:
    """The nest of a body around one `winograd` and its epilogue: planes are its batch, output
    channels its rows, groups of tiles its columns."""
    return _nest(plan_winograd(body, target))


def lower_winograd(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of such a body."""
    builder, plan = LoopBuilder(name), plan_winograd(body, target)
    inputs, outputs = declare_buffers(builder, body)
    context = EmissionContext(builder, Evaluator(builder, body, inputs, plan.lanes), outputs)
    return write_nest(_nest(plan), WinogradEmitter(context, plan))


def _nest(plan: WinogradPlan) -> Nest:
    planes = Axis("plane", PLANES, Role.BATCH)
    rows = Axis("rows", plan.rows, Role.ROWS)
    groups = Axis("groups", plan.groups, Role.COLUMNS, inner=plan.group)
    channels = Axis("k", plan.channels, Role.SUM, block=K_BLOCK)
    plane = Split("plane", planes, 1, Tail.EXACT)
    tile = Split("rows", rows, plan.tile.rows, Tail.NUMBERED)
    chunk = Split("chunk", tile, plan.chunk_tiles, Tail.CLIPPED)
    row = Split("row", rows, 1, Tail.NUMBERED)
    group = Split("group", groups, 1, Tail.EXACT)
    block = Split("block", group, plan.groups_per_block, Tail.COUNTED)
    channel = Split("k", channels, 1, Tail.EXACT)
    of_block, each_plane = ("groups", plan.groups_per_block), ("plane", PLANES)
    tiles = WinogradPlanes(
        "tiles", Holds.VECTORS, plan.channels, (each_plane, of_block, ("k", plan.channels)),
        ("block",),
    )  # fmt: skip
    sums = WinogradPlanes(
        "sums", Holds.SUMS, plan.chunk, (each_plane, ("rows", plan.chunk), of_block),
        ("block", "chunk"),
    )  # fmt: skip
    transformed = ForEach(channel, (Compute(TransformTiles(plan, tiles)),))
    products = ForEach(tile, (Compute(PlaneProducts(plan, tiles, sums)),), within=chunk)
    results = ForEach(row, (Compute(TransformSums(plan, sums)),), within=chunk)
    chunks = ForEach(
        chunk, (ForEach(plane, (products,)), Fill(sums), ForEach(group, (results,), within=block)),
        clips=(tile, row),
    )  # fmt: skip
    body = ForEach(
        block, (ForEach(group, (transformed,), within=block, padded=True), Fill(tiles), chunks)
    )
    return Nest(
        "winograd",
        (
            (Role.BATCH, PLANES), (Role.ROWS, plan.rows),
            (Role.COLUMNS, plan.groups * plan.group), (Role.SUM, plan.channels),
        ),
        (planes, rows, groups, channels), (tiles, sums), (block,), (body,), plan.reason,
    )  # fmt: skip


class WinogradEmitter:
    """What stages and leaves write with. The lanes of a group's results are one variable."""

    def __init__(self, context: EmissionContext, plan: WinogradPlan) -> None:
        self.context = context
        self.builder = context.builder
        self.evaluator = context.evaluator
        self.addresses = context.evaluator.addresses
        self.zero = context.builder.const(plan.dtype, 0)
        self.plan = plan
        lane = Variable("group_lane", 2 * plan.group)
        self.addresses.bind_lane(lane, self.addresses.root)
        self.lane = of(lane)

    def load(self, memory: Buffer, at: Expr, lanes: int) -> LoopValue:
        """A vector of scratch."""
        return self.builder.load(memory, self.addresses.offset(at)[0], lanes)

    def store(self, memory: Buffer, at: Expr, value: LoopValue) -> None:
        self.builder.store(memory, self.addresses.offset(at)[0], value)

    def guards(self, index: tuple[Expr, Expr], shape: Shape) -> tuple[Guard, ...] | None:
        """Of a place in a plane that may not be there; None: it never is, as a row that is a known
        number (the evaluator masks nothing by such a guard)."""
        unsure = tuple(
            (at, 0, dim) for at, dim in zip(index, shape, strict=True) if not at.within(0, dim)
        )
        never = any(at.bounds()[1] < low or at.bounds()[0] >= high for at, low, high in unsure)
        return None if never else unsure


@record
class TransformVector:
    """A loop value that is added and subtracted as the transforms are written."""

    builder: LoopBuilder
    value: LoopValue

    def __add__(self, other: TransformVector) -> TransformVector:
        return TransformVector(self.builder, self.builder.add(self.value, other.value))

    def __sub__(self, other: TransformVector) -> TransformVector:
        return TransformVector(self.builder, self.builder.sub(self.value, other.value))


@record
class WinogradPlanes:
    """Scratch [plane][row][tile of a block], which leaves fill. A plane ends one vector on: planes
    a power of two apart would share sets of the cache."""

    name: str
    holds: Holds
    rows: int
    room: Room
    whole: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"planes of {self.rows} rows"

    def declare(self, emit: WinogradEmitter) -> Buffer:
        size = PLANES * self._stride(emit.plan)
        return emit.builder.scratch(self.name, emit.plan.dtype, size)

    def clear(self, emit: WinogradEmitter, place: NestPlace) -> None:
        raise NotImplementedError("planes are written, never cleared")

    def fill(self, emit: WinogradEmitter, place: NestPlace) -> Buffer:
        memory: Buffer = place.memory[self.name]
        return memory

    def at(self, plan: WinogradPlan, plane: Expr | int, row: Expr, tile: Expr | int) -> Expr:
        return row * plan.width + tile + plane * self._stride(plan)

    def _stride(self, plan: WinogradPlan) -> int:
        return self.rows * plan.width + plan.lanes


@record
class TransformTiles:
    """Bᵀ d B of one channel, for the tiles of a group."""

    plan: WinogradPlan
    tiles: WinogradPlanes

    @property
    def text(self) -> str:
        return f"Bt d B of {self.plan.group} tiles"

    @property
    def effect(self) -> Effect:
        return Effect(covers=("plane",), fills=self.tiles.name, tails=_TAILS)

    def write(self, emit: WinogradEmitter, place: NestPlace) -> None:
        plan, group, channel = self.plan, place["group"], place["k"].number
        image, high, wide = unflatten(group.number, plan.grid)
        square = []
        for i in range(4):
            row = high * 2 + (i - plan.padding[0])
            column = wide * (2 * plan.group) + emit.lane - plan.padding[1]
            sides = (self._element(emit, (image, channel, row, column + at)) for at in (0, 2))
            square.append([part for side in sides for part in self._parted(emit.builder, side)])
        assert group.inside is not None
        planes = [plane for row in both_ways(before, square) for plane in row]
        for number, plane in enumerate(planes):
            at = self.tiles.at(plan, number, channel, group.inside * plan.group)
            emit.store(place.memory[self.tiles.name], at, plane.value)

    def _element(self, emit: WinogradEmitter, index: Index) -> LoopValue:
        """A vector along a row of an image, zeros where there is none."""
        plan, builder = self.plan, emit.builder
        nothing = builder.splat(emit.zero, 2 * plan.group)
        guards = emit.guards((index[2], index[3]), plan.size)
        if guards is None:
            return nothing
        value = emit.evaluator.value(plan.x, index, guards)
        value = builder.splat(value, 2 * plan.group)
        # What is masked off is loaded as 0; a value computed from loads is unspecified there.
        if not guards or plan.body.nodes[plan.x.node].op == INPUT:
            return value
        held, _ = emit.addresses.mask(guards)
        return builder.select(held, value, nothing)

    def _parted(self, builder: LoopBuilder, vector: LoopValue) -> list[TransformVector]:
        """Its even elements and its odd ones."""
        lanes = [range(first, 2 * self.plan.group, 2) for first in (0, 1)]
        return [TransformVector(builder, builder.shuffle(vector, vector, each)) for each in lanes]


@record
class PlaneProducts:
    """The products of a tile of rows with all columns of a block, in one plane."""

    plan: WinogradPlan
    tiles: WinogradPlanes
    sums: WinogradPlanes

    @property
    def text(self) -> str:
        tile = self.plan.tile
        return f"register tile {tile.rows}x{tile.vectors}x{self.plan.lanes}"

    @property
    def effect(self) -> Effect:
        return Effect(
            covers=("k",), reads=(self.tiles.name,), adds=self.sums.name, starts=True, tails=_TAILS
        )

    def write(self, emit: WinogradEmitter, place: NestPlace) -> None:
        plan, plane, rows = self.plan, place["plane"].number, place["rows"]
        count = plan.tile.vectors
        tiles, sums = place.filled[self.tiles.name], place.memory[self.sums.name]

        def products(k: Index, carried: list[LoopValue]) -> list[LoopValue]:
            columns = [
                emit.load(tiles, self.tiles.at(plan, plane, k[0], v * plan.lanes), plan.lanes)
                for v in range(count)
            ]
            totals = []
            for r in range(rows.size):
                weight = emit.evaluator.value(plan.u, (plane, rows.first + r, *k))
                wide = emit.builder.splat(weight, plan.lanes)
                totals += [
                    emit.builder.fma(wide, columns[v], carried[r * count + v]) for v in range(count)
                ]
            return totals

        zeros = [emit.builder.splat(emit.zero, plan.lanes)] * (rows.size * count)
        loops = KLoops(emit.builder, emit.evaluator, (plan.channels,), 1, products, zeros)
        assert rows.inside is not None
        first = rows.inside * plan.tile.rows
        for i, total in enumerate(loops.total()):
            at = self.sums.at(plan, plane, first + i // count, i % count * plan.lanes)
            emit.store(sums, at, total)


@record
class TransformSums:
    """Aᵀ m A of one row, and the body's outputs, for the tiles of a group."""

    plan: WinogradPlan
    sums: WinogradPlanes

    @property
    def text(self) -> str:
        return f"At m A of {self.plan.group} tiles"

    @property
    def effect(self) -> Effect:
        return Effect(covers=("plane",), takes=self.sums.name, stores=True, tails=_TAILS)

    def write(self, emit: WinogradEmitter, place: NestPlace) -> None:
        plan, row, group = self.plan, place["row"], place["group"]
        assert row.inside is not None and group.inside is not None
        vectors = []
        for plane in range(PLANES):
            at = self.sums.at(plan, plane, row.inside, group.inside * plan.group)
            value = emit.load(place.filled[self.sums.name], at, plan.group)
            vectors.append(TransformVector(emit.builder, value))
        image, high, wide = unflatten(group.number, plan.grid)
        column = wide * (2 * plan.group) + emit.lane
        order = [i // 2 + i % 2 * plan.group for i in range(2 * plan.group)]
        square = [vectors[4 * i : 4 * i + 4] for i in range(4)]
        for i, pair in enumerate(both_ways(after, square)):
            at_plane = (high * 2 + i, column)
            guards = emit.guards(at_plane, plan.places)
            if guards is not None:
                value = emit.builder.shuffle(pair[0].value, pair[1].value, order)
                index = (image, row.first, *at_plane)
                emit.context.finish(plan.anchor, index, guards, value)
