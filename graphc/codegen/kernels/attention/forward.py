"""The recipe `attention`: softmax(scale · q kᵀ) v for each head, and the logsumexp of its rows.

A block of rows meets all columns at once, so that nothing is rescaled: scores by register tiles
from panels of kᵀ, the greatest of each row kept on the way; the exponentials and their sum row by
row, in the order of a reduction; weights · v by register tiles, divided by the sums on the way out.
The bits are those of the definition (ops/nn/attention.py).
"""

from __future__ import annotations

from graphc.codegen.elements.algebra import LoopAlgebra
from graphc.codegen.elements.combination import LANES
from graphc.codegen.kernels.attention.heads import (
    AttentionContext,
    HeadRows,
    Matrix,
    attention_context,
)
from graphc.codegen.kernels.attention.nest import (
    HeadStage,
    attention_nest,
    head_of,
    leaf_of,
    rows_of,
)
from graphc.codegen.kernels.attention.operands import Operands
from graphc.codegen.kernels.attention.parts import AttentionKernel, Finish
from graphc.codegen.kernels.attention.plan import attention_plan
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.nests.nest import Effect, Fill, Holds, Nest, NestOutput, NestPlace
from graphc.codegen.nests.writer import write_nest
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph
from graphc.records import record

BLOCK_ROWS = 32
"""Rows whose scores lie in scratch: with a panel of kᵀ and of v they are to fit the first cache."""


@record
class ScoreMemory:
    """Scratch: the weights of a block of rows, and numbers of its rows."""

    weights: Matrix
    best: Matrix
    lane_sums: Matrix
    levels: Matrix
    totals: Matrix
    divisors: Matrix

    @staticmethod
    def of(context: AttentionContext) -> ScoreMemory:
        plan, scratch = context.plan, context.scratch
        return ScoreMemory(
            weights=context.scores("weights"),
            best=scratch("best", plan.block, plan.lanes),
            lane_sums=scratch("lane_sums", plan.tile_rows, LANES),
            levels=scratch("levels", 1, plan.block),
            totals=scratch("totals", 1, plan.block),
            divisors=scratch("divisors", 1, plan.block),
        )


