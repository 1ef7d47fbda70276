"""Contractions of one row: a vector times a matrix, which is read once, so at the speed of memory.

- `streamed`: the matrix is contiguous along the columns. A few of its rows at a time are read side
  by side from end to end, and added to sums in scratch.
- `turned`: it is contiguous along k. Blocks of lanes x lanes are transposed in registers, and the
  sums stay there.

Each result is the same chain of products as in any other order.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.shuffles import transpose
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.recipes.contraction.broadcast_operand import BroadcastOperand
from graphc.codegen.recipes.contraction.k_blocks import CHAIN
from graphc.codegen.recipes.contraction.loop_order import LoopOrder
from graphc.codegen.recipes.contraction.operands import CACHE_LINE
from graphc.codegen.recipes.contraction.view import operand_value
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index

STREAMS = 8
"""Rows of the matrix that are read side by side."""

Block = Callable[[Expr, int], None]


class OneRow(LoopOrder):
    """One row of results per batch element."""

    def prepare(self, batch: Index, loops: list[Variable]) -> None:
        self.columns = self.choice.columns(self.choice.phases[0])
        self.left = BroadcastOperand(self.copier, self.choice)
        if self.choice.right == "streamed":
            size = self.columns.vectors * self.lanes
            self.sums = self.builder.scratch("sums", self.dtype, size)
            self.totals = (
                self.builder.scratch("totals", self.dtype, size)
                if self.depth > CHAIN else self.sums
            )  # fmt: skip

    def batch_element(self, batch: Index, split: bool) -> int:
        """What is split are blocks of columns."""
        count = sum(part.count for part in self.columns.tiles(self.tile))
        self._row(batch, split and count > 1)
        return count

    def _row(self, batch: Index, split: bool) -> None:
        if self.choice.right == "turned":
            self._blocks(split, lambda first, vectors: self._turned(batch, first, vectors))
            return
        self._clear(self.totals, split)
        whole, rest = divmod(self.depth, CHAIN)
        if self.totals is self.sums:
            self._chain(batch, of(0), self.depth, split)
        else:
            self.copier.loop(
                whole, "chain", lambda i: self._full_chain(batch, i * CHAIN, CHAIN, split)
            )
            if rest:
                self._full_chain(batch, of(whole * CHAIN), rest, split)
        filled_in = self.builder.block

        def finish(first: Expr, vectors: int) -> None:
            lane = self.copier.lane()
            for v in range(vectors):
                n, guards = self.columns.place(first + v, lane)
                at = (first + v) * self.lanes + lane
                total = self.evaluator.load(self.totals, at, (), filled_in)
                self.finish(self.view.out(batch, self.m(of(0)), n), guards, total)

        self._blocks(split, finish)

    def _blocks(self, split: bool, body: Block) -> None:
        """`body(first vector, vectors)` for all blocks of columns, or those of this call."""
        for part in self.columns.tiles(self.tile):
            self.run(part, 0, split, body)

    # -- streamed ----------------------------------------------------------------------------

    def _clear(self, memory: Buffer, split: bool) -> None:
        zero = self.builder.const(self.dtype, 0)

        def clear(first: Expr, vectors: int) -> None:
            lane = self.copier.lane()
            for v in range(vectors):
                self.evaluator.store(memory, (first + v) * self.lanes + lane, zero)

        self._blocks(split, clear)

    def _full_chain(self, batch: Index, begin: Expr, count: int, split: bool) -> None:
        """One chain of several: its sums from 0 on, added to the totals."""
        self._clear(self.sums, split)
        self._chain(batch, begin, count, split)
        filled_in = self.builder.block

        def add(first: Expr, vectors: int) -> None:
            lane = self.copier.lane()
            for v in range(vectors):
                at = (first + v) * self.lanes + lane
                old = self.evaluator.load(self.totals, at, (), self.builder.block)
                new = self.evaluator.load(self.sums, at, (), filled_in)
                self.evaluator.store(self.totals, at, self.builder.add(old, new))

        self._blocks(split, add)

    def _chain(self, batch: Index, begin: Expr, count: int, split: bool) -> None:
        whole, rest = divmod(count, STREAMS)
        if whole:
            self.copier.loop(
                whole, "k", lambda i: self._streams(batch, begin + i * STREAMS, STREAMS, split)
            )
        if rest:
            self._streams(batch, begin + whole * STREAMS, rest, split)

    def _streams(self, batch: Index, k: Expr, count: int, split: bool) -> None:
        """Products of rows k…k + count of the matrix, added to the sums of all columns."""
        wide = [self._left(batch, k + i) for i in range(count)]

        def block(first: Expr, vectors: int) -> None:
            lane = self.copier.lane()
            for v in range(vectors):
                n, guards = self.columns.place(first + v, lane)
                at = (first + v) * self.lanes + lane
                total = self.evaluator.load(self.sums, at, (), self.builder.block)
                for i in range(count):
                    total = self.multiply_add(
                        wide[i], self._element(batch, n, k + i, guards), total
                    )
                self.evaluator.store(self.sums, at, total)

        self._blocks(split, block)

    def _left(self, batch: Index, k: Expr) -> LoopValue:
        """An element of the vector, in all lanes."""
        return self.left.element(batch, self.m(of(0)), self.k(k), of(0), 0)

    def _element(self, batch: Index, n: Index, k: Expr, guards: tuple[Guard, ...]) -> LoopValue:
        case = self.view.vector(batch, n, self.k(k))
        assert case is not None
        value = operand_value(self.evaluator, self.view, case, guards)
        return self.builder.splat(value, self.lanes)

    # -- turned ------------------------------------------------------------------------------

    def _turned(self, batch: Index, first: Expr, vectors: int) -> None:
        """The results of one block of columns."""
        zeros = self.zeros[:vectors]

        def chain(begin: Expr, count: int) -> list[LoopValue]:
            # Whole cache lines of each row at a time: rows often lie at distances that put them
            # into one set, where half a line would not stay until its other half is wanted.
            step = max(CACHE_LINE // self.dtype.itemsize, self.lanes)
            whole, rest = divmod(count, step)
            sums = zeros
            if whole:
                with self.builder.loop(0, whole, carried=sums, hint="k") as loop:
                    variable = Variable(f"turned{count}", whole)
                    self.integers.bind(variable, loop.variable, self.builder.block)
                    at = begin + of(variable) * step
                    loop.yield_(*self._turned_block(batch, first, at, step, loop.carried))
                sums = list(loop.results)
            if rest:
                sums = self._turned_block(batch, first, begin + whole * step, rest, tuple(sums))
            return sums

        whole, rest = divmod(self.depth, CHAIN)
        if self.depth <= CHAIN:
            totals = chain(of(0), self.depth)
        else:
            with self.builder.loop(0, whole, carried=zeros, hint="chain") as loop:
                variable = Variable("turned_chain", whole)
                self.integers.bind(variable, loop.variable, self.builder.block)
                made = chain(of(variable) * CHAIN, CHAIN)
                loop.yield_(*map(self.builder.add, loop.carried, made))
            totals = list(loop.results)
            if rest:
                totals = list(map(self.builder.add, totals, chain(of(whole * CHAIN), rest)))
        lane = self.copier.lane()
        for v in range(vectors):
            n, guards = self.columns.place(first + v, lane)
            self.finish(self.view.out(batch, self.m(of(0)), n), guards, totals[v])

    def _turned_block(
        self, batch: Index, first: Expr, k: Expr, count: int, sums: tuple[LoopValue, ...]
    ) -> list[LoopValue]:
        """`count` products more for each column."""
        lane = self.copier.lane()
        k_blocks = range(0, count, self.lanes)
        wide = [self._left(batch, k + i) for i in range(count)]
        made = []
        for v, total in enumerate(sums):
            rows = [(first + v) * self.lanes + r for r in range(self.lanes)]
            exist = [row.bounds()[0] < self.columns.lanes_used for row in rows]
            loaded: dict[int, list[LoopValue]] = {start: [] for start in k_blocks}
            for row, exists in zip(rows, exist, strict=True):
                for start in k_blocks:
                    kept = min(self.lanes, count - start)
                    guards = ((lane, 0, kept),) if kept < self.lanes else ()
                    n = self.columns.index(row)
                    at = k + start + lane
                    loaded[start].append(
                        self._element(batch, n, at, guards) if exists else self.zeros[0]
                    )
            for start in k_blocks:
                turned = transpose(self.builder, loaded[start])[: count - start]
                for i, vector in enumerate(turned):
                    total = self.multiply_add(wide[start + i], vector, total)
            made.append(total)
        return made
