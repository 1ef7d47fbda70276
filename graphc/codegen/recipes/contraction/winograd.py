"""The recipe `winograd`: a 3x3 convolution by 16 products, block of tiles by block of tiles.

A block is as many tiles of 2 x 2 results as are columns of one register tile, so that what is made
of them on the way stays in the second cache: Bᵀ d B for all channels, the 16 products with the
transformed weights for a number of rows (output channels), and Aᵀ m A, from which the body's
outputs are computed in registers. The bits are those of the definition (ops/winograd.py).

Along a vector lie neighbouring tiles of one row of tiles, a *group*; a group that hangs over the
end of its row computes with zeros there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Index, Kernel, LoopValue
from graphc.codegen.recipes.common import declare_buffers
from graphc.codegen.recipes.contraction.k_blocks import CHAIN
from graphc.codegen.recipes.contraction.tiles import choose_tile, vector_registers
from graphc.codegen.target import Target
from graphc.ir.nodes import INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.winograd import PLANES, after, before, both_ways, predicted_gain
from graphc.schedule.access import unflatten

Number = LoopValue | int
CHUNK_ROWS = 64
"""Rows whose products are kept before they are transformed back."""


def lower_winograd(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one `winograd` and its epilogue."""
    return _Winograd(name, body, target).build()


@dataclass(frozen=True)
class _TransformVector:
    """A loop value that is added and subtracted as the transforms are written."""

    builder: LoopBuilder
    value: LoopValue

    def __add__(self, other: _TransformVector) -> _TransformVector:
        return _TransformVector(self.builder, self.builder.add(self.value, other.value))

    def __sub__(self, other: _TransformVector) -> _TransformVector:
        return _TransformVector(self.builder, self.builder.sub(self.value, other.value))


def _never(guards: tuple[Guard, ...]) -> bool:
    """Whether some guard certainly fails, as that of a row which is a known number: the evaluator
    masks nothing by such a guard."""
    return any(at.bounds()[1] < low or at.bounds()[0] >= high for at, low, high in guards)


