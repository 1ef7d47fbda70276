"""The recipe `attention_grad`: the gradients of q, k and v from that of the values.

A block of rows meets all columns: its weights are computed again as exp(s - logsumexp), the
gradient of the scores is weights · (g vᵀ - delta). The rows of dq are sums over columns; those of
dk and dv, sums over rows, are gathered in scratch block by block, so each is a sum in the order of
rows. The bits are those of the definition (ops/nn/attention.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.kernels.attention.heads import (
    AttentionContext,
    Body,
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
from graphc.codegen.kernels.attention.operands import GROUP, Taint
from graphc.codegen.kernels.attention.parts import AttentionKernel, Finish
from graphc.codegen.kernels.attention.plan import attention_plan
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK, first_addend, is_one_block
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.nests.nest import (
    Clear,
    Compute,
    Effect,
    Fill,
    Holds,
    Nest,
    NestOutput,
    NestPlace,
    Statement,
)
from graphc.codegen.nests.writer import write_nest
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph
from graphc.ops.kinds.index_expr import Expr
from graphc.records import record

BLOCK_ROWS = 64
"""Rows whose scores lie in scratch: partial sums of dk and dv are read and written once a block."""


@record
class BackwardMemory:
    """Scratch: copies of the operands, weights and gradients of a block of rows; by results 1 and 2
    their sums over rows, and those of one chain of blocks (the same, where there is one)."""

    queries: Matrix
    keys: Matrix
    weights: Matrix
    by_out: Matrix
    values: Matrix | None
    by_scores: Matrix | None
    key_rows: Matrix | None
    sums: dict[int, Matrix]
    chains: dict[int, Matrix]

    @staticmethod
    def of(context: AttentionContext) -> BackwardMemory:
        plan, scratch, wanted = context.plan, context.scratch, context.outputs
        queries = scratch("queries", plan.block, plan.depth)
        keys = context.packed(plan.operand("k"), "keys")
        weights = context.scores("weights")
        by_out = scratch("by_out", plan.block, plan.width)
        values = by_scores = key_rows = None
        if 0 in wanted or 1 in wanted:
            values = context.packed(plan.operand("v"), "values")
            by_scores = context.scores("by_scores")
        if 0 in wanted:
            key_rows = scratch("key_rows", plan.columns, plan.depth)
        columns = {1: plan.depth, 2: plan.width}
        sums = {
            index: scratch(f"sums{index}", plan.columns, columns[index])
            for index in columns if index in wanted
        }  # fmt: skip
        chains = dict(sums)
        if not is_one_block(plan.rows):
            chains = {
                index: scratch(f"chain{index}", plan.columns, columns[index]) for index in sums
            }
        return BackwardMemory(
            queries, keys, weights, by_out, values, by_scores, key_rows, sums, chains
        )


def lower_attention_grad(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one `attention_grad`; its outputs are some of the op's."""
    context = _context(name, body, target)
    return write_nest(_nest(context), context)


def backward_nest(body: Graph, target: Target) -> Nest:
    """The nest of such a body."""
    return _nest(_context("attention_grad", body, target))


def _context(name: str, body: Graph, target: Target) -> AttentionContext:
    names = ("g", "q", "k", "v", "logsumexp", "delta")
    return attention_context(name, body, attention_plan(body, target, names, BLOCK_ROWS, 2))


OUTPUTS = {
    0: NestOutput("by_q", ("head", "row", "depth")),
    1: NestOutput("by_k", ("head", "column", "depth")),
    2: NestOutput("by_v", ("head", "column", "width")),
}  # fmt: skip


