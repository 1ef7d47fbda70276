"""The recipe `attention_grad`: the gradients of q, k and v from that of the values.

A block of rows meets all columns: its weights are computed again as exp(s - logsumexp), the
gradient of the scores is weights · (g vᵀ - delta). The rows of dq are sums over columns; those of
dk and dv, sums over rows, are gathered in scratch block by block, so each is a sum in the order of
rows. The bits are those of the definition (ops/attention.py).
"""

from __future__ import annotations

from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.recipes.attention.heads import Body, HeadRows, Matrix, Number
from graphc.codegen.recipes.attention.operands import GROUP
from graphc.codegen.recipes.attention.parts import AttentionKernel, Finish
from graphc.codegen.recipes.contraction.k_blocks import K_BLOCK
from graphc.codegen.target import Target
from graphc.ir.dims import fixed
from graphc.ir.nodes import Graph
from graphc.ops.kinds.index_expr import Expr

BLOCK_ROWS = 64
"""Rows whose scores lie in scratch: partial sums of dk and dv are read and written once a block."""


def lower_attention_grad(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one `attention_grad`; its outputs are some of the op's."""
    return _AttentionGrad(name, body, target, BLOCK_ROWS, 2).build()


class _AttentionGrad(AttentionKernel):
    def build(self) -> Kernel:
        self.g, self.q, self.k, self.v, self.logsumexp, self.delta, *mask = self.operands
        self.shaped(self.q, self.v, mask)
        size = self.block * self.stride
        self.queries = self.scratch("queries", self.block, self.depth)
        self.keys = self.packed(self.k, "keys")
        self.weights = Matrix(self.builder.scratch("weights", self.dtype, size), self.stride)
        self.by_out = self.scratch("by_out", self.block, self.width)
        if self.by_scores_needed:
            self.values = self.packed(self.v, "values")
            by_scores = self.builder.scratch("by_scores", self.dtype, size)
            self.by_scores = Matrix(by_scores, self.stride)
        if 0 in self.outputs:
            self.key_rows = self.scratch("key_rows", self.columns, self.depth)
        self.sums = {
            index: self.scratch(f"sums{index}", self.columns, columns)
            for index, columns in ((1, self.depth), (2, self.width)) if index in self.outputs
        }  # fmt: skip
        self.chains = dict(self.sums)
        if self.rows > K_BLOCK:
            self.chains = {
                index: Matrix(
                    self.builder.scratch(f"chain{index}", self.dtype, fixed(matrix.memory.size)),
                    matrix.stride,
                )
                for index, matrix in self.sums.items()
            }
        return self.builder.finish(extent=self.each_head(self._head))

    @property
    def by_scores_needed(self) -> bool:
        return 0 in self.outputs or 1 in self.outputs

    def _head(self) -> None:
        self.pack(self.k, self.keys, [])
        taint = self.untainted()
        if self.by_scores_needed:
            taint = self.pack(self.v, self.values, taint)
        if 0 in self.outputs:
            taint = self.copy(self.k, 0, self.columns, self.key_rows, taint)
        for matrix in {id(m): m for m in (*self.sums.values(), *self.chains.values())}.values():
            self._each_place(matrix, lambda at, m=matrix: self._clear(m, at))  # type: ignore[misc]
        taint = self.read(self.delta, taint)
        self.taint = self.read(self.logsumexp, taint, self.finite)
        self.each_block(self._block)
        for index, matrix in self.sums.items():
            self._out(index, matrix)

    def _block(self, rows: HeadRows) -> None:
        taint = self.copy(self.q, rows.first, rows.count, self.queries, self.taint, self.scaled)
        self.meet_all(self.copy(self.g, rows.first, rows.count, self.by_out, taint))
        self.scores(rows, self.queries, self.keys, self.depth, self._keep(rows))
        self.row_tiles(rows, 0, lambda row, count: self._weights(rows, row, count))
        if self.by_scores_needed:
            self.scores(rows, self.by_out, self.values, self.width, self._by_scores(rows))
        if 0 in self.outputs:
            self.rows_times(rows, self.by_scores, self.key_rows, self.depth, self._scale(rows))
        if 1 in self.outputs:
            self._over_rows(rows, self.by_scores, self.queries, self.depth, self.chains[1])
        if 2 in self.outputs:
            self._over_rows(rows, self.weights, self.by_out, self.width, self.chains[2])
        if self.rows > K_BLOCK:
            self._end_chains(rows)

    # -- rows --------------------------------------------------------------------------------

    def _keep(self, rows: HeadRows) -> Finish:
        """Stores scores."""

        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            for i, scores in enumerate(self.hide(rows, sums, row, column, vectors)):
                lane = self.plus(column, i % vectors * self.lanes)
                self.store(self.weights, self.plus(row, i // vectors), lane, scores)

        return finish

    def _weights(self, rows: HeadRows, row: Number, count: int) -> None:
        """Scores of the rows of a tile become weights."""
        levels = []
        for i in range(count):
            place = self.expression(self.plus(rows.first, self.plus(row, i)), self.rows)
            level = self.finite(self.evaluator.value(self.logsumexp, (*self.lead, place)))
            levels.append(self.builder.splat(level, self.lanes))

        def vector(number: Number) -> None:
            column = self.times(number, self.lanes)
            for i, level in enumerate(levels):
                scores = self.load(self.weights, self.plus(row, i), column)
                weight = self.evaluator.algebra.exp(self.builder.sub(scores, level))
                self.store(self.weights, self.plus(row, i), column, weight)

        self.loop(0, self.vector_end(self.plus(rows.first, row)), "exp", vector)

    def _by_scores(self, rows: HeadRows) -> Finish:
        """From g vᵀ the gradient of the scores."""

        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            for i in range(len(sums) // vectors):
                at = self.plus(row, i)
                place: Expr = self.expression(self.plus(rows.first, at), self.rows)
                delta = self.evaluator.value(self.delta, (*self.lead, place))
                wide = self.builder.splat(delta, self.lanes)
                for u in range(vectors):
                    lane = self.plus(column, u * self.lanes)
                    by_weight = self.builder.sub(sums[i * vectors + u], wide)
                    weight = self.load(self.weights, at, lane)
                    self.store(self.by_scores, at, lane, self.builder.mul(weight, by_weight))

        return finish

    def _scale(self, rows: HeadRows) -> Finish:
        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            for i, total in enumerate(sums):
                place = self.plus(rows.first, self.plus(row, i // vectors))
                value = self.scaled(total)
                self.write(0, self.depth, place, column, value, i % vectors)

        return finish

    # -- sums over rows ----------------------------------------------------------------------

    def _over_rows(
        self, rows: HeadRows, left: Matrix, right: Matrix, columns: int, sums: Matrix
    ) -> None:
        """Adds leftᵀ · right of a block of rows."""
        whole, rest = divmod(self.columns, self.tile_rows)
        end = self.column_end(rows.first, self.block)
        tiles = self.computed("minimum", whole, self.computed(
            "div", self.plus(end, self.tile_rows - 1), self.tile_rows
        ))  # fmt: skip

        def across(number: Number, vectors: int) -> None:
            column = self.times(number, self.tile_vectors * self.lanes)

            def tile(first: Number, count: int) -> None:
                places = [
                    (self.plus(first, i), self.plus(column, u * self.lanes))
                    for i in range(count) for u in range(vectors)
                ]  # fmt: skip
                made = self.product(
                    count * vectors, self.block, rows.count,
                    lambda k: [self.element(left, k, self.plus(first, i)) for i in range(count)],
                    lambda k: [
                        self.load(right, k, column, u * self.lanes) for u in range(vectors)
                    ],
                    self.first_row(rows, first), [self.load(sums, *place) for place in places],
                )  # fmt: skip
                for place, value in zip(places, made, strict=True):
                    self.store(sums, *place, value)

            self.loop(
                0, tiles, "tile",
                lambda i: tile(self.times(i, self.tile_rows), self.tile_rows),
            )  # fmt: skip
            if rest:
                tile(whole * self.tile_rows, rest)

        self.column_tiles(columns, across)

    def _each_place(self, matrix: Matrix, body: Body) -> None:
        whole, rest = divmod(fixed(matrix.memory.size) // self.lanes, GROUP)

        def several(first: Number, count: int) -> None:
            for i in range(count):
                body(self.plus(first, i))

        self.loop(0, whole, "v", lambda number: several(self.times(number, GROUP), GROUP))
        several(whole * GROUP, rest)

    def _clear(self, matrix: Matrix, number: Number) -> None:
        self.builder.store(matrix.memory, self.at((number, self.lanes)), self.zero)

    def _end_chains(self, rows: HeadRows) -> None:
        """Where `K_BLOCK` rows are done, or all, their sums go to the totals."""
        done = self.plus(rows.first, rows.count)
        left = self.builder.op("rem", self.value(done), self.value(K_BLOCK))
        at_end = self.builder.op(
            "or", self.builder.compare("eq", left, self.value(0)),
            self.builder.compare("eq", self.value(done), self.value(self.rows)),
        )  # fmt: skip

        def add(index: int, number: Number) -> None:
            at = self.at((number, self.lanes))
            total, chain = self.sums[index].memory, self.chains[index].memory
            made = self.builder.add(
                self.builder.load(total, at, self.lanes), self.builder.load(chain, at, self.lanes)
            )
            self.builder.store(total, at, made)
            self.builder.store(chain, at, self.zero)

        with self.builder.if_(at_end) as branch:
            with branch.then():
                for index, matrix in self.sums.items():
                    self._each_place(matrix, lambda at, i=index: add(i, at))  # type: ignore[misc]
            with branch.otherwise():
                pass

    def _out(self, index: int, matrix: Matrix) -> None:
        columns = self.depth if index == 1 else self.width

        def row(number: Number) -> None:
            def tile(at: Number, vectors: int) -> None:
                column = self.times(at, self.tile_vectors * self.lanes)
                for u in range(vectors):
                    value = self.load(matrix, number, column, u * self.lanes)
                    self.write(index, columns, number, column, value, u)

            self.column_tiles(columns, tile, columns <= GROUP * self.lanes)

        self.loop(0, self.columns, "out", row)
