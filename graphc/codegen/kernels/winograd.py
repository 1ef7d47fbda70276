"""The recipe `winograd`: a 3x3 convolution by 16 products, block of tiles by block of tiles.

A block is as many tiles of 2 x 2 results as are columns of one register tile, so that what is made
of them on the way stays in the second cache: Bᵀ d B for all channels, the 16 products with the
transformed weights for a number of rows (output channels), and Aᵀ m A, from which the body's
outputs are computed in registers. The bits are those of the definition (ops/layouts/winograd.py).

Along a vector lie neighbouring tiles of one row of tiles, a *group*; a group that hangs over the
end of its row computes with zeros there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.elements.positions import LoopPositions
from graphc.codegen.kernels.common import declare_buffers
from graphc.codegen.kernels.contraction.cost.tiles import Tile, choose_tile, vector_registers
from graphc.codegen.kernels.contraction.emission.emitter import EmissionContext
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK
from graphc.codegen.kernels.typical import IMAGES, typical
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Index, Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, ceil_div, fixed
from graphc.ir.nodes import INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr, flatten, of
from graphc.ops.layouts.winograd import PLANES, after, before, both_ways, predicted_gain
from graphc.schedule.access import unflatten

CHUNK_ROWS = 64
"""Rows whose products are kept before they are transformed back."""


@dataclass(frozen=True, slots=True, eq=False)
class WinogradPlan:
    """One `winograd` of a body, cut into blocks: `lanes` of a full vector, `group` of them for the
    tiles of a group, a register tile, and so many rows (`chunk`) at a time."""

    body: Graph
    anchor: GraphValue
    lanes: int
    group: int
    tile: Tile
    chunk: int

    @property
    def x(self) -> GraphValue:
        return self.body.nodes[self.anchor.node].operands[0]

    @property
    def u(self) -> GraphValue:
        """The transformed weights."""
        return self.body.nodes[self.anchor.node].operands[1]

    @property
    def padding(self) -> Shape:
        padding: Shape = self.body.nodes[self.anchor.node].attribute("padding")
        return padding

    @property
    def dtype(self) -> DType:
        return self.body.type_of(self.anchor).dtype

    @property
    def channels(self) -> int:
        return self.body.type_of(self.x).shape[1]

    @property
    def size(self) -> Shape:
        return self.body.type_of(self.x).shape[2:]

    @property
    def rows(self) -> int:
        """Output channels."""
        return self.body.type_of(self.anchor).shape[1]

    @property
    def places(self) -> Shape:
        return self.body.type_of(self.anchor).shape[2:]

    @property
    def grid(self) -> Shape:
        """Images, rows of tiles, groups in each."""
        images, _, *places = self.body.type_of(self.anchor).shape
        high, wide = (-(-place // 2) for place in places)
        return images, high, -(-wide // self.group)

    @property
    def groups(self) -> Extent:
        return math.prod(self.grid)

    @property
    def width(self) -> int:
        """Tiles of a block."""
        return self.tile.vectors * self.lanes

    @property
    def groups_per_block(self) -> int:
        return self.width // self.group

    @property
    def blocks(self) -> Extent:
        return ceil_div(self.groups, self.groups_per_block)

    # A plane ends one vector on: planes a power of two apart would share sets of the cache.

    @property
    def tiles_stride(self) -> int:
        return self.channels * self.width + self.lanes

    @property
    def sums_stride(self) -> int:
        return self.chunk * self.width + self.lanes

    @property
    def reason(self) -> str:
        tile = f"{self.tile.rows}x{self.tile.vectors}x{self.lanes}"
        shape = tuple(typical(extent, IMAGES) for extent in self.body.type_of(self.anchor).shape)
        gain = predicted_gain(shape, self.channels, padding=self.padding)
        return (
            f"winograd F(2x2, 3x3): {self.groups} groups of {self.group} tiles, tile {tile}, "
            f"{self.blocks} blocks, {self.chunk} rows at a time, expected {gain:.2f} times as fast "
            "as the direct kernel with its weights' transform"
        )

    def lower(self, context: EmissionContext) -> Kernel:
        return _Winograd(context, self).write()


def plan_winograd(body: Graph, target: Target) -> WinogradPlan:
    """How the one `winograd` of a body is cut."""
    anchor = next(GraphValue(i) for i, node in enumerate(body.nodes) if node.op == "winograd")
    images, rows, *places = body.type_of(anchor).shape
    high, wide = (-(-place // 2) for place in places)
    lanes = target.lanes(body.type_of(anchor).dtype)
    # Half a vector for a group costs little, tiles that do not exist cost products.
    group = lanes
    while group > 2 and -(-wide // (group // 2)) * (group // 2) < -(-wide // group) * group:
        group //= 2
    groups = images * high * -(-wide // group)
    tile, _ = choose_tile(
        rows, typical(ceil_div(groups * group, lanes), IMAGES), vector_registers(target)
    )
    chunk = min(max(CHUNK_ROWS // tile.rows, 1) * tile.rows, rows)
    return WinogradPlan(body, anchor, lanes, group, tile, chunk)


def lower_winograd(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one `winograd` and its epilogue."""
    builder = LoopBuilder(name)
    inputs, outputs = declare_buffers(builder, body)
    plan = plan_winograd(body, target)
    evaluator = Evaluator(builder, body, inputs, plan.lanes)
    return plan.lower(EmissionContext(builder, evaluator, outputs))


