"""A kernel of attention, head by head: its numbers, its loops, its scratch.

in : a kernel's body around one composite of q, k, v and a mask, and its plan
out: an `AttentionContext`, which writes the loop over heads; `Heads`, which for one of them writes
     loops over blocks of rows, and tiles of rows and columns
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.leaf_loops import counted_loop
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.elements.positions import LoopPositions
from graphc.codegen.kernels.attention.plan import TILE_VECTORS, AttentionPlan
from graphc.codegen.kernels.attention.results import Destination, stored
from graphc.codegen.kernels.common import declare_buffers
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.numbers import Number, known_range
from graphc.ir.dims import Extent, ceil_div, known_number
from graphc.ir.nodes import Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ops.kinds.index_expr import Expr
from graphc.records import record

Body = Callable[[Number], None]


@record(slots=False)
class Matrix:
    """Scratch of rows of `stride` elements, a whole number of vectors."""

    memory: Buffer
    stride: Extent


@record(slots=False)
class HeadRows:
    """Rows of a block: `tiles` whole tiles, and `rest` rows where `has_rest` (0 or 1); or, where
    `rest` is not known (None), as many as `has_rest` says."""

    first: Number
    count: Number
    tiles: Number
    rest: int | None
    has_rest: Number


@record
class Head:
    """The head at hand: its number, its index, and where its matrices start in the outputs."""

    number: LoopValue
    lead: tuple[Expr, ...]
    starts: dict[Destination, LoopValue]


@record
class AttentionContext:
    """A kernel being written: its builder, the evaluator of its body, its plan, its outputs."""

    builder: LoopBuilder
    evaluator: Evaluator
    body: Graph
    plan: AttentionPlan
    outputs: dict[int, list[Destination]]
    positions: LoopPositions

    @property
    def addresses(self) -> Addresses:
        return self.evaluator.addresses

    def scratch(self, name: str, rows: Extent, columns: int) -> Matrix:
        stride = self.plan.padded(columns)
        return Matrix(self.builder.scratch(name, self.plan.dtype, rows * stride), stride)

    def scores(self, name: str) -> Matrix:
        """Scratch for a block of rows of scores."""
        plan = self.plan
        memory = self.builder.scratch(name, plan.dtype, plan.block * plan.stride)
        return Matrix(memory, plan.stride)

    def packed(self, source: GraphValue, name: str) -> Matrix:
        """Scratch for the transpose of an operand, as panels of a tile's columns: [panel][depth]
        [columns of a tile], the columns being the operand's rows. Of a depth that leaves a size,
        whole vectors are transposed: rows behind a panel's last are overwritten by the next panel,
        those behind the last panel have room of their own."""
        panels = ceil_div(self.plan.vectors, TILE_VECTORS)
        depth = self.body.type_of(source).shape[-1]
        rest = known_number(depth % self.plan.lanes)
        behind = self.plan.lanes - 1 if rest is None else 0
        return self.scratch(name, panels * depth + behind, TILE_VECTORS * self.plan.lanes)


def attention_context(name: str, body: Graph, plan: AttentionPlan) -> AttentionContext:
    """A new kernel."""
    builder = LoopBuilder(name)
    inputs, outputs = declare_buffers(builder, body)
    evaluator = Evaluator(builder, body, inputs, plan.lanes)
    return AttentionContext(
        builder, evaluator, body, plan, stored(body, plan.anchor, outputs),
        LoopPositions(evaluator.addresses, "attention"),
    )  # fmt: skip


class Heads:
    """Writes the loops of one head."""

    def __init__(self, context: AttentionContext, head: Head):
        plan = context.plan
        self.builder, self.evaluator = context.builder, context.evaluator
        self.addresses = context.evaluator.addresses
        self.numbers, self.positions = context.builder.numbers, context.positions
        self.body, self.outputs = context.body, context.outputs
        self.head, self.lead, self.starts = head.number, head.lead, head.starts
        self.scale, self.causal, self.mask = plan.scale, plan.causal, plan.mask
        self.dtype, self.lanes = plan.dtype, plan.lanes
        self.rows, self.depth = plan.rows, plan.depth
        self.columns, self.width, self.vectors = plan.columns, plan.width, plan.vectors
        self.block, self.stride = plan.block, plan.stride
        self.tile_rows, self.tile_vectors = plan.tile_rows, TILE_VECTORS
        self.padded = plan.padded
        self.zero = self.builder.splat(self.builder.const(self.dtype, 0), self.lanes)
        self.hidden = self.builder.splat(self.builder.const(self.dtype, -math.inf), self.lanes)

    # -- loops -------------------------------------------------------------------

    def loop(self, begin: Number, end: Number, hint: str, body: Body, step: int = 1) -> None:
        """`body` for each position; nothing is written for a loop that is known to be empty."""

        def at(position: Number, values: list[LoopValue]) -> list[LoopValue]:
            body(position)
            return values

        counted_loop(self.builder, begin, end, at, step=step, hint=hint)

    def fold(
        self, end: Number, hint: str, start: list[LoopValue],
        body: Callable[[Number, list[LoopValue]], list[LoopValue]],
    ) -> list[LoopValue]:  # fmt: skip
        """What `body(position, so far)` makes of `start` in positions 0 … end."""
        return counted_loop(self.builder, 0, end, body, start, hint=hint)

    def load(self, matrix: Matrix, row: Number, column: Number, plus: int = 0) -> LoopValue:
        """A vector at `column + plus` of a row."""
        index = self.numbers.index((row, matrix.stride), (column, 1), (plus, 1))
        return self.builder.load(matrix.memory, index, self.lanes)

    def element(self, matrix: Matrix, row: Number, column: Number, plus: int = 0) -> LoopValue:
        index = self.numbers.index((row, matrix.stride), (column, 1), (plus, 1))
        return self.builder.splat(self.builder.load(matrix.memory, index), self.lanes)

    def store(self, matrix: Matrix, row: Number, column: Number, value: LoopValue) -> None:
        index = self.numbers.index((row, matrix.stride), (column, 1))
        self.builder.store(matrix.memory, index, value)

    def in_tiles(
        self, cut: LoopCut, end: Number, hint: str, body: Callable[[Number, int], None]
    ) -> None:
        """`body(first element, elements)` for the whole tiles below `end`, then for what is left:
        at once, or, where it is a size, one by one."""
        n = self.numbers
        self.loop(0, end, hint, lambda tile: body(n.mul(tile, cut.size), cut.size))
        last, rest = n.mul(cut.whole, cut.size), known_number(cut.rest)
        if rest is None:
            self.loop(0, cut.rest, "rest", lambda i: body(n.add(last, i), 1))
        elif rest:
            body(last, rest)

    # -- tiles -------------------------------------------------------------------------------

    def row_tiles(self, rows: HeadRows, begin: Number, body: Callable[[Number, int], None]) -> None:
        """`body(first row within the block, rows)` for the tiles from `begin` on, and the rest."""

        def tile(number: Number) -> None:
            body(self.numbers.mul(number, self.tile_rows), self.tile_rows)

        self.loop(begin, rows.tiles, "rows", tile)
        last = self.numbers.mul(rows.tiles, self.tile_rows) if rows.rest != 0 else 0
        if rows.rest is None:
            self.loop(0, rows.has_rest, "rest", lambda i: body(self.numbers.add(last, i), 1))
        elif rows.rest:
            count = rows.rest
            self.loop(0, rows.has_rest, "rest", lambda _: body(last, count))

    def column_tiles(
        self, columns: Extent, body: Callable[[Number, int], None], straight: bool = False
    ) -> None:
        """`body(number of the tile, vectors)` for the tiles of a row of so many columns, in a loop
        or, where they are a number, `straight` on; the number of the last one is no value of a
        loop. Where its vectors are a size, there is code for each number of them."""
        whole = LoopCut(columns, self.tile_vectors * self.lanes).whole
        rest = self.padded(columns) // self.lanes - whole * self.tile_vectors
        numbers = known_range(0, whole) if straight else None
        if numbers is None:
            self.loop(0, whole, "columns", lambda number: body(number, self.tile_vectors))
        for number in numbers or ():
            body(number, self.tile_vectors)
        left = known_number(rest)
        if left:
            body(whole, left)
        for vectors in range(1, self.tile_vectors + 1) if left is None else ():
            held = self.numbers.compare("eq", rest, vectors)
            with self.builder.if_(held) as branch:
                with branch.then():
                    body(whole, vectors)
                with branch.otherwise():
                    pass

    # -- values ------------------------------------------------------------------------------

    def finite(self, level: LoopValue) -> LoopValue:
        """What is subtracted from scores: 0 for -∞."""
        zero, lowest = (self.builder.const(self.dtype, x) for x in (0, -math.inf))
        return self.builder.select(self.builder.compare("eq", level, lowest), zero, level)

    def horizontal(
        self, vector: LoopValue, combine: Callable[[LoopValue, LoopValue], LoopValue]
    ) -> LoopValue:
        """All lanes combined as a tree: lane i with i + half, and so on."""
        width = self.lanes
        while width > 1:
            width //= 2
            low = self.builder.shuffle(vector, vector, tuple(range(width)))
            high = self.builder.shuffle(vector, vector, tuple(range(width, 2 * width)))
            vector = combine(low, high)
        return vector