class _Winograd:
    def __init__(self, name: str, body: Graph, target: Target) -> None:
        self.builder = LoopBuilder(name)
        inputs, self.outputs = declare_buffers(self.builder, body)
        self.body = body
        self.anchor = next(
            GraphValue(i) for i, node in enumerate(body.nodes) if node.op == "winograd"
        )
        node = body.nodes[self.anchor.node]
        self.x, self.u = node.operands
        self.padding = node.attribute("padding")
        self.dtype = node.types[0].dtype
        self.images, self.channels, *self.size = body.type_of(self.x).shape
        _, self.rows, *self.places = node.types[0].shape
        full = target.lanes(self.dtype)
        self.evaluator = Evaluator(self.builder, body, inputs, full)
        self.integers = self.evaluator.integers
        self._cut(full, vector_registers(target))
        self.names = itertools.count()
        self.zero = self.builder.const(self.dtype, 0)

    def _cut(self, lanes: int, registers: int) -> None:
        """Lanes of a group, tile, block."""
        high, wide = (-(-place // 2) for place in self.places)
        # Half a vector for a group costs little, tiles that do not exist cost products.
        self.group = lanes
        while self.group > 2 and -(-wide // (self.group // 2)) * (self.group // 2) < (
            -(-wide // self.group) * self.group
        ):
            self.group //= 2
        self.grid = (self.images, high, -(-wide // self.group))
        self.groups = math.prod(self.grid)
        vectors = -(-self.groups * self.group // lanes)
        self.tile, _ = choose_tile(self.rows, vectors, registers)
        self.lanes = lanes
        self.width = self.tile.vectors * lanes
        self.groups_per_block = self.width // self.group
        self.blocks = -(-self.groups // self.groups_per_block)
        chunk = max(CHUNK_ROWS // self.tile.rows, 1) * self.tile.rows
        self.chunk = chunk if chunk < self.rows else self.rows
        # A plane ends one vector on: planes a power of two apart would share sets of the cache.
        self.tiles_stride = self.channels * self.width + lanes
        self.sums_stride = self.chunk * self.width + lanes

    def build(self) -> Kernel:
        scratch = self.builder.scratch
        self.tiles = scratch("tiles", self.dtype, PLANES * self.tiles_stride)
        self.sums = scratch("sums", self.dtype, PLANES * self.sums_stride)
        with self.builder.loop(self.builder.begin, self.builder.end, hint="block") as loop:
            first = self._times(loop.variable, self.groups_per_block)
            self._each(self.groups_per_block, "group", lambda g: self._transform(first, g))
            self._each(-(-self.rows // self.chunk), "chunk", lambda c: self._chunk(first, c))
        tile = f"{self.tile.rows}x{self.tile.vectors}x{self.lanes}"
        shape = self.body.type_of(self.anchor).shape
        gain = predicted_gain(shape, self.channels, padding=self.padding)
        note = (
            f"winograd F(2x2, 3x3): {self.groups} groups of {self.group} tiles, tile {tile}, "
            f"{self.blocks} blocks, {self.chunk} rows at a time, expected {gain:.2f} times as fast "
            "as the direct kernel with its weights' transform"
        )
        return self.builder.finish(self.blocks, note)

    # -- numbers and loops -------------------------------------------------------------------

    def _times(self, x: LoopValue, by: int) -> LoopValue:
        return self.builder.mul(x, self._number(by))

    def _number(self, number: Number) -> LoopValue:
        return number if isinstance(number, LoopValue) else self.builder.const(DType.i64, number)

    def _minimum(self, x: LoopValue, y: Number) -> LoopValue:
        return self.builder.minimum(x, self._number(y))

    def _bound(self, value: Number, extent: int) -> Expr:
        """A number below `extent` as an index expression."""
        if isinstance(value, int):
            return of(value)
        variable = Variable(f"winograd{next(self.names)}", extent)
        self.integers.bind(variable, value, self.builder.block)
        return of(variable)

    def _each(
        self, extent: int, hint: str, body: Callable[[Expr], None], end: Number | None = None
    ) -> None:
        """`body` for each position below `extent`, or below `end`, which is not greater."""
        if extent == 1 and end is None:
            body(of(0))
            return
        with self.builder.loop(0, extent if end is None else end, hint=hint) as loop:
            body(self._bound(loop.variable, extent))

    def _lane(self, lanes: int) -> Expr:
        variable = Variable(f"winograd{next(self.names)}", lanes)
        self.integers.bind_lane(variable, self.builder.block)
        return of(variable)

    def _at(self, linear: Expr) -> Index:
        return self.integers.offset(linear)[0]

    # -- Bᵀ d B ------------------------------------------------------------------------------

    def _transform(self, first: LoopValue, group: Expr) -> None:
        """One group of tiles, all channels. Behind the last group it is taken once more, so that no
        column of the products is undefined."""
        number = self._minimum(
            self.builder.add(first, self.integers.scalar(group)), self.groups - 1
        )
        image, high, wide = unflatten(self._bound(number, self.groups), self.grid)
        lane = self._lane(2 * self.group)

        def channel(c: Expr) -> None:
            square = []
            for i in range(4):
                row = high * 2 + (i - self.padding[0])
                column = wide * (2 * self.group) + lane - self.padding[1]
                left = self._element(image, c, row, column)
                right = self._element(image, c, row, column + 2)
                square.append([*self._parted(left), *self._parted(right)])
            at = c * self.width + group * self.group
            planes = [plane for row in both_ways(before, square) for plane in row]
            for number, plane in enumerate(planes):
                index = self._at(at + number * self.tiles_stride)
                self.builder.store(self.tiles, index, plane.value)

        self._each(self.channels, "c", channel)

    def _element(self, image: Expr, channel: Expr, row: Expr, column: Expr) -> LoopValue:
        """A vector along a row of an image, zeros where there is none."""
        guards: tuple[Guard, ...] = tuple(
            (at, 0, dim)
            for at, dim in zip((row, column), self.size, strict=True)
            if not at.within(0, dim)
        )
        nothing = self.builder.splat(self.zero, 2 * self.group)
        if _never(guards):
            return nothing
        value = self.evaluator.value(self.x, (image, channel, row, column), guards)
        value = self.builder.splat(value, 2 * self.group)
        # What is masked off is loaded as 0; a value computed from loads is unspecified there.
        if not guards or self.body.nodes[self.x.node].op == INPUT:
            return value
        held, _ = self.integers.mask(guards)
        return self.builder.select(held, value, nothing)

    def _parted(self, vector: LoopValue) -> list[_TransformVector]:
        """Its even elements and its odd ones."""
        return [
            _TransformVector(
                self.builder, self.builder.shuffle(vector, vector, range(i, 2 * self.group, 2))
            )
            for i in range(2)
        ]

    # -- products ----------------------------------------------------------------------------

    def _chunk(self, first: LoopValue, chunk: Expr) -> None:
        """So many rows of all planes, and their results."""
        top = chunk * self.chunk
        rest = self.rows % self.chunk
        tiles, last = divmod(self.chunk, self.tile.rows)
        count: Number = self.chunk
        if rest:
            left = self.builder.sub(self._number(self.rows), self.integers.scalar(top))
            count = self._minimum(left, self.chunk)
            last = rest % self.tile.rows
        has_rest: Number = 1
        if last and rest:
            rows = self.builder.op("div", self._number(count), self._number(self.tile.rows))
            behind = self.builder.sub(self._number(count), self._times(rows, self.tile.rows))
            has_rest = self._minimum(behind, 1)

        def plane(p: Expr) -> None:
            end: Number | None = None
            if rest:
                end = self.builder.op("div", self._number(count), self._number(self.tile.rows))
            if tiles:
                self._each(
                    tiles, "tile",
                    lambda t: self._tile(p, top, t * self.tile.rows, self.tile.rows), end,
                )  # fmt: skip
            if not last:
                return
            begin = (rest if rest else self.chunk) // self.tile.rows * self.tile.rows
            self._each(2, "rest", lambda _: self._tile(p, top, of(begin), last), has_rest)

        self._each(PLANES, "plane", plane)
        left = self.builder.sub(self._number(self.groups), first)
        groups = self._minimum(left, self.groups_per_block)
        self._each(
            self.groups_per_block, "group", lambda g: self._results(first, g, top, count), groups
        )

    def _tile(self, plane: Expr, top: Expr, row: Expr, rows: int) -> None:
        """The products of some rows with all columns of a block."""
        builder, vectors = self.builder, range(self.tile.vectors)
        zeros = [builder.splat(self.zero, self.lanes)] * (rows * self.tile.vectors)

        def chain(begin: Number, end: Number) -> list[LoopValue]:
            with builder.loop(begin, end, carried=zeros, hint="k") as loop:
                k = self._bound(loop.variable, self.channels)
                at = plane * self.tiles_stride + k * self.width
                right = [
                    builder.load(self.tiles, self._at(at + v * self.lanes), self.lanes)
                    for v in vectors
                ]
                made = []
                for r in range(rows):
                    weight = self.evaluator.value(self.u, (plane, top + row + r, k))
                    wide = builder.splat(weight, self.lanes)
                    made += [
                        builder.fma(wide, right[v], loop.carried[r * len(vectors) + v])
                        for v in vectors
                    ]
                loop.yield_(*made)
            return list(loop.results)

        if self.channels <= CHAIN:
            sums = chain(0, self.channels)
        else:
            with builder.loop(0, self.channels, CHAIN, carried=zeros, hint="chain") as outer:
                end = self._minimum(builder.add(outer.variable, self._number(CHAIN)), self.channels)
                made = chain(outer.variable, end)
                outer.yield_(*map(builder.add, outer.carried, made))
            sums = list(outer.results)
        at = plane * self.sums_stride + row * self.width
        for i, total in enumerate(sums):
            place = at + (i // len(vectors) * self.width + i % len(vectors) * self.lanes)
            builder.store(self.sums, self._at(place), total)

    # -- Aᵀ m A ------------------------------------------------------------------------------

    def _results(self, first: LoopValue, group: Expr, top: Expr, count: Number) -> None:
        """The body's outputs for one group of tiles and the rows of a chunk."""
        number = self.builder.add(first, self.integers.scalar(group))
        image, high, wide = unflatten(self._bound(number, self.groups), self.grid)
        lane = self._lane(2 * self.group)
        column = wide * (2 * self.group) + lane

        def row(r: Expr) -> None:
            at = r * self.width + group * self.group
            planes = [
                self.builder.load(self.sums, self._at(at + p * self.sums_stride), self.group)
                for p in range(PLANES)
            ]
            vectors = [_TransformVector(self.builder, plane) for plane in planes]
            square = [vectors[4 * i : 4 * i + 4] for i in range(4)]
            order = [i // 2 + i % 2 * self.group for i in range(2 * self.group)]
            for i, pair in enumerate(both_ways(after, square)):
                value = self.builder.shuffle(pair[0].value, pair[1].value, order)
                self._finish((image, top + r, high * 2 + i, column), value)

        self._each(self.chunk, "row", row, count)

    def _finish(self, index: tuple[Expr, ...], value: LoopValue) -> None:
        guards: tuple[Guard, ...] = tuple(
            (at, 0, dim)
            for at, dim in zip(index[2:], self.places, strict=True)
            if not at.within(0, dim)
        )
        if _never(guards):
            return
        self.evaluator.bind(self.anchor, index, value, self.builder.block)
        ready = []
        for buffer, output in zip(self.outputs, self.body.outputs, strict=True):
            made = self.evaluator.value(output, index, guards)
            ready.append((buffer, flatten(index, self.body.type_of(output).shape), made))
        for buffer, linear, made in ready:
            self.evaluator.store(buffer, linear, made, guards)
