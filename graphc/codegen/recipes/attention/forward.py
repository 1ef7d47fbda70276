"""The recipe `attention`: softmax(scale · q kᵀ) v for each head, and the logsumexp of its rows.

A block of rows meets all columns at once, so that nothing is rescaled: scores by register tiles
from panels of kᵀ, the greatest of each row kept on the way; the exponentials and their sum row by
row, in the order of a reduction; weights · v by register tiles, divided by the sums on the way out.
The bits are those of the definition (ops/attention.py).
"""

from __future__ import annotations

from graphc.codegen.evaluate.algebra import LoopAlgebra
from graphc.codegen.evaluate.reduction import LANES
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.recipes.attention.heads import HeadRows, Matrix, Number
from graphc.codegen.recipes.attention.parts import AttentionKernel, Finish
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph

BLOCK_ROWS = 32
"""Rows whose scores lie in scratch: with a panel of kᵀ and of v they are to fit the first cache."""


def lower_attention(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one `attention`; its outputs are some of the op's results."""
    return _Attention(name, body, target, BLOCK_ROWS, 1).build()


class _Attention(AttentionKernel):
    def build(self) -> Kernel:
        self.q, self.k, self.v, *mask = self.operands
        self.shaped(self.q, self.v, mask)
        self.panels = self.packed(self.k, "keys")
        self.values = self.scratch("values", self.columns, self.width)
        self.queries = self.scratch("queries", self.block, self.depth)
        weights = self.builder.scratch("weights", self.dtype, self.block * self.stride)
        self.weights = Matrix(weights, self.stride)
        self.best = self.scratch("best", self.block, self.lanes)
        self.lane_sums = self.scratch("lane_sums", self.tile_rows, LANES)
        self.levels = self.scratch("levels", 1, self.block)
        self.totals = self.scratch("totals", 1, self.block)
        self.divisors = self.scratch("divisors", 1, self.block)
        return self.builder.finish(extent=self.each_head(self._head))

    def _head(self) -> None:
        self.pack(self.k, self.panels, [])
        if 0 in self.outputs:
            self.meet_all(self.copy(self.v, 0, self.columns, self.values, self.untainted()))
        self.each_block(self._block)

    def _block(self, rows: HeadRows) -> None:
        self.copy(self.q, rows.first, rows.count, self.queries, [], self.scaled)
        self.loop(0, rows.count, "best", lambda row: self.store(self.best, row, 0, self.hidden))
        self.scores(rows, self.queries, self.panels, self.depth, self._keep(rows))
        self.row_tiles(rows, 0, lambda row, count: self._softmax(rows, row, count))
        if 1 in self.outputs:
            self._logsumexps(rows)
        if 0 in self.outputs:
            self.rows_times(rows, self.weights, self.values, self.width, self._divide(rows))

    # -- rows --------------------------------------------------------------------------------

    def _keep(self, rows: HeadRows) -> Finish:
        """Stores scores, and of each row the greatest so far."""

        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            sums = self.hide(rows, sums, row, column, vectors)
            for i in range(len(sums) // vectors):
                place = self.plus(row, i)
                best = self.load(self.best, place, 0)
                for u, scores in enumerate(sums[i * vectors : (i + 1) * vectors]):
                    self.store(self.weights, place, self.plus(column, u * self.lanes), scores)
                    best = self._greater(scores, best)
                self.store(self.best, place, 0, best)

        return finish

    def _greater(self, x: LoopValue, y: LoopValue) -> LoopValue:
        """NaN in x is left out: it makes the sum NaN, and with it all results of the row."""
        return self.builder.select(self.builder.compare("gt", x, y), x, y)

    def _softmax(self, rows: HeadRows, row: Number, count: int) -> None:
        """Scores of the rows of a tile become weights; keeps their maxima and their sums."""
        builder = self.builder
        places = [self.plus(row, i) for i in range(count)]
        per_block = max(LANES // self.lanes, 1)
        levels = []
        for i, place in enumerate(places):
            best = self.horizontal(self.load(self.best, place, 0), self._greater)
            level = self.finite(best)
            self._put(self.levels, place, level)
            levels.append(builder.splat(level, self.lanes))
            for part in range(per_block):
                self.store(self.lane_sums, i, part * self.lanes, self.zero)

        def vector(number: Number) -> None:
            column = self.times(number, self.lanes)
            lane = self.times(self.computed("and", number, per_block - 1), self.lanes)
            for i, place in enumerate(places):
                scores = self.load(self.weights, place, column)
                below = builder.sub(scores, levels[i])
                weight = LoopAlgebra(builder).exp_of_nonpositive(below)
                self.store(self.weights, place, column, weight)
                total = builder.add(self.load(self.lane_sums, i, lane), weight)
                self.store(self.lane_sums, i, lane, total)

        self.loop(0, self.vector_end(self.plus(rows.first, row)), "exp", vector)
        for i, place in enumerate(places):
            lanes = [self.load(self.lane_sums, i, part * self.lanes) for part in range(per_block)]
            while len(lanes) > 1:
                half = len(lanes) // 2
                lanes = [builder.add(lanes[j], lanes[j + half]) for j in range(half)]
            total = self.horizontal(lanes[0], builder.add)
            self._put(self.totals, place, total)
            blind = builder.compare("eq", total, builder.const(self.dtype, 0))
            one = builder.const(self.dtype, 1)
            self._put(self.divisors, place, builder.select(blind, one, total))

    def _put(self, matrix: Matrix, row: Number, value: LoopValue) -> None:
        self.builder.store(matrix.memory, self.at((row, 1)), value)

    def _logsumexps(self, rows: HeadRows) -> None:
        def vector(number: Number) -> None:
            column = self.times(number, self.lanes)
            total = self.evaluator.algebra.log(self.load(self.totals, 0, column))
            level = self.load(self.levels, 0, column)
            self.store(self.levels, 0, column, self.builder.add(level, total))

        def out(row: Number) -> None:
            value = self.builder.load(self.levels.memory, self.at((row, 1)))
            index = self.at((self.head, self.rows), (rows.first, 1), (row, 1))
            self.builder.store(self.outputs[1][0].buffer, index, value)

        self.loop(0, self.padded(self.block) // self.lanes, "log", vector)
        self.loop(0, rows.count, "out", out)

    def _divide(self, rows: HeadRows) -> Finish:
        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            for i in range(len(sums) // vectors):
                at = self.plus(row, i)
                divisor = self.element(self.divisors, 0, at)
                place = self.plus(rows.first, at)
                for u in range(vectors):
                    value = self.builder.div(sums[i * vectors + u], divisor)
                    self.write(0, self.width, place, column, value, u)

        return finish
