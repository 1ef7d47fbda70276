"""Matrix products: blocks of rows, blocks of columns, chains, tiles of columns, tiles of rows.

One chain of a block of rows stays in L2 while the columns of a block pass, each tile of them, for
that chain, small enough for L1. Sums go on in scratch from chain to chain. The broadcast operand is
packed per block of rows: per chain of it where all columns are one block. Columns are packed per
block of them and chain, or where there are several blocks of rows once, ahead of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.contraction.broadcast_operand import Run, Runs
from graphc.codegen.recipes.contraction.k_blocks import CHAIN
from graphc.codegen.recipes.contraction.tiled import TiledOrder
from graphc.codegen.recipes.contraction.tiles import OutputTile, TileRun
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index


@dataclass(frozen=True)
class RowRun:
    """A run of tiles, or of groups of tiles, of `rows` rows each: from `begin` to `end`, at most
    `count`. They are counted over all blocks: then a loop's variable has the extent of the operand,
    and no index seems to lie beyond it."""

    begin: int | LoopValue
    end: int | LoopValue
    count: int
    rows: int

    def behind(self, number: Expr, first: Expr) -> Expr:
        """A tile's number behind the first of its block. A run of one tile is the first block's
        first, and its number the constant 0 whichever block is at hand: of others it has none."""
        return number - first if self.count > 1 else number


@dataclass(frozen=True)
class Block:
    """Tiles of columns: those of `part` from `begin` to `end`. Their copy and their sums lie behind
    those of tile `first`."""

    part: TileRun
    begin: int | LoopValue
    end: int | LoopValue
    first: Expr


@dataclass(frozen=True)
class Chain:
    """The products of one chain: `count` of them, k from `begin` on. `run`: where these lie in the
    copy of the broadcast operand."""

    begin: Expr
    count: int
    is_last: bool
    run: Run


@dataclass(frozen=True)
class RowBlock:
    """Rows that meet columns together: their tiles, of which `first` is the first, and how they lie
    in groups of tiles in the copy of the broadcast operand, which starts with tile `copied`.
    `packed`: this block packs them."""

    tiles: Sequence[RowRun]
    groups: Sequence[RowRun]
    first: Expr
    copied: Expr
    packed: bool


class ByBlocks(TiledOrder):
    """A product with columns packed, or too deep for the caches."""

    def prepare(self, batch: Index, loops: list[Variable]) -> None:
        """Where each block of rows is packed by itself nothing ahead of the loops."""
        self.packs_rows = self.choice.left == "panel" and self.choice.left_by_block
        if not self.packs_rows:
            super().prepare(batch, loops)

    @property
    def left_runs(self) -> Runs:
        """Chain after chain: what is in use then lies together, spread over all sets of L2."""

        def runs(body: Callable[[Expr, int], None]) -> None:
            whole, rest = divmod(self.depth, CHAIN)
            if whole:
                self.copier.loop(whole, "pc", lambda chain: body(chain * CHAIN, CHAIN))
            if rest:
                body(of(whole * CHAIN), rest)

        return runs

    def batch_element(self, batch: Index, split: bool) -> int:
        """What is split are tiles of columns."""
        self.columns = self.choice.columns(self.choice.phases[0])
        self.parts = self.columns.tiles(self.tile)
        count = sum(part.count for part in self.parts)
        self.split = split and count > 1
        self.row_block = self.choice.row_block or -(-self.rows // self.tile.rows)
        self.width = self.tile.vectors * self.lanes
        block = min(self.choice.column_block, count)
        self.one_block = block == count
        self.tile_sums = self.row_block * self.tile.rows * self.width
        if self.depth > CHAIN:
            self.sums = self.builder.scratch("sums", self.dtype, block * self.tile_sums)
        if self.choice.right == "panel":
            depth = self.depth * count if self.choice.row_block else min(CHAIN, self.depth) * block
            self.right.new_panel(depth)
        self.groups = self.left.groups
        if self.packs_rows:
            self.groups = self.row_block // self.left.group
            depth = min(CHAIN, self.depth) if self.one_block else self.depth
            self.left.new_panel(depth * self.groups)
        if self.right.panel is not None and self.choice.row_block:
            for part in self._all_tiles():
                self._pack_block(batch, part, of(0), self.depth)
            self.right.panel.filled_in = self.builder.block
        self._row_blocks(batch)
        return count

    # -- rows --------------------------------------------------------------------------------

    def _row_blocks(self, batch: Index) -> None:
        """All blocks of rows, each against all columns."""
        tiles, size = self._runs(self.tile.rows), self.choice.row_block
        if not size:
            self._against(batch, RowBlock(tiles, (), of(0), of(0), False))
            return
        groups = self._runs(self.left.group_rows) if self.packs_rows else []
        blocks = -(-tiles[-1].count // size)
        with self.builder.loop(0, blocks, hint="rows") as loop:
            block = Variable("row_block", blocks)
            self.integers.bind(block, loop.variable, self.builder.block)
            tiles = [self._clipped(run, loop.variable, size) for run in tiles]
            per_block = size // self.left.group
            groups = [self._clipped(run, loop.variable, per_block) for run in groups]
            first = of(block) * size
            copied = first if self.packs_rows else of(0)
            self._against(batch, RowBlock(tiles, groups, first, copied, self.packs_rows))

    def _runs(self, rows: int) -> list[RowRun]:
        """All rows, so many at a time, and what is left of them."""
        whole, rest = divmod(self.rows, rows)
        runs = [RowRun(0, whole, whole, rows)] if whole else []
        return runs + ([RowRun(whole, whole + 1, whole + 1, rest)] if rest else [])

    def _clipped(self, run: RowRun, block: LoopValue, size: int) -> RowRun:
        """The part of a run in a block of so many."""
        assert isinstance(run.begin, int) and isinstance(run.end, int)
        builder = self.builder
        low = builder.mul(block, builder.const(DType.i64, size))
        high = builder.add(low, builder.const(DType.i64, size))
        low = builder.op("maximum", low, builder.const(DType.i64, run.begin))
        high = builder.minimum(high, builder.const(DType.i64, run.end))
        return replace(run, begin=low, end=high)

    def _pack_rows(self, batch: Index, block: RowBlock, at: Expr, begin: Expr, count: int) -> None:
        """The broadcast operand of a block of rows, `count` elements of k from `begin` on, behind
        row `at` of the copy."""
        first = block.copied // self.left.group

        def place(run: RowRun, group: Expr) -> Expr:
            return at + run.behind(group, first) * count

        for run in block.groups:
            self.left.copy(
                batch, partial(self._tiles, run, "group"), run.rows, partial(place, run), begin,
                count,
            )  # fmt: skip

    def _tiles(self, run: RowRun, name: str, body: Callable[[Expr], None]) -> None:
        """`body(number)` for each of a run of rows."""
        with self.builder.loop(run.begin, run.end, hint=name) as loop:
            variable = Variable(f"{name}{run.count}_{run.rows}", run.count)
            self.integers.bind(variable, loop.variable, self.builder.block)
            body(of(variable))

    # -- columns -----------------------------------------------------------------------------

    def _all_tiles(self) -> list[Block]:
        """All tiles of columns, or those of this call, counted over all parts."""
        return [
            Block(part, *self.range_of(part.number, part.count, self.split), of(-part.number))
            for part in self.parts
        ]

    def _against(self, batch: Index, rows: RowBlock) -> None:
        """A block of rows with all columns, or those of this call."""
        if self.one_block:
            self._chains(batch, self._all_tiles(), rows)
            return
        if rows.packed:
            self.left_runs(
                lambda begin, count: self._pack_rows(batch, rows, begin * self.groups, begin, count)
            )
            rows = replace(rows, packed=False)
        for part in self.parts:
            begin, end = self.range_of(part.number, part.count, self.split)
            size = min(self.choice.column_block, part.count)
            with self.builder.loop(begin, end, size, hint="block") as loop:
                first = Variable(f"first{part.number}", part.count)
                self.integers.bind(first, loop.variable, self.builder.block)
                behind = self.builder.add(loop.variable, self.builder.const(DType.i64, size))
                last = end if isinstance(end, LoopValue) else self.builder.const(DType.i64, end)
                last = self.builder.minimum(behind, last)
                self._chains(batch, [Block(part, loop.variable, last, of(first))], rows)

    def _columns_of(self, block: Block, body: Callable[[Expr], None]) -> None:
        """`body(tile of the part)` for each tile of a block of columns."""
        with self.builder.loop(block.begin, block.end, hint="columns") as loop:
            tile = Variable(f"columns{block.part.number}", block.part.count)
            self.integers.bind(tile, loop.variable, self.builder.block)
            body(of(tile))

    def _first_vector(self, block: Block, tile: Expr) -> Expr:
        return tile * block.part.vectors + block.part.first

    def _pack_block(self, batch: Index, block: Block, begin: Expr, depth: int) -> None:
        """A block of columns as [tile][k][column], for k from `begin` on."""
        panel = self.right.panel
        assert panel is not None
        width = block.part.vectors * self.lanes
        if block.part.count == 1:
            width = min(width, self.columns.lanes_used - block.part.first * self.lanes)
        panel.depth = depth
        panel.fill(
            partial(self._columns_of, block), width,
            lambda tile, k, c: self.view.vector(
                batch,
                self.columns.index(self._first_vector(block, tile) * self.lanes + c),
                self.k(begin + k),
            ),
            lambda tile: (tile - block.first) * (depth * self.width),
        )  # fmt: skip

    # -- chains ------------------------------------------------------------------------------

    def _chains(self, batch: Index, blocks: Sequence[Block], rows: RowBlock) -> None:
        """A block of columns (of one part, or several) with a block of rows: the sums of all chains
        but the last go on in scratch, those of the last are the results."""
        chains = max(-(-self.depth // CHAIN), 1)

        def chain(begin: Expr, count: int, is_last: bool) -> None:
            if rows.packed:
                self._pack_rows(batch, rows, of(0), begin, count)
            # A copy of this chain alone, or one of all chains behind one another.
            run = Run(-begin if rows.packed else begin * (self.groups - 1), count)
            for block in blocks:
                self._chain(batch, block, rows, Chain(begin, count, is_last, run))

        if chains > 1:
            # Where each but the last is the first, it needs no zeros to add to.
            for block in blocks if chains > 2 else ():
                self._clear(block, rows)
            self.copier.loop(chains - 1, "chain", lambda i: chain(i * CHAIN, CHAIN, False))
        begin = (chains - 1) * CHAIN
        chain(of(begin), self.depth - begin, True)

    def _clear(self, block: Block, rows: RowBlock) -> None:
        def clear(column: Expr, run: RowRun, tile: Expr) -> None:
            vectors = run.rows * self.tile.vectors
            at = self._sum(block, column, run.behind(tile, rows.first))
            self.clear(self.sums, vectors, lambda i: at + i * self.lanes)

        def all_rows(column: Expr) -> None:
            for run in rows.tiles:
                self._tiles(run, "tile", partial(clear, column, run))

        self._columns_of(block, all_rows)

    def _sum(self, block: Block, column: Expr, tile: Expr) -> Expr:
        """Where the sums of a tile of columns and one of rows, counted in its block, start."""
        inside = tile * (self.tile.rows * self.width)
        return (column - block.first) * self.tile_sums + inside

    def _chain(self, batch: Index, block: Block, rows: RowBlock, chain: Chain) -> None:
        packs_columns = self.right.panel is not None and not self.choice.row_block
        if packs_columns:
            self._pack_block(batch, block, chain.begin, chain.count)

        def against(column: Expr) -> None:
            start = (column + block.part.number) * self.depth
            if not self.choice.row_block:
                start = (column - block.first) * chain.count - chain.begin
            vector, vectors = self._first_vector(block, column), block.part.vectors

            def tile(run: RowRun, number: Expr) -> None:
                row = number * self.tile.rows
                at = OutputTile(batch, row, run.rows, self.columns, vector, vectors)
                sums = self._sum(block, column, run.behind(number, rows.first))
                self._chain_tile(at, run.behind(number, rows.copied), chain, start, sums)

            for run in rows.tiles:
                self._tiles(run, "tile", partial(tile, run))

        self._columns_of(block, against)

    def _chain_tile(
        self, at: OutputTile, tile: Expr, chain: Chain, start: Expr, kept: Expr
    ) -> None:
        """One chain of a tile. `tile` is its number in the copy of the broadcast operand, `start`
        where its columns start in theirs, `kept` where its sums do in scratch."""
        lane = self.copier.lane()
        body = self.products(at, lane, tile, chain.run, start)
        zeros = self.zeros[: at.rows * at.vectors]
        with self.builder.loop(0, chain.count, carried=zeros, hint="k") as loop:
            k = Variable(f"k{chain.count}", chain.count)
            self.integers.bind(k, loop.variable, self.builder.block)
            loop.yield_(*body((chain.begin + of(k),), list(loop.carried)))
        sums = list(loop.results)
        positions: list[Expr] = []
        if self.depth > CHAIN:
            positions = [
                kept + r * self.width + v * self.lanes + lane
                for r in range(at.rows) for v in range(at.vectors)
            ]  # fmt: skip
            old = zeros
            if not chain.begin.is_constant or chain.begin.constant > 0:
                here = self.builder.block
                old = [self.evaluator.load(self.sums, place, (), here) for place in positions]
            sums = [self.builder.add(a, b) for a, b in zip(old, sums, strict=True)]
        if chain.is_last:
            self.store(at, lane, sums)
            return
        for place, value in zip(positions, sums, strict=True):
            self.evaluator.store(self.sums, place, value)
