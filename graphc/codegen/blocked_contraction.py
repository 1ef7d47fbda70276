"""Large products: what does not fit the caches is taken in blocks of rows.

The columns are packed once; then each block of rows, small enough for L2, meets all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.codegen.contraction import Contraction
from graphc.codegen.loops import Value
from graphc.codegen.staging import Panel
from graphc.codegen.tiles import Columns
from graphc.ir.types import DType
from graphc.ops.index import Expr, Variable, of
from graphc.schedule.access import Index


class BlockedContraction(Contraction):
    """Blocks of rows outside, then columns, then rows."""

    def _stage_left(self, batch: Index, loops: list[Variable]) -> None:
        """Nothing ahead of the loops: each block of rows is packed by itself."""

    def _all_columns(self, batch: Index, split: bool) -> int:
        """Columns are packed once, then blocks of rows that fit L2 meet all of them."""
        columns = self.choice.columns(self.choice.phases[0])
        whole, rest = columns.tiles(self.tile.vectors)
        tiles = whole + bool(rest)
        width = self.tile.vectors * self.lanes
        self.panel = Panel(self.copier, self.view, "right", self.depth * tiles, width)

        def each(body: Callable[[Expr, int], None], at: str) -> None:
            begin, end = self._range(0, whole, split)
            if whole:
                with self.builder.loop(begin, end, hint="columns") as loop:
                    tile = Variable(f"columns_{at}", whole)
                    self.integers.bind(tile, loop.variable, self.builder.block)
                    body(of(tile), self.tile.vectors)
            if rest:
                self._last(whole if split else None, lambda: body(of(whole), rest))

        def pack(tile: Expr, vectors: int) -> None:
            self.panel_start = tile * self.depth
            self._pack_columns(batch, columns, tile, vectors)

        each(pack, "packed")
        self.panel.filled_in = self.builder.block
        row_tiles, left_over = divmod(self.rows, self.tile.rows)
        size = self.choice.row_block
        with self.builder.loop(0, -(-row_tiles // size), hint="rows") as loop:
            block = Variable("row_block", -(-row_tiles // size))
            self.integers.bind(block, loop.variable, self.builder.block)
            done = self.builder.mul(loop.variable, self.builder.const(DType.i64, size))
            left = self.builder.sub(self.builder.const(DType.i64, row_tiles), done)
            count = self.builder.minimum(left, self.builder.const(DType.i64, size))
            first = of(block) * size
            self._rows_against(batch, columns, first, size, count, self.tile.rows, each)
        if left_over:
            self._rows_against(batch, columns, of(row_tiles), 1, 1, left_over, each)
        return tiles

    def _rows_against(
        self, batch: Index, columns: Columns, first: Expr, size: int, count: int | Value, rows: int,
        each: Callable[[Callable[[Expr, int], None], str], None],
    ) -> None:  # fmt: skip
        """`count` tiles of rows, at most `size`, against all columns."""
        def tiles(name: str, body: Callable[[Expr], None]) -> None:
            with self.builder.loop(0, count, hint=name) as loop:
                variable = Variable(f"{name}{rows}", size)
                self.integers.bind(variable, loop.variable, self.builder.block)
                body(of(variable))

        if self.choice.left == "panel":
            self._pack_rows(batch, first, size, rows, tiles)

        def against(column: Expr, vectors: int) -> None:
            self.panel_start = column * self.depth
            at = column * self.tile.vectors
            tiles(
                "tile",
                lambda i: self._tile(
                    batch, (first + i) * self.tile.rows, rows, i, columns, at, vectors
                ),
            )

        each(against, f"against{rows}")

    def _pack_rows(
        self, batch: Index, first: Expr, size: int, rows: int,
        tiles: Callable[[str, Callable[[Expr], None]], None],
    ) -> None:  # fmt: skip
        """The broadcast operand of a block of rows as [tile, k, row]."""
        width = self.choice.left_width
        if self.left_panel is None:
            self.left_panel = Panel(self.copier, self.view, "left", self.depth * size, width)
        panel = self.left_panel
        panel.depth = self.depth
        tiles(
            "pack",
            lambda i: panel.fill(
                rows,
                lambda k, r: self.view.broadcast(
                    batch, self._m((first + i) * self.tile.rows + r), self._k(k)
                ),
                i * (self.depth * width),
            ),
        )
        panel.filled_in = self.builder.block