def _nest(context: AttentionContext) -> Nest:
    plan, wanted = context.plan, context.outputs
    columns, rows = ("column", plan.columns), ("row", plan.block)
    of_block = ((rows, columns), ("head", "block"), lambda _: None)
    operands = HeadStage(
        "operands", Holds.VECTORS, "panels of k and v, rows of k", (columns,), ("head",),
        BackwardMemory.of, lambda c, place: _AttentionGrad(c, place).prepare(),
    )  # fmt: skip
    block = HeadStage(
        "rows", Holds.BROADCAST, "rows of q, scaled, and of g", (rows,), ("head", "block"),
        lambda _: None, lambda c, place: _AttentionGrad(c, place).copies(rows_of(c, place)),
    )  # fmt: skip
    scores = HeadStage("scores", Holds.VALUES, "a block of rows", *of_block)
    weights = HeadStage("weights", Holds.VALUES, "where the scores were", *of_block)
    by_scores = HeadStage("by_scores", Holds.VALUES, "a block of rows", *of_block)
    sums = HeadStage(
        "sums", Holds.VALUES, "of rows, for k and v", (columns,), ("head",), lambda _: None,
        cleared=lambda c, place: _AttentionGrad(c, place).clear_sums(),
    )  # fmt: skip
    of_rows = HeadStage(
        "numbers", Holds.BROADCAST, "whether delta and logsumexp are finite", (), ("head",),
        lambda _: None, lambda c, place: _AttentionGrad(c, place).numbers_of_rows(),
    )  # fmt: skip
    summed = {1, 2} & set(wanted)
    return attention_nest(
        context, plan.note, [OUTPUTS[i] for i in sorted(wanted)],
        (operands, sums, of_rows, block, scores, weights, by_scores),
        (Fill(operands), *((Clear(sums),) if summed else ()), Fill(of_rows)),
        (
            Fill(block),
            _leaf("register tiles of q kt", _AttentionGrad.scores_of,
                  Effect(("column",), ("operands", "rows"), fills="scores")),
            Fill(scores),
            _leaf("exponentials of a tile's rows", _AttentionGrad.weights_of,
                  Effect(("column",), ("scores",), fills="weights")),
            Fill(weights), *_of_scores(context, Fill(by_scores)), *_over_rows(context),
        ),
        (*((Fill(sums),) if summed else ()), *_results_of_sums(context)),
    )  # fmt: skip


def _leaf(text: str, written: Callable[[_AttentionGrad], None], effect: Effect) -> Compute:
    return leaf_of(_AttentionGrad, text, effect, written)


def _stores(index: int) -> dict[str, Any]:
    return {"stores": True, "outputs": (OUTPUTS[index].name,)}


def _of_scores(context: AttentionContext, is_there: Fill) -> Iterator[Statement]:
    """The gradient of the scores, and of q."""
    wanted = context.outputs
    if 0 in wanted or 1 in wanted:
        reads = ("weights", "operands", "rows")
        yield _leaf("register tiles of g vt, times the weights", _AttentionGrad.by_scores_of,
                    Effect(("column",), reads, fills="by_scores"))  # fmt: skip
        yield is_there
    if 0 in wanted:
        yield _leaf("register tiles over columns", _AttentionGrad.by_q,
                    Effect(("depth",), ("by_scores", "operands"), **_stores(0)))  # fmt: skip


def _over_rows(context: AttentionContext) -> Iterator[Statement]:
    """What a block adds to the gradients of k and v."""
    for index, read in ((1, "by_scores"), (2, "weights")):
        if index in context.outputs:
            over_rows = partial(_AttentionGrad.over_rows, index=index)
            effect = Effect(("column",), (read, "rows"), fills="sums")
            yield _leaf("register tiles over rows", over_rows, effect)
    if not is_one_block(context.plan.rows):
        effect = Effect(("column",), fills="sums")
        yield _leaf("ends of chains", _AttentionGrad.end_chains, effect)


def _results_of_sums(context: AttentionContext) -> Iterator[Statement]:
    for index, axis in ((1, "depth"), (2, "width")):
        if index in context.outputs:
            write = partial(_AttentionGrad.write_sums, index=index)
            yield _leaf(
                "rows of sums", write, Effect(("column", axis), ("sums",), **_stores(index))
            )


@record
class GradRows:
    """A block of rows whose operands are copied. `whole`: see `meets_all`."""

    rows: HeadRows
    whole: LoopValue | None


