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
        self.lane_sums = self.scratch("lane_sums", 1, LANES)
        self.levels = self.scratch("levels", 1, self.block)
        self.totals = self.scratch("totals", 1, self.block)
        return self.builder.finish(extent=self.each_head(self._head))

    def _head(self) -> None:
        self.pack(self.k, self.panels)
        if 0 in self.outputs:
            self.copy(self.v, 0, self.columns, self.values)
            self.check_finite([self.v])
        self.each_block(self._block)

    def _block(self, rows: Rows) -> None:
        self.copy(self.q, rows.first, rows.count, self.queries, scaled=True)
        self.scores(rows, self.queries, self.panels, self.depth, self.into(self.weights))
        self.loop(0, rows.count, "row", lambda row: self._softmax(rows, row))
        self._finish_rows(rows)
        if 0 in self.outputs:
            self.rows_times(rows, self.weights, self.values, self.width, self._divide(rows))

    # -- rows --------------------------------------------------------------------------------

    def _softmax(self, rows: Rows, row: Number) -> None:
        """Scores of one row become weights; keeps their maximum and their sum."""
        level = self._level(rows, row)
        self._put(self.levels, row, level)
        builder, wide = self.builder, self.builder.splat(level, self.lanes)
        per_block = max(LANES // self.lanes, 1)
        for i in range(per_block):
            self.store(self.lane_sums, 0, i * self.lanes, self.zero)
        end = self.vector_end(self.computed("add", rows.first, row))

        def block(first: Number) -> None:
            last = self.computed("minimum", self.computed("add", first, per_block), end)

            def vector(number: Number) -> None:
                column = self.computed("mul", number, self.lanes)
                scores = self.load(self.weights, row, column)
                weight = self.evaluator.algebra.exp(builder.sub(scores, wide))
                self.store(self.weights, row, column, weight)
                place = self.computed("sub", column, self.computed("mul", first, self.lanes))
                total = builder.add(self.load(self.lane_sums, 0, place), weight)
                self.store(self.lane_sums, 0, place, total)

            self.loop(first, last, "exp", vector)

        self.loop(0, end, "sum", block, step=per_block)
        lanes = [self.load(self.lane_sums, 0, i * self.lanes) for i in range(per_block)]
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [builder.add(lanes[i], lanes[i + half]) for i in range(half)]
        self._put(self.totals, row, self.horizontal(lanes[0], builder.add))

    def _level(self, rows: Rows, row: Number) -> Value:
        """The greatest score of a row, 0 for -∞. Hides what the row does not see. NaN is left out
        here: it makes the sum NaN, and with it all results of the row."""
        builder = self.builder
        at = self.computed("add", rows.first, row)

        def greater(x: Value, y: Value) -> Value:
            return builder.select(builder.compare("gt", x, y), x, y)

        def vector(number: Number, edge: bool, best: list[Value]) -> list[Value]:
            column = self.computed("mul", number, self.lanes)
            scores = self.load(self.weights, row, column)
            if edge:
                scores = self.hide(scores, at, number)
                self.store(self.weights, row, column, scores)
            return [greater(scores, best[0])]

        (best,) = self.each_vector(at, vector, [self.hidden])
        return self.finite(self.horizontal(best, greater))

    def _put(self, matrix: Matrix, row: Number, value: Value) -> None:
        self.builder.store(matrix.memory, self.at((row, 1)), value)

    def _finish_rows(self, rows: Rows) -> None:
        """Logsumexps out; sums become divisors."""
        builder, algebra = self.builder, self.evaluator.algebra
        zero, one = (builder.const(self.dtype, x) for x in (0, 1))
        totals = self.levels if 1 in self.outputs else None

        def vector(number: Number) -> None:
            column = self.computed("mul", number, self.lanes)
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
            builder.store(self.outputs[1], index, value)

        self.loop(0, rows.count, "out", out)

    def _divide(self, rows: Rows) -> Finish:
        def finish(sums: list[Value], row: Number, column: Number, vectors: int) -> None:
            for i in range(len(sums) // vectors):
                at = self.computed("add", row, i)
                divisor = self.element(self.totals, 0, at)
                place = self.computed("add", rows.first, at)
                for u in range(vectors):
                    value = self.builder.div(sums[i * vectors + u], divisor)
                    self.write(self.outputs[0], self.rows, self.width, place, column, value, u)

        return finish
