"""Contractions with a long reduction and a large copy of an operand: groups of k, one by one.

A convolution's weight gradient sums over all positions of all images, and reads the input by
channels. A few images at a time are copied, channels last; all tiles add their products to partial
sums in scratch; the body's outputs are computed from these, in the order of the output's memory,
after the last group. Chains end where they always do, so the bits are those of any other order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.contraction.tiled import TiledOrder
from graphc.codegen.recipes.contraction.tiles import OutputTile
from graphc.codegen.recipes.contraction.view import group_variable
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index, unflatten

ROW_TILES, BLOCKS = 8, 4
"""Tiles of rows, at most, that meet the same columns in turn, while the copy of these is in the
caches; fewer where there would be less than so many blocks of rows, among which threads divide."""


@dataclass(frozen=True)
class RowRange:
    """A block of tiles of rows: the first tile, how many there are, at most how many, and the rows
    in each."""

    first: Expr
    count: int | LoopValue
    size: int
    rows: int


class ByGroups(TiledOrder):
    """Groups of the first axis of k outside, then rows, columns inside."""

    def prepare(self, batch: Index, loops: list[Variable]) -> None:
        self.groups = group_variable(self.view, self.choice.group)
        self.columns = self.choice.columns(self.choice.phases[0])
        self.width = self.columns.vectors * self.lanes
        whole = self.rows // self.tile.rows
        self.block = max(min(ROW_TILES, whole // BLOCKS), 1)
        kept_rows = self.rows if self.groups.extent > 1 else self.block * self.tile.rows
        self.sums = self.builder.scratch("sums", self.dtype, kept_rows * self.width)
        super().prepare(batch, loops)

    def batch_element(self, batch: Index, split: bool) -> int:
        """What is split are blocks of rows."""
        box = self.right.box
        assert box is not None
        whole, rest = divmod(self.rows, self.tile.rows)
        count = -(-whole // self.block) + bool(rest)
        if self.groups.extent == 1:
            box.fill()
            self._row_blocks(split, lambda rows: self._products_of(batch, rows, 0, None))
            return count
        self._row_blocks(split, self._clear)
        with self.builder.loop(0, self.groups.extent, hint="group") as loop:
            self.integers.bind(self.groups, loop.variable, self.builder.block)
            box.fill()
            step = self.builder.const(DType.i64, self.choice.group)
            first = self.builder.mul(loop.variable, step)
            last = self.builder.add(first, step)
            self._row_blocks(split, lambda rows: self._products_of(batch, rows, first, last))
        self._row_blocks(split, lambda rows: self._outputs(batch, rows))
        return count

    def _row_blocks(self, split: bool, body: Callable[[RowRange], None]) -> None:
        """`body` for all blocks of tiles of rows, or those of this call."""
        whole, rest = divmod(self.rows, self.tile.rows)
        blocks = -(-whole // self.block)
        begin, end = self.range_of(0, blocks, split)
        if whole:
            with self.builder.loop(begin, end, hint="rows") as loop:
                block = Variable("row_block", blocks)
                self.integers.bind(block, loop.variable, self.builder.block)
                count: int | LoopValue = self.block
                if whole % self.block:
                    size = self.builder.const(DType.i64, self.block)
                    done = self.builder.mul(loop.variable, size)
                    left = self.builder.sub(self.builder.const(DType.i64, whole), done)
                    count = self.builder.minimum(left, size)
                body(RowRange(of(block) * self.block, count, self.block, self.tile.rows))
        if rest:
            last = RowRange(of(whole), 1, 1, rest)
            self.last(blocks if split else None, lambda: body(last))

    def _tiles(self, rows: RowRange, body: Callable[[Expr, Expr], None]) -> None:
        """`body(first row, first row in the block)` for each tile of a block."""
        with self.builder.loop(0, rows.count, hint="tile") as loop:
            tile = Variable(f"tile{rows.size}", rows.size)
            self.integers.bind(tile, loop.variable, self.builder.block)
            body((rows.first + of(tile)) * self.tile.rows, of(tile) * self.tile.rows)

    def _kept(self, row: Expr, inside: Expr) -> Expr:
        """The row of scratch that holds a row's sums: of all rows, or of those of a block."""
        return row if self.groups.extent > 1 else inside

    def _clear(self, rows: RowRange) -> None:
        vectors = rows.rows * self.columns.vectors
        self._tiles(
            rows,
            lambda row, inside: self.clear(
                self.sums, vectors, lambda at: row * self.width + at * self.lanes
            ),
        )

    def _products_of(
        self, batch: Index, rows: RowRange, first: int | LoopValue, last: LoopValue | None
    ) -> None:
        """Adds the products of one group to a block of rows, all columns; of the only group, also
        computes the outputs."""

        def against(vector: Expr, vectors: int) -> None:
            def tile(row: Expr, inside: Expr) -> None:
                at = OutputTile(batch, row, rows.rows, self.columns, vector, vectors)
                self._group_tile(at, inside, first, last)

            self._tiles(rows, tile)

        for part in self.columns.tiles(self.tile):
            self.run(part, 0, False, against)
        if last is None:
            self._outputs(batch, rows)

    def _group_tile(
        self, at: OutputTile, inside: Expr, first: int | LoopValue, last: LoopValue | None
    ) -> None:
        """Adds the products of indices first…last to the sums of a tile; with no `last`, of all."""
        lane = self.lane()
        chains = self.chains(at, lane, of(0))
        positions = [
            (self._kept(at.row, inside) + r) * self.width + (at.vector + v) * self.lanes + lane
            for r in range(at.rows) for v in range(at.vectors)
        ]  # fmt: skip
        zeros = self.zeros[: len(positions)]
        if last is None:
            totals = self.checked(at, chains.total(zeros))
        else:
            block = self.builder.block
            start = [self.evaluator.load(self.sums, p, (), block) for p in positions]
            totals = chains.total(zeros, start, first, last)
        for position, total in zip(positions, totals, strict=True):
            self.evaluator.store(self.sums, position, total)

    def _outputs(self, batch: Index, rows: RowRange) -> None:
        """The body's outputs for a block of rows, by vectors along the op's own order of n."""
        if self.groups.extent > 1 and self.choice.zeros_stand_in and self.dtype.is_float:
            self._tiles(rows, lambda row, inside: self._check(batch, row, rows.rows))
        filled_in = self.builder.block
        shape = self.view.n

        def vector(row: Expr, kept: Expr, first: Expr, count: int) -> None:
            lane = self.copier.lane()
            n = unflatten(first + lane, shape)
            guards = ((lane, 0, count),) if count < self.lanes else ()
            at = kept * self.width + self.columns.position(n)
            total = self.evaluator.load(self.sums, at, guards, filled_in)
            index = self.view.out(batch, self.m(row), n)
            self.finish(index, guards, self.builder.splat(total, self.lanes))

        def vectors(row: Expr, kept: Expr, first: Expr, count: int) -> None:
            for start in range(0, count, self.lanes):
                vector(row, kept, first + start, min(self.lanes, count - start))

        # So many at a time that coordinates differ from those of the first by constants.
        step = math.prod(shape[1:]) * self.lanes
        whole, rest = divmod(math.prod(shape), step)

        def one(row: Expr, kept: Expr) -> None:
            if whole:
                self.copier.loop(whole, "out", lambda block: vectors(row, kept, block * step, step))
            vectors(row, kept, of(whole * step), rest)

        self._tiles(
            rows,
            lambda row, inside: self.copier.loop(
                rows.rows, "r", lambda r: one(row + r, self._kept(row + r, inside + r))
            ),
        )

    def _check(self, batch: Index, row: Expr, rows: int) -> None:
        """Recomputes tiles of partial sums that are not finite, products skipped where guarded."""

        def one(r: Expr, vector: Expr) -> None:
            at = OutputTile(batch, row + r, 1, self.columns, vector, 1)
            position = at.row * self.width + vector * self.lanes + self.lane()
            total = self.evaluator.load(self.sums, position, (), self.builder.block)
            (total,) = self.checked(at, [total])
            self.evaluator.store(self.sums, position, total)

        vectors = self.columns.vectors
        self.copier.loop(rows, "r", lambda r: self.copier.loop(vectors, "v", lambda v: one(r, v)))
