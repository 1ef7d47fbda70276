"""The recipe `attention`: softmax(scale · q kᵀ) v for each head, and the logsumexp of its rows.

A block of rows meets all columns at once, so that nothing is rescaled: scores by register tiles
from panels of kᵀ; the maximum, the exponentials and their sum row by row, in the order of a
reduction; weights · v by register tiles, divided by the sums on the way out. The bits are those of
the definition (ops/attention.py).
"""

from __future__ import annotations

from graphc.codegen.attention_parts import AttentionKernel, Finish, Matrix, Number, Rows
from graphc.codegen.loops import Kernel, Value
from graphc.codegen.reduction import LANES
from graphc.codegen.target import Target
from graphc.codegen.vector_math import exp_of_nonpositive
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
        self.lane_sums = self.scratch("lane_sums", self.tile_rows, LANES)
        self.levels = self.scratch("levels", 1, self.block)
        self.totals = self.scratch("totals", 1, self.block)
        return self.builder.finish(extent=self.each_head(self._head))

    def _head(self) -> None:
        self.pack(self.k, self.panels)
        if 0 in self.outputs:
            self.copy(self.v, 0, self.columns, self.values)
            self.check_finite((self.v, None))
        self.each_block(self._block)

    def _block(self, rows: Rows) -> None:
        self.copy(self.q, rows.first, rows.count, self.queries, self.scaled)
        self.scores(rows, self.queries, self.panels, self.depth, self.into(self.weights))
        self.row_tiles(rows, 0, lambda row, count: self._softmax(rows, row, count))
        self._finish_rows(rows)
        if 0 in self.outputs:
            self.rows_times(rows, self.weights, self.values, self.width, self._divide(rows))

    # -- rows --------------------------------------------------------------------------------

    def _softmax(self, rows: Rows, row: Number, count: int) -> None:
        """Scores of the rows of a tile become weights; keeps their maxima and their sums."""
        builder = self.builder
        places = [self.plus(row, i) for i in range(count)]
        levels = [builder.splat(level, self.lanes) for level in self._levels(rows, places)]
        per_block = max(LANES // self.lanes, 1)
        for i in range(count):
            for part in range(per_block):
                self.store(self.lane_sums, i, part * self.lanes, self.zero)
        end = self.vector_end(self.plus(rows.first, row))

        def block(first: Number) -> None:
            last = self.computed("minimum", self.plus(first, per_block), end)

            def vector(number: Number) -> None:
                column = self.times(number, self.lanes)
                lane = self.computed("sub", column, self.times(first, self.lanes))
                for i, place in enumerate(places):
                    scores = self.load(self.weights, place, column)
                    weight = exp_of_nonpositive(builder, builder.sub(scores, levels[i]))
                    self.store(self.weights, place, column, weight)
                    total = builder.add(self.load(self.lane_sums, i, lane), weight)
                    self.store(self.lane_sums, i, lane, total)

            self.loop(first, last, "exp", vector)

        self.loop(0, end, "sum", block, step=per_block)
        for i, place in enumerate(places):
            lanes = [self.load(self.lane_sums, i, part * self.lanes) for part in range(per_block)]
            while len(lanes) > 1:
                half = len(lanes) // 2
                lanes = [builder.add(lanes[j], lanes[j + half]) for j in range(half)]
            self._put(self.totals, place, self.horizontal(lanes[0], builder.add))

    def _levels(self, rows: Rows, places: list[Number]) -> list[Value]:
        """The greatest scores of rows, 0 for -∞. Hides what a row does not see. NaN is left out
        here: it makes the sum NaN, and with it all results of the row."""
        builder = self.builder

        def greater(x: Value, y: Value) -> Value:
            return builder.select(builder.compare("gt", x, y), x, y)

        def vector(number: Number, edge: bool, best: list[Value]) -> list[Value]:
            column = self.times(number, self.lanes)
            made = []
            for place, so_far in zip(places, best, strict=True):
                scores = self.load(self.weights, place, column)
                if edge:
                    scores = self.hide(scores, self.plus(rows.first, place), number)
                    self.store(self.weights, place, column, scores)
                made.append(greater(scores, so_far))
            return made

        first = self.plus(rows.first, places[0])
        best = self.each_vector(first, vector, [self.hidden] * len(places))
        levels = [self.finite(self.horizontal(value, greater)) for value in best]
        for place, level in zip(places, levels, strict=True):
            self._put(self.levels, place, level)
        return levels

    def _put(self, matrix: Matrix, row: Number, value: Value) -> None:
        self.builder.store(matrix.memory, self.at((row, 1)), value)

    def _finish_rows(self, rows: Rows) -> None:
        """Logsumexps out; sums become divisors."""
        builder, algebra = self.builder, self.evaluator.algebra
        zero, one = (builder.const(self.dtype, x) for x in (0, 1))
        totals = self.levels if 1 in self.outputs else None

        def vector(number: Number) -> None:
            column = self.times(number, self.lanes)
            total = self.load(self.totals, 0, column)
            if totals is not None:
                level = self.load(self.levels, 0, column)
                self.store(self.levels, 0, column, builder.add(level, algebra.log(total)))
            blind = builder.compare("eq", total, zero)
            divisor = builder.select(blind, builder.splat(one, self.lanes), total)
            self.store(self.totals, 0, column, divisor)

        self.loop(0, self.padded(self.block) // self.lanes, "finish", vector)
        if totals is None:
            return

        def out(row: Number) -> None:
            value = builder.load(self.levels.memory, self.at((row, 1)))
            index = self.at((self.head, self.rows), (rows.first, 1), (row, 1))
            builder.store(self.outputs[1][0].buffer, index, value)

        self.loop(0, rows.count, "out", out)

    def _divide(self, rows: Rows) -> Finish:
        def finish(sums: list[Value], row: Number, column: Number, vectors: int) -> None:
            for i in range(len(sums) // vectors):
                at = self.plus(row, i)
                divisor = self.element(self.totals, 0, at)
                place = self.plus(rows.first, at)
                for u in range(vectors):
                    value = self.builder.div(sums[i * vectors + u], divisor)
                    self.write(0, self.width, place, column, value, u)

        return finish