def lower_attention(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one `attention`; its outputs are some of the op's results."""
    context = _context(name, body, target)
    return write_nest(_nest(context), context)


def forward_nest(body: Graph, target: Target) -> Nest:
    """The nest of such a body."""
    return _nest(_context("attention", body, target))


def _context(name: str, body: Graph, target: Target) -> AttentionContext:
    plan = attention_plan(body, target, ("q", "k", "v"), BLOCK_ROWS, 1)
    return attention_context(name, body, plan)


OUTPUTS = {
    0: NestOutput("values", ("head", "row", "width")),
    1: NestOutput("logsumexp", ("head", "row")),
}  # fmt: skip


def _nest(context: AttentionContext) -> Nest:
    plan, wanted = context.plan, context.outputs
    columns, rows = ("column", plan.columns), ("row", plan.block)
    per_head, per_block = ("head",), ("head", "block")
    keys = HeadStage(
        "keys", Holds.VECTORS, "panels of the transpose",
        (columns, ("depth", plan.depth)), per_head,
        lambda c: c.packed(plan.operand("k"), "keys"), _pack_keys,
    )  # fmt: skip
    values = HeadStage(
        "values", Holds.VECTORS, "rows of whole vectors",
        (columns, ("width", plan.width)), per_head,
        lambda c: c.scratch("values", plan.columns, plan.width), _copy_values,
    )  # fmt: skip
    queries = HeadStage(
        "queries", Holds.BROADCAST, "rows, scaled", (rows, ("depth", plan.depth)), per_block,
        lambda c: c.scratch("queries", plan.block, plan.depth), _copy_queries,
    )  # fmt: skip
    scores = HeadStage(
        "scores", Holds.VALUES, "a block of rows", (rows, columns), per_block, ScoreMemory.of
    )
    weights = HeadStage(
        "weights", Holds.VALUES, "where the scores were", (rows, columns), per_block,
        lambda _: None,
    )  # fmt: skip
    score = leaf_of(
        _Attention, "register tiles of q kt, the greatest of each row",
        Effect(("column",), ("keys", "queries"), fills="scores"), _Attention.scores_of,
    )  # fmt: skip
    softmax = leaf_of(
        _Attention, "exponentials of a tile's rows and their sums",
        Effect(("column",), ("scores",), fills="weights"), _Attention.softmax,
    )  # fmt: skip
    log = leaf_of(
        _Attention, "logarithms of the sums",
        Effect(reads=("weights",), stores=True, outputs=("logsumexp",)), _Attention.logsumexps,
    )  # fmt: skip
    product = leaf_of(
        _Attention, "register tiles of weights and v, divided by the sums",
        Effect(("width",), ("weights", "values"), stores=True, outputs=("values",)),
        _Attention.values_of,
    )  # fmt: skip
    return attention_nest(
        context, plan.note, [OUTPUTS[i] for i in sorted(wanted)],
        (keys, values, queries, scores, weights),
        (Fill(keys), *((Fill(values),) if 0 in wanted else ())),
        (
            Fill(queries), score, Fill(scores), softmax, Fill(weights),
            *((log,) if 1 in wanted else ()), *((product,) if 0 in wanted else ()),
        ),
    )  # fmt: skip


def _pack_keys(context: AttentionContext, place: NestPlace) -> None:
    copies = Operands(context, head_of(context, place))
    copies.pack(context.plan.operand("k"), place.memory["keys"], [])


def _copy_values(context: AttentionContext, place: NestPlace) -> LoopValue | None:
    """Whether no value is to be skipped: see `meets_all`."""
    copies, plan = Operands(context, head_of(context, place)), context.plan
    start = copies.untainted()
    v = copies.copy(plan.operand("v"), 0, plan.columns, place.memory["values"], start)
    return copies.meets_all(v)


def _copy_queries(context: AttentionContext, place: NestPlace) -> HeadRows:
    """The rows of the block, which all its leaves have."""
    copies, rows = Operands(context, head_of(context, place)), rows_of(context, place)
    q, memory = context.plan.operand("q"), place.memory["queries"]
    copies.copy(q, rows.first, rows.count, memory, [], copies.scaled)
    return rows


class _Attention(AttentionKernel):
    """One block of rows of one head."""

    def __init__(self, context: AttentionContext, place: NestPlace):
        super().__init__(context, head_of(context, place), place.filled.get("values"))
        self.memory: ScoreMemory = place.memory["scores"]
        self.of_block: HeadRows = place.filled["queries"]
        self.copies = place.memory

    def scores_of(self) -> None:
        rows, memory = self.of_block, self.memory
        self.loop(0, rows.count, "best", lambda row: self.store(memory.best, row, 0, self.hidden))
        queries, keys = self.copies["queries"], self.copies["keys"]
        self.scores(rows, queries, keys, self.depth, self._keep(rows))

    def softmax(self) -> None:
        rows = self.of_block
        self.row_tiles(rows, 0, lambda row, count: self._softmax(rows, row, count))

    def values_of(self) -> None:
        rows = self.of_block
        values, finish = self.copies["values"], self._divide(rows)
        self.rows_times(rows, self.memory.weights, values, self.width, finish)

    # -- rows --------------------------------------------------------------------------------

    def _keep(self, rows: HeadRows) -> Finish:
        """Stores scores, and of each row the greatest so far."""

        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            sums = self.hide(rows, sums, row, column, vectors)
            for i in range(len(sums) // vectors):
                place = self.numbers.add(row, i)
                best = self.load(self.memory.best, place, 0)
                for u, scores in enumerate(sums[i * vectors : (i + 1) * vectors]):
                    self.store(
                        self.memory.weights, place, self.numbers.add(column, u * self.lanes), scores
                    )
                    best = self._greater(scores, best)
                self.store(self.memory.best, place, 0, best)

        return finish

    def _greater(self, x: LoopValue, y: LoopValue) -> LoopValue:
        """NaN in x is left out: it makes the sum NaN, and with it all results of the row."""
        return self.builder.select(self.builder.compare("gt", x, y), x, y)

    def _softmax(self, rows: HeadRows, row: Number, count: int) -> None:
        """Scores of the rows of a tile become weights; keeps their maxima and their sums."""
        builder = self.builder
        places = [self.numbers.add(row, i) for i in range(count)]
        per_block = max(LANES // self.lanes, 1)
        levels = []
        for i, place in enumerate(places):
            best = self.horizontal(self.load(self.memory.best, place, 0), self._greater)
            level = self.finite(best)
            self._put(self.memory.levels, place, level)
            levels.append(builder.splat(level, self.lanes))
            for part in range(per_block):
                self.store(self.memory.lane_sums, i, part * self.lanes, self.zero)

        def vector(number: Number) -> None:
            column = self.numbers.mul(number, self.lanes)
            lane = self.numbers.mul(self.numbers.bits(number, per_block - 1), self.lanes)
            for i, place in enumerate(places):
                scores = self.load(self.memory.weights, place, column)
                below = builder.sub(scores, levels[i])
                weight = LoopAlgebra(builder).exp_of_nonpositive(below)
                self.store(self.memory.weights, place, column, weight)
                total = builder.add(self.load(self.memory.lane_sums, i, lane), weight)
                self.store(self.memory.lane_sums, i, lane, total)

        self.loop(0, self.vector_end(self.numbers.add(rows.first, row)), "exp", vector)
        for i, place in enumerate(places):
            lanes = [
                self.load(self.memory.lane_sums, i, part * self.lanes) for part in range(per_block)
            ]
            while len(lanes) > 1:
                half = len(lanes) // 2
                lanes = [builder.add(lanes[j], lanes[j + half]) for j in range(half)]
            total = self.horizontal(lanes[0], builder.add)
            self._put(self.memory.totals, place, total)
            blind = builder.compare("eq", total, builder.const(self.dtype, 0))
            one = builder.const(self.dtype, 1)
            self._put(self.memory.divisors, place, builder.select(blind, one, total))

    def _put(self, matrix: Matrix, row: Number, value: LoopValue) -> None:
        self.builder.store(matrix.memory, self.numbers.index((row, 1)), value)

    def logsumexps(self) -> None:
        rows = self.of_block

        def vector(number: Number) -> None:
            column = self.numbers.mul(number, self.lanes)
            total = self.evaluator.algebra.log(self.load(self.memory.totals, 0, column))
            level = self.load(self.memory.levels, 0, column)
            self.store(self.memory.levels, 0, column, self.builder.add(level, total))

        def out(row: Number) -> None:
            value = self.builder.load(self.memory.levels.memory, self.numbers.index((row, 1)))
            index = self.numbers.index((self.head, self.rows), (rows.first, 1), (row, 1))
            self.builder.store(self.outputs[1][0].buffer, index, value)

        self.loop(0, self.padded(self.block) // self.lanes, "log", vector)
        self.loop(0, rows.count, "out", out)

    def _divide(self, rows: HeadRows) -> Finish:
        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            for i in range(len(sums) // vectors):
                at = self.numbers.add(row, i)
                divisor = self.element(self.memory.divisors, 0, at)
                place = self.numbers.add(rows.first, at)
                for u in range(vectors):
                    value = self.builder.div(sums[i * vectors + u], divisor)
                    self.write(0, self.width, place, column, value, u)

        return finish