def _never(guards: tuple[Guard, ...]) -> bool:
    """Whether some guard certainly fails, as that of a row which is a known number: the evaluator
    masks nothing by such a guard."""
    return any(at.bounds()[1] < low or at.bounds()[0] >= high for at, low, high in guards)


@dataclass(frozen=True, slots=True)
class TransformVector:
    """A loop value that is added and subtracted as the transforms are written."""

    builder: LoopBuilder
    value: LoopValue

    def __add__(self, other: TransformVector) -> TransformVector:
        return TransformVector(self.builder, self.builder.add(self.value, other.value))

    def __sub__(self, other: TransformVector) -> TransformVector:
        return TransformVector(self.builder, self.builder.sub(self.value, other.value))


class _Winograd:
    """Writes the loops of a plan. Makes the scratch."""

    def __init__(self, context: EmissionContext, plan: WinogradPlan) -> None:
        self.builder = context.builder
        self.evaluator = context.evaluator
        self.addresses = context.evaluator.addresses
        self.outputs = context.outputs
        self.plan = plan
        self.numbers = context.builder.numbers
        self.positions = LoopPositions(self.addresses, "winograd")
        self.zero = self.builder.const(plan.dtype, 0)
        scratch = self.builder.scratch
        self.tiles = scratch("tiles", plan.dtype, PLANES * plan.tiles_stride)
        self.sums = scratch("sums", plan.dtype, PLANES * plan.sums_stride)

    def write(self) -> Kernel:
        plan = self.plan
        with self.builder.loop(self.builder.begin, self.builder.end, hint="block") as loop:
            first = self.numbers.mul(loop.variable, plan.groups_per_block)
            self._each(plan.groups_per_block, "group", lambda g: self._transform(first, g))
            chunks = fixed(LoopCut(plan.rows, plan.chunk).tiles)
            self._each(chunks, "chunk", lambda c: self._chunk(first, c))
        return self.builder.finish(plan.blocks, plan.reason)

    def _each(
        self, extent: int, hint: str, body: Callable[[Expr], None], end: Number | None = None
    ) -> None:
        """`body` for each position below `extent`, or below `end`, which is not greater."""
        if extent == 1 and end is None:
            body(of(0))
            return
        with self.builder.loop(0, extent if end is None else end, hint=hint) as loop:
            body(self.positions.expression(loop.variable, extent))

    def _at(self, linear: Expr) -> Index:
        return self.addresses.offset(linear)[0]

    # -- Bᵀ d B ------------------------------------------------------------------------------

    def _transform(self, first: Number, group: Expr) -> None:
        """One group of tiles, all channels. Behind the last group it is taken once more, so that no
        column of the products is undefined."""
        plan = self.plan
        number = self.numbers.add(first, self.addresses.scalar(group))
        number = self.numbers.minimum(number, plan.groups - 1)
        image, high, wide = unflatten(self.positions.expression(number, plan.groups), plan.grid)
        lane = self.positions.lane(2 * plan.group)

        def channel(c: Expr) -> None:
            square = []
            for i in range(4):
                row = high * 2 + (i - plan.padding[0])
                column = wide * (2 * plan.group) + lane - plan.padding[1]
                left = self._element(image, c, row, column)
                right = self._element(image, c, row, column + 2)
                square.append([*self._parted(left), *self._parted(right)])
            at = c * plan.width + group * plan.group
            planes = [plane for row in both_ways(before, square) for plane in row]
            for number, plane in enumerate(planes):
                index = self._at(at + number * plan.tiles_stride)
                self.builder.store(self.tiles, index, plane.value)

        self._each(plan.channels, "c", channel)

    def _element(self, image: Expr, channel: Expr, row: Expr, column: Expr) -> LoopValue:
        """A vector along a row of an image, zeros where there is none."""
        plan = self.plan
        guards: tuple[Guard, ...] = tuple(
            (at, 0, dim)
            for at, dim in zip((row, column), plan.size, strict=True)
            if not at.within(0, dim)
        )
        nothing = self.builder.splat(self.zero, 2 * plan.group)
        if _never(guards):
            return nothing
        value = self.evaluator.value(plan.x, (image, channel, row, column), guards)
        value = self.builder.splat(value, 2 * plan.group)
        # What is masked off is loaded as 0; a value computed from loads is unspecified there.
        if not guards or plan.body.nodes[plan.x.node].op == INPUT:
            return value
        held, _ = self.addresses.mask(guards)
        return self.builder.select(held, value, nothing)

    def _parted(self, vector: LoopValue) -> list[TransformVector]:
        """Its even elements and its odd ones."""
        plan = self.plan
        return [
            TransformVector(
                self.builder, self.builder.shuffle(vector, vector, range(i, 2 * plan.group, 2))
            )
            for i in range(2)
        ]

    # -- products ----------------------------------------------------------------------------

    def _chunk(self, first: Number, chunk: Expr) -> None:
        """So many rows of all planes, and their results."""
        plan = self.plan
        top = chunk * plan.chunk
        # A body is all products of a chunk, so the last one has no text of its own: how many rows
        # it has is a number at run time, and so is whether its last tile is a smaller one.
        chunks = LoopCut(plan.rows, plan.chunk)
        rest = fixed(chunks.rest)
        count: Number = chunks.present(self.addresses, chunk)
        tiles = fixed(LoopCut(plan.chunk, plan.tile.rows).whole)
        last_tile = LoopCut(rest or plan.chunk, plan.tile.rows)
        last = fixed(last_tile.rest)
        has_rest: Number = 1
        if last and rest:
            rows = self.numbers.div(count, plan.tile.rows)
            behind = self.numbers.sub(count, self.numbers.mul(rows, plan.tile.rows))
            has_rest = self.numbers.minimum(behind, 1)

        def plane(p: Expr) -> None:
            end: Number | None = None
            if rest:
                end = self.numbers.div(count, plan.tile.rows)
            if tiles:
                self._each(
                    tiles, "tile",
                    lambda t: self._tile(p, top, t * plan.tile.rows, plan.tile.rows), end,
                )  # fmt: skip
            if not last:
                return
            begin = of(fixed(last_tile.whole) * plan.tile.rows)
            self._each(2, "rest", lambda _: self._tile(p, top, begin, last), has_rest)

        self._each(PLANES, "plane", plane)
        left = self.numbers.sub(plan.groups, first)
        groups = self.numbers.minimum(left, plan.groups_per_block)
        self._each(
            plan.groups_per_block,
            "group",
            lambda g: self._results(first, g, top, count),
            groups,
        )

    def _tile(self, plane: Expr, top: Expr, row: Expr, rows: int) -> None:
        """The products of some rows with all columns of a block."""
        plan = self.plan
        builder, vectors = self.builder, range(plan.tile.vectors)
        zeros = [builder.splat(self.zero, plan.lanes)] * (rows * plan.tile.vectors)

        def k_block(begin: Number, end: Number) -> list[LoopValue]:
            with builder.loop(begin, end, carried=zeros, hint="k") as loop:
                k = self.positions.expression(loop.variable, plan.channels)
                at = plane * plan.tiles_stride + k * plan.width
                columns = [
                    builder.load(self.tiles, self._at(at + v * plan.lanes), plan.lanes)
                    for v in vectors
                ]
                sums = []
                for r in range(rows):
                    weight = self.evaluator.value(plan.u, (plane, top + row + r, k))
                    wide = builder.splat(weight, plan.lanes)
                    sums += [
                        builder.fma(wide, columns[v], loop.carried[r * len(vectors) + v])
                        for v in vectors
                    ]
                loop.yield_(*sums)
            return list(loop.results)

        if plan.channels <= K_BLOCK:
            sums = k_block(0, plan.channels)
        else:
            with builder.loop(0, plan.channels, K_BLOCK, carried=zeros, hint="k_block") as outer:
                end = self.numbers.minimum(self.numbers.add(outer.variable, K_BLOCK), plan.channels)
                block = k_block(outer.variable, end)
                outer.yield_(*map(builder.add, outer.carried, block))
            sums = list(outer.results)
        at = plane * plan.sums_stride + row * plan.width
        for i, total in enumerate(sums):
            place = at + (i // len(vectors) * plan.width + i % len(vectors) * plan.lanes)
            builder.store(self.sums, self._at(place), total)

    # -- Aᵀ m A ------------------------------------------------------------------------------

    def _results(self, first: Number, group: Expr, top: Expr, count: Number) -> None:
        """The body's outputs for one group of tiles and the rows of a chunk."""
        plan = self.plan
        number = self.numbers.add(first, self.addresses.scalar(group))
        image, high, wide = unflatten(self.positions.expression(number, plan.groups), plan.grid)
        lane = self.positions.lane(2 * plan.group)
        column = wide * (2 * plan.group) + lane

        def row(r: Expr) -> None:
            at = r * plan.width + group * plan.group
            planes = [
                self.builder.load(self.sums, self._at(at + p * plan.sums_stride), plan.group)
                for p in range(PLANES)
            ]
            vectors = [TransformVector(self.builder, plane) for plane in planes]
            square = [vectors[4 * i : 4 * i + 4] for i in range(4)]
            order = [i // 2 + i % 2 * plan.group for i in range(2 * plan.group)]
            for i, pair in enumerate(both_ways(after, square)):
                value = self.builder.shuffle(pair[0].value, pair[1].value, order)
                self._finish((image, top + r, high * 2 + i, column), value)

        self._each(plan.chunk, "row", row, count)

    def _finish(self, index: tuple[Expr, ...], value: LoopValue) -> None:
        plan = self.plan
        guards: tuple[Guard, ...] = tuple(
            (at, 0, dim)
            for at, dim in zip(index[2:], plan.places, strict=True)
            if not at.within(0, dim)
        )
        if _never(guards):
            return
        self.evaluator.bind(plan.anchor, index, value, self.builder.block)
        ready = []
        for buffer, output in zip(self.outputs, plan.body.outputs, strict=True):
            computed = self.evaluator.value(output, index, guards)
            linear = flatten(index, plan.body.type_of(output).shape)
            ready.append((buffer, linear, computed))
        for buffer, linear, computed in ready:
            self.evaluator.store(buffer, linear, computed, guards)
