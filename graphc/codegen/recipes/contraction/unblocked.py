"""Convolutions, and products that are small or read where they lie: columns, then rows."""

from __future__ import annotations

from functools import partial

from graphc.codegen.recipes.contraction.tiled import TiledOrder
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index


class ByColumns(TiledOrder):
    """Batch, tiles of columns, tiles of rows, k."""

    def batch_element(self, batch: Index, split: bool) -> int:
        """What is split are tiles of columns, or, where there is one, of rows."""
        if self.right.box is not None:
            self.right.box.fill()
        all_columns = [self.choice.columns(phase) for phase in self.choice.phases]
        all_parts = [columns.tiles(self.tile) for columns in all_columns]
        count = sum(part.count for parts in all_parts for part in parts)
        row_tiles = -(-self.rows // self.tile.rows)
        by_rows = split and count == 1 < row_tiles
        split = split and count > 1
        done = 0
        for columns, parts in zip(all_columns, all_parts, strict=True):
            for part in parts:
                self.run(part, done, split, partial(self._columns, batch, columns, by_rows))
            done += sum(part.count for part in parts)
        return row_tiles if by_rows else count

    def _columns(
        self, batch: Index, columns: Columns, by_rows: bool, first: Expr, vectors: int
    ) -> None:
        """One tile of columns, all rows; or tiles begin…end of them."""
        whole, rest = divmod(self.rows, self.tile.rows)

        def tile(number: Expr, rows: int) -> OutputTile:
            row = number * self.tile.rows
            return OutputTile(batch, row, rows, columns, first, vectors)

        if self.choice.right == "panel":
            self.right.copy_tile(tile(of(0), self.tile.rows), self.depth)
        if whole and by_rows:
            with self.builder.loop(*self.range_of(0, whole, True), hint="tile") as loop:
                number = Variable("row_tile", whole)
                self.integers.bind(number, loop.variable, self.builder.block)
                self._tile(tile(of(number), self.tile.rows), of(number))
        elif whole:
            self.copier.loop(whole, "tile", lambda i: self._tile(tile(i, self.tile.rows), i))
        if rest:
            last = of(whole)
            self.last(whole if by_rows else None, lambda: self._tile(tile(last, rest), last))

    def _tile(self, at: OutputTile, number: Expr) -> None:
        lane = self.lane()
        totals = self.chains(at, lane, number).total(self.zeros[: at.rows * at.vectors])
        self.store(at, lane, self.checked(at, totals))