class _AttentionGrad(AttentionKernel):
    """One head, and of it a block of rows, once that is copied."""

    def __init__(self, context: AttentionContext, place: NestPlace):
        self.block_rows: GradRows | None = place.filled.get("rows")
        whole = None if self.block_rows is None else self.block_rows.whole
        super().__init__(context, head_of(context, place), whole)
        self.operand = context.plan.operand
        self.memory: BackwardMemory = place.memory["operands"]
        self.taint: Taint = place.filled.get("numbers", place.filled.get("operands", []))

    @property
    def here(self) -> HeadRows:
        assert self.block_rows is not None
        return self.block_rows.rows

    def prepare(self) -> Taint:
        """Copies what all blocks read; what was read of which a part may be not finite."""
        memory = self.memory
        self.pack(self.operand("k"), memory.keys, [])
        taint = self.untainted()
        if memory.values is not None:
            taint = self.pack(self.operand("v"), memory.values, taint)
        if memory.key_rows is not None:
            taint = self.copy(self.operand("k"), 0, self.columns, memory.key_rows, taint)
        return taint

    def clear_sums(self) -> None:
        """Those of a head, from which on blocks add."""
        memory = self.memory
        every = (*memory.sums.values(), *memory.chains.values())
        for matrix in {id(each): each for each in every}.values():
            start = self.zero
            if matrix not in memory.chains.values():
                start = first_addend(self.builder, (self.rows,), self.zero)
            self._each_place(matrix, partial(self._set, matrix, start))

    def numbers_of_rows(self) -> Taint:
        """What was read, with the numbers of all rows."""
        taint = self.read(self.operand("delta"), self.taint)
        return self.read(self.operand("logsumexp"), taint, self.finite)

    def copies(self, rows: HeadRows) -> GradRows:
        """Copies a block's own rows."""
        memory, q, g = self.memory, self.operand("q"), self.operand("g")
        taint = self.copy(q, rows.first, rows.count, memory.queries, self.taint, self.scaled)
        taint = self.copy(g, rows.first, rows.count, memory.by_out, taint)
        return GradRows(rows, self.meets_all(taint))

    def scores_of(self) -> None:
        memory, rows = self.memory, self.here
        self.scores(rows, memory.queries, memory.keys, self.depth, self._keep(rows))

    def weights_of(self) -> None:
        rows = self.here
        self.row_tiles(rows, 0, lambda row, count: self._weights(rows, row, count))

    def by_scores_of(self) -> None:
        memory, rows = self.memory, self.here
        assert memory.by_scores is not None and memory.values is not None
        finish = self._by_scores(rows, memory.by_scores)
        self.scores(rows, memory.by_out, memory.values, self.width, finish)

    def by_q(self) -> None:
        memory, rows = self.memory, self.here
        assert memory.by_scores is not None and memory.key_rows is not None
        finish = self._scale(rows)
        self.rows_times(rows, memory.by_scores, memory.key_rows, self.depth, finish)

    def over_rows(self, index: int) -> None:
        """What a block adds to the sums for k, or v."""
        memory, rows = self.memory, self.here
        left, right, columns = (
            (memory.by_scores, memory.queries, self.depth)
            if index == 1
            else (memory.weights, memory.by_out, self.width)
        )
        assert left is not None
        self._over_rows(rows, left, right, columns, memory.chains[index])

    # -- rows --------------------------------------------------------------------------------

    def _keep(self, rows: HeadRows) -> Finish:
        """Stores scores."""

        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            for i, scores in enumerate(self.hide(rows, sums, row, column, vectors)):
                lane = self.numbers.add(column, i % vectors * self.lanes)
                self.store(self.memory.weights, self.numbers.add(row, i // vectors), lane, scores)

        return finish

    def _weights(self, rows: HeadRows, row: Number, count: int) -> None:
        """Scores of the rows of a tile become weights."""
        levels = []
        for i in range(count):
            number = self.numbers.add(rows.first, self.numbers.add(row, i))
            place = self.positions.expression(number, self.rows)
            level = self.finite(
                self.evaluator.value(self.operand("logsumexp"), (*self.lead, place))
            )
            levels.append(self.builder.splat(level, self.lanes))

        def vector(number: Number) -> None:
            column = self.numbers.mul(number, self.lanes)
            for i, level in enumerate(levels):
                scores = self.load(self.memory.weights, self.numbers.add(row, i), column)
                weight = self.evaluator.algebra.exp(self.builder.sub(scores, level))
                self.store(self.memory.weights, self.numbers.add(row, i), column, weight)

        self.loop(0, self.vector_end(self.numbers.add(rows.first, row)), "exp", vector)

    def _by_scores(self, rows: HeadRows, by_scores: Matrix) -> Finish:
        """From g vᵀ the gradient of the scores."""

        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            for i in range(len(sums) // vectors):
                at = self.numbers.add(row, i)
                place: Expr = self.positions.expression(self.numbers.add(rows.first, at), self.rows)
                delta = self.evaluator.value(self.operand("delta"), (*self.lead, place))
                wide = self.builder.splat(delta, self.lanes)
                for u in range(vectors):
                    lane = self.numbers.add(column, u * self.lanes)
                    by_weight = self.builder.sub(sums[i * vectors + u], wide)
                    weight = self.load(self.memory.weights, at, lane)
                    self.store(by_scores, at, lane, self.builder.mul(weight, by_weight))

        return finish

    def _scale(self, rows: HeadRows) -> Finish:
        def finish(sums: list[LoopValue], row: Number, column: Number, vectors: int) -> None:
            for i, total in enumerate(sums):
                place = self.numbers.add(rows.first, self.numbers.add(row, i // vectors))
                value = self.scaled(total)
                self.write(0, self.depth, place, column, value, i % vectors)

        return finish

    # -- sums over rows ----------------------------------------------------------------------

    def _over_rows(
        self, rows: HeadRows, left: Matrix, right: Matrix, columns: int, sums: Matrix
    ) -> None:
        """Adds leftᵀ · right of a block of rows."""
        cut = LoopCut(self.columns, self.tile_rows)
        end = self.column_end(rows.first, self.block)
        seen = self.numbers.div(self.numbers.add(end, self.tile_rows - 1), self.tile_rows)
        tiles = self.numbers.minimum(cut.whole, seen)

        def across(number: Number, vectors: int) -> None:
            column = self.numbers.mul(number, self.tile_vectors * self.lanes)

            def tile(first: Number, count: int) -> None:
                places = [
                    (self.numbers.add(first, i), self.numbers.add(column, u * self.lanes))
                    for i in range(count) for u in range(vectors)
                ]  # fmt: skip
                products = self.product(
                    count * vectors, self.block, rows.count,
                    lambda k: [
                        self.element(left, k, self.numbers.add(first, i)) for i in range(count)
                    ],
                    lambda k: [
                        self.load(right, k, column, u * self.lanes) for u in range(vectors)
                    ],
                    self.first_row(rows, first), [self.load(sums, *place) for place in places],
                )  # fmt: skip
                for place, value in zip(places, products, strict=True):
                    self.store(sums, *place, value)

            self.in_tiles(cut, tiles, "tile", tile)

        self.column_tiles(columns, across)

    def _each_place(self, matrix: Matrix, body: Body) -> None:
        cut = LoopCut(matrix.memory.size // self.lanes, GROUP)

        def several(first: Number, count: int) -> None:
            for i in range(count):
                body(self.numbers.add(first, i))

        self.in_tiles(cut, cut.whole, "v", several)

    def _set(self, matrix: Matrix, value: LoopValue, number: Number) -> None:
        self.builder.store(matrix.memory, self.numbers.index((number, self.lanes)), value)

    def end_chains(self) -> None:
        """Where `K_BLOCK` rows are done, or all, their sums go to the totals."""
        rows = self.here
        done = self.numbers.add(rows.first, rows.count)
        left = self.builder.op("rem", self.numbers.value(done), self.numbers.value(K_BLOCK))
        at_end = self.builder.op(
            "or", self.builder.compare("eq", left, self.numbers.value(0)),
            self.builder.compare("eq", self.numbers.value(done), self.numbers.value(self.rows)),
        )  # fmt: skip

        def add(index: int, number: Number) -> None:
            at = self.numbers.index((number, self.lanes))
            total, chain = self.memory.sums[index].memory, self.memory.chains[index].memory
            totals = self.builder.add(
                self.builder.load(total, at, self.lanes), self.builder.load(chain, at, self.lanes)
            )
            self.builder.store(total, at, totals)
            self.builder.store(chain, at, self.zero)

        with self.builder.if_(at_end) as branch:
            with branch.then():
                for index, matrix in self.memory.sums.items():
                    self._each_place(matrix, lambda at, i=index: add(i, at))  # type: ignore[misc]
            with branch.otherwise():
                pass

    def write_sums(self, index: int) -> None:
        """The gradient of k or v."""
        matrix, columns = self.memory.sums[index], self.depth if index == 1 else self.width

        def row(number: Number) -> None:
            def tile(at: Number, vectors: int) -> None:
                column = self.numbers.mul(at, self.tile_vectors * self.lanes)
                for u in range(vectors):
                    value = self.load(matrix, number, column, u * self.lanes)
                    self.write(index, columns, number, column, value, u)

            self.column_tiles(columns, tile, columns <= GROUP * self.lanes)

        self.loop(0, self.columns, "out", row)
