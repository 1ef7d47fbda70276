"""Matrix products too deep, or too large, for the caches: chain by chain, block of rows by block.

The columns of a tile are packed for one chain at a time, few enough for L1, and meet all rows;
their sums go on in scratch from chain to chain. Where the other operand does not fit L2 the rows
are taken in blocks that do, and the columns are packed once, ahead of all blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.contraction import Contraction
from graphc.codegen.contraction_view import CHAIN
from graphc.codegen.loops import Value
from graphc.codegen.staging import Panel
from graphc.ir.types import DType
from graphc.ops.index import Expr, Variable, of
from graphc.schedule.access import Index


@dataclass(frozen=True)
class Rows:
    """A block of tiles of rows: the first tile, how many there are, at most how many, and the rows
    in each."""

    first: Expr
    count: int | Value
    size: int
    rows: int
    slot: Expr
    """Where the first tile lies in the copy of a block."""


class ProductContraction(Contraction):
    """Blocks of rows, tiles of columns, chains, tiles of rows."""

    def _stage_left(self, batch: Index, loops: list[Variable]) -> None:
        """With blocks of rows nothing ahead of the loops: each block is packed by itself."""
        if not self.choice.row_block:
            super()._stage_left(batch, loops)

    def _all_columns(self, batch: Index, split: bool) -> int:
        self.columns = self.choice.columns(self.choice.phases[0])
        self.parts = self.columns.tiles(self.tile)
        count = sum(part.count for part in self.parts)
        self.split = split and count > 1
        unit = self.tile.rows * self.left_group
        row_tiles = self.rows // unit * self.left_group
        size = self.choice.row_block or max(row_tiles, 1)
        width = self.tile.vectors * self.lanes
        self.sums = self.builder.scratch("sums", self.dtype, size * self.tile.rows * width)
        depth = self.depth * count if self.choice.row_block else min(CHAIN, self.depth)
        if self.choice.right == "panel":
            self.panel = Panel(self.copier, self.view, "right", depth, width)
        if self.choice.row_block and self.panel is not None:
            self._each(
                lambda tile, first, vectors: self._pack_whole(batch, tile, first, vectors)
            )
            self.panel.filled_in = self.builder.block
        if row_tiles:
            self._row_blocks(batch, row_tiles, size)
        left_over = self.rows - row_tiles * self.tile.rows
        if left_over:
            self._left_over(batch, row_tiles, left_over)
        return count

    def _each(self, body: Callable[[Expr, Expr, int], None]) -> None:
        """`body(tile, first vector, vectors)` for all tiles of columns, or those of this call."""
        for part in self.parts:
            self._run(part, 0, self.split, body)

    def _row_blocks(self, batch: Index, row_tiles: int, size: int) -> None:
        if not self.choice.row_block:
            rows = Rows(of(0), row_tiles, row_tiles, self.tile.rows, of(0))
            self._against(batch, rows)
            return
        blocks = -(-row_tiles // size)
        with self.builder.loop(0, blocks, hint="rows") as loop:
            block = Variable("row_block", blocks)
            self.integers.bind(block, loop.variable, self.builder.block)
            done = self.builder.mul(loop.variable, self.builder.const(DType.i64, size))
            left = self.builder.sub(self.builder.const(DType.i64, row_tiles), done)
            count = self.builder.minimum(left, self.builder.const(DType.i64, size))
            rows = Rows(of(block) * size, count, size, self.tile.rows, of(0))
            if self.choice.left == "panel":
                self._pack_block(batch, rows)
            self._against(batch, rows)

    def _left_over(self, batch: Index, first: int, rows: int) -> None:
        """The rows behind the last whole group of tiles."""
        if self.choice.row_block and self.choice.left == "panel":
            self._pack_left_rows(batch, of(first * self.tile.rows), of(0), rows)
            self._left_panel().filled_in = self.builder.block
        start = of(0) if self.choice.row_block else of(first)
        for tile, done in enumerate(range(0, rows, self.tile.rows)):
            count = min(self.tile.rows, rows - done)
            self._against(batch, Rows(of(first + tile), 1, 1, count, start + tile))

    def _against(self, batch: Index, rows: Rows) -> None:
        """A block of rows with all columns."""
        self._each(
            lambda tile, first, vectors: self._chains(batch, tile, first, vectors, rows)
        )

    def _tiles(self, rows: Rows, body: Callable[[Expr], None]) -> None:
        """`body(tile in the block)` for each tile of a block of rows."""
        with self.builder.loop(0, rows.count, hint="tile") as loop:
            variable = Variable(f"tile{rows.size}_{rows.rows}", rows.size)
            self.integers.bind(variable, loop.variable, self.builder.block)
            body(of(variable))

    # -- copies ------------------------------------------------------------------------------

    def _pack_whole(self, batch: Index, tile: Expr, first: Expr, vectors: int) -> None:
        """One tile of columns, all of k."""
        assert self.panel is not None
        self.panel_start = tile * self.depth
        self._pack_columns(batch, self.columns, first, vectors, of(0), self.depth)

    def _pack_block(self, batch: Index, rows: Rows) -> None:
        """The broadcast operand of a block of rows, as many rows together as a vector holds."""
        group = self.left_group
        units = rows.size // group
        count = rows.count
        if isinstance(count, Value):
            count = self.builder.op("div", count, self.builder.const(DType.i64, group))
        self._left_panel()
        with self.builder.loop(0, count, hint="pack") as loop:
            unit = Variable("unit", units)
            self.integers.bind(unit, loop.variable, self.builder.block)
            first = (rows.first + of(unit) * group) * self.tile.rows
            self._pack_left_rows(batch, first, of(unit), group * self.tile.rows)
        self._left_panel().filled_in = self.builder.block

    def _left_panel(self) -> Panel:
        if self.left_panel is None:
            units = max(self.choice.row_block // self.left_group, 1)
            self.left_panel = self._new_left_panel(units)
        return self.left_panel

    # -- chains ------------------------------------------------------------------------------

    def _chains(
        self, batch: Index, tile: Expr, first: Expr, vectors: int, rows: Rows
    ) -> None:
        """One tile of columns with a block of rows: the sums of all chains but the last go on in
        scratch, those of the last are the results."""
        chains = max(-(-self.depth // CHAIN), 1)
        if chains > 1:
            self._clear(rows)
            self.copier.loop(
                chains - 1, "chain",
                lambda i: self._chain(
                    batch, tile, first, vectors, rows, i * CHAIN, CHAIN, False
                ),
            )  # fmt: skip
        begin = (chains - 1) * CHAIN
        self._chain(batch, tile, first, vectors, rows, of(begin), self.depth - begin, True)

    def _clear(self, rows: Rows) -> None:
        width = self.tile.vectors * self.lanes
        zero = self.builder.const(self.dtype, 0)

        def clear(inside: Expr) -> None:
            lane = self.copier.lane()
            for vector in range(rows.rows * width // self.lanes):
                at = inside * (self.tile.rows * width) + vector * self.lanes + lane
                self.evaluator.store(self.sums, at, zero)

        self._tiles(rows, clear)

    def _chain(
        self, batch: Index, tile: Expr, first: Expr, vectors: int, rows: Rows, begin: Expr,
        count: int, is_last: bool,
    ) -> None:  # fmt: skip
        if self.choice.row_block:
            self.panel_start = tile * self.depth
        elif self.panel is not None:
            self.panel_start = -begin
            self._pack_columns(batch, self.columns, first, vectors, begin, count)
        self._tiles(
            rows,
            lambda inside: self._chain_tile(
                batch, first, vectors, rows, inside, begin, count, is_last
            ),
        )

    def _chain_tile(
        self, batch: Index, first: Expr, vectors: int, rows: Rows, inside: Expr, begin: Expr,
        count: int, is_last: bool,
    ) -> None:  # fmt: skip
        self.lane = self.copier.lane()
        places = [self.columns.place(first + v, self.lane) for v in range(vectors)]
        first_row = (rows.first + inside) * self.tile.rows
        m = [self._m(first_row + r) for r in range(rows.rows)]
        number = rows.slot + inside if self.choice.row_block else rows.first + inside
        body = self._products(batch, m, places, number)
        zeros = self.zeros[: rows.rows * vectors]
        with self.builder.loop(0, count, carried=zeros, hint="k") as loop:
            k = Variable(f"k{count}", count)
            self.integers.bind(k, loop.variable, self.builder.block)
            loop.yield_(*body((begin + of(k),), list(loop.carried)))
        sums = list(loop.results)
        width = self.tile.vectors * self.lanes
        positions = [
            (inside * self.tile.rows + r) * width + v * self.lanes + self.lane
            for r in range(rows.rows) for v in range(vectors)
        ]  # fmt: skip
        if self.depth > CHAIN:
            block = self.builder.block
            old = [self.evaluator.load(self.sums, at, (), block) for at in positions]
            sums = [self.builder.add(a, b) for a, b in zip(old, sums, strict=True)]
        if is_last:
            self._store(batch, first_row, rows.rows, self.columns, first, sums)
            return
        for at, value in zip(positions, sums, strict=True):
            self.evaluator.store(self.sums, at, value)
