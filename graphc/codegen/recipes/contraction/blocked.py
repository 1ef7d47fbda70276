"""Strategy: matrix products by blocks of rows, blocks of columns, K blocks, columns, rows.

One K block of a block of rows stays in L2 while the columns of a block pass, each tile of them, for
that K block, small enough for L1 (the loops of Goto and van de Geijn, "Anatomy of High-Performance
Matrix Multiplication", 2008). Sums go on in scratch from K block to K block. The broadcast operand
is packed per block of rows: per K block of it where all columns are one block. Columns are packed
per block of them and K block, or where there are several blocks of rows once, ahead of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from graphc.codegen.evaluate.loop_cut import LoopCut
from graphc.codegen.loop_ir.nodes import Buffer, Kernel
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.recipes.contraction.broadcast_operand import (
    BroadcastOperand,
    BroadcastPacker,
    BroadcastPacking,
    KRun,
    broadcast_ahead,
    k_block_runs,
)
from graphc.codegen.recipes.contraction.cache_blocks import CacheBlocks, cache_blocks
from graphc.codegen.recipes.contraction.costs import note
from graphc.codegen.recipes.contraction.emitter import EmissionContext, Emitter
from graphc.codegen.recipes.contraction.k_blocks import K_BLOCK
from graphc.codegen.recipes.contraction.panel import FilledPanel, Panel
from graphc.codegen.recipes.contraction.problem import ContractionProblem
from graphc.codegen.recipes.contraction.register_tile import RegisterTile, store_results
from graphc.codegen.recipes.contraction.row_blocks import RowRun, clipped, over_run, row_runs
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile, Tile, TileRun
from graphc.codegen.recipes.contraction.tilings import tilings
from graphc.codegen.recipes.contraction.vector_operand import (
    VectorInPlace,
    VectorOperand,
    VectorPanel,
)
from graphc.codegen.recipes.contraction.vector_read import column_read
from graphc.codegen.target import Target
from graphc.ir.dims import fixed
from graphc.ops.kinds.index_expr import Expr, Variable, of


@dataclass(frozen=True, slots=True)
class BlockedPlan:
    """A register tile, blocks for the caches, and which operands are packed."""

    problem: ContractionProblem
    lanes: int
    columns: Columns
    tile: Tile
    packing: BroadcastPacking | None
    packs_columns: bool
    blocks: CacheBlocks
    cost: float
    reason: str

    @staticmethod
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[BlockedPlan]:
        """Products with columns packed, or too deep to stay in L1."""
        if problem.has_sizes or not len(problem.view.k) == 1 == len(problem.view.n):
            return
        for tiling in tilings(problem, target, limit):
            read, blocks = column_read(tiling, target), cache_blocks(tiling, target)
            deep = problem.depth > K_BLOCK and problem.rows > tiling.tile.rows
            if read is None or not (read.packed or deep or blocks.rows):
                continue
            rows = f"{blocks.rows} tiles of rows" if blocks.rows else "all rows"
            yield BlockedPlan(
                problem, tiling.lanes, tiling.columns[0], tiling.tile, tiling.packing, read.packed,
                blocks, tiling.bound + read.cost + tiling.scattered,
                note(
                    problem, "blocked", f"{tiling.description}, {read.description}, blocks of "
                    f"{rows} and {blocks.columns} of columns", products=tiling.products,
                    copies=read.cost + tiling.packing_cost, scattered=tiling.scattered,
                ),
            )  # fmt: skip

    def lower(self, context: EmissionContext) -> Kernel:
        emit = Emitter(context, self.problem, self.lanes)
        loops = emit.batch_loops()
        ahead: BroadcastOperand | None = None
        if self.packing is None or not self.blocks.packs_each:
            ahead = broadcast_ahead(emit, self.packing, loops, partial(k_block_runs, emit))

        def element(split: bool) -> int:
            return BlockedNest(emit, self, ahead, split).write()

        return emit.over_batch(loops, element, self.reason)


@dataclass(frozen=True, slots=True)
class ColumnBlock:
    """Tiles of columns: those of `run` from `begin` to `end`. Their copy and their sums lie behind
    those of tile `first`."""

    run: TileRun
    begin: Number
    end: Number
    first: Expr


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows that meet columns together: their tiles, of which `first` is the first, and how they lie
    in groups of tiles in the copy of the broadcast operand, which starts with tile `copied`.
    `broadcast` reads it; None: it is packed for each K block."""

    tiles: Sequence[RowRun]
    groups: Sequence[RowRun]
    first: Expr
    copied: Expr
    broadcast: BroadcastOperand | None


@dataclass(frozen=True, slots=True)
class KBlock:
    """The products of one K block: `count` of them, k from `begin` on. `run`: where these lie in
    the copy of the broadcast operand, which `broadcast` reads."""

    begin: Expr
    count: int
    is_last: bool
    run: KRun
    broadcast: BroadcastOperand


class BlockedNest:
    """All blocks of one batch element, or with `split` those with tiles of columns begin…end.
    `ahead` reads the broadcast operand where no block of rows packs it. Makes the scratch."""

    def __init__(
        self, emit: Emitter, plan: BlockedPlan, ahead: BroadcastOperand | None, split: bool
    ) -> None:
        problem, blocks, tile = emit.problem, plan.blocks, plan.tile
        self.emit, self.plan, self.columns = emit, plan, plan.columns
        self.rows, self.depth = problem.rows, problem.depth
        self.runs = self.columns.tiles(tile)
        self.count = sum(run.count for run in self.runs)
        """Tiles of columns."""
        self.split = split and self.count > 1
        self.width = tile.vectors * emit.lanes
        block = min(blocks.columns, self.count)
        self.one_block = block == self.count
        row_tiles = blocks.rows or fixed(LoopCut(self.rows, tile.rows).tiles)
        self.tile_sums = row_tiles * tile.rows * self.width
        self.sums: Buffer | None = None
        if self.depth > K_BLOCK:
            self.sums = emit.scratch("sums", block * self.tile_sums)
        self.panel: Panel | None = None
        """The copy of the columns."""
        if plan.packs_columns:
            k_block = min(K_BLOCK, self.depth)
            depth = self.depth * self.count if blocks.rows else k_block * block
            self.panel = Panel(emit.copier, emit.view, "vectors", depth, self.width)
        self.ahead = ahead
        self.groups = plan.packing.groups(self.rows) if plan.packing is not None else 1
        self.packer: BroadcastPacker | None = None
        """Packs the broadcast operand for each block of rows."""
        if ahead is None and plan.packing is not None:
            self.groups = row_tiles // plan.packing.group
            depth = min(K_BLOCK, self.depth) if self.one_block else self.depth
            panel = Panel(
                emit.copier, emit.view, "broadcast", depth * self.groups, plan.packing.width
            )
            self.packer = BroadcastPacker(emit, plan.packing, panel)

    def write(self) -> int:
        """The loops; what is split are tiles of columns."""
        vectors: VectorOperand | None = None
        if self.panel is None:
            vectors = VectorInPlace(self.emit)
        elif self.plan.blocks.rows:
            for block in self._all_tiles():
                self._pack_columns(self.panel, block, of(0), self.depth)
            vectors = VectorPanel(self.emit, self.panel.filled_here())
        self._row_blocks(vectors)
        return self.count

    # -- rows --------------------------------------------------------------------------------

    def _row_blocks(self, vectors: VectorOperand | None) -> None:
        """All blocks of rows, each against all columns; `vectors` reads these, None: they are
        packed for each K block."""
        emit, size, tile_rows = self.emit, self.plan.blocks.rows, self.plan.tile.rows
        tiles = row_runs(self.rows, tile_rows)
        if not size:
            self._against(RowBlock(tiles, (), of(0), of(0), self.ahead), vectors)
            return
        packing = self.packer.packing if self.packer is not None else None
        groups = row_runs(self.rows, packing.group_rows) if packing is not None else []
        blocks = fixed(LoopCut(tiles[-1].count, size).tiles)
        with emit.builder.loop(0, blocks, hint="rows") as loop:
            block = Variable("row_block", blocks)
            emit.addresses.bind(block, loop.variable, emit.builder.block)
            tiles = [clipped(emit, run, loop.variable, size) for run in tiles]
            per_block = size // packing.group if packing is not None else 0
            groups = [clipped(emit, run, loop.variable, per_block) for run in groups]
            first = of(block) * size
            copied = first if self.packer is not None else of(0)
            self._against(RowBlock(tiles, groups, first, copied, self.ahead), vectors)

    def _pack_rows(
        self, packer: BroadcastPacker, block: RowBlock, at: Expr, begin: Expr, count: int
    ) -> BroadcastOperand:
        """The broadcast operand of a block of rows, `count` elements of k from `begin` on, behind
        row `at` of the copy."""
        first = block.copied // packer.packing.group
        filled = packer.panel.filled_here()

        def place(run: RowRun, group: Expr) -> Expr:
            return at + run.behind(group, first) * count

        for run in block.groups:
            groups = partial(over_run, self.emit, run, "group")
            packer.copy(groups, run.rows, partial(place, run), begin, count)
        return packer.reader(filled)

    # -- columns -----------------------------------------------------------------------------

    def _all_tiles(self) -> list[ColumnBlock]:
        """All tiles of columns, or those of this call, counted over all runs."""
        return [
            ColumnBlock(
                run, *self.emit.range_of(run.number, run.count, self.split), of(-run.number)
            )
            for run in self.runs
        ]

    def _against(self, rows: RowBlock, vectors: VectorOperand | None) -> None:
        """A block of rows with all columns, or those of this call."""
        emit = self.emit
        if self.one_block:
            self._k_blocks(self._all_tiles(), rows, vectors)
            return
        if rows.broadcast is None and self.packer is not None:
            packer = self.packer

            def pack(begin: Expr, count: int) -> None:
                self._pack_rows(packer, rows, begin * self.groups, begin, count)

            k_block_runs(emit, pack)
            rows = replace(rows, broadcast=packer.reader(packer.panel.filled_here()))
        for run in self.runs:
            begin, end = emit.range_of(run.number, run.count, self.split)
            size = min(self.plan.blocks.columns, run.count)
            with emit.builder.loop(begin, end, size, hint="block") as loop:
                first = Variable(f"first{run.number}", run.count)
                emit.addresses.bind(first, loop.variable, emit.builder.block)
                behind = emit.numbers.add(loop.variable, size)
                last = emit.numbers.minimum(behind, end)
                block = ColumnBlock(run, loop.variable, last, of(first))
                self._k_blocks([block], rows, vectors)

    def _columns_of(self, block: ColumnBlock, body: Callable[[Expr], None]) -> None:
        """`body(tile of the run)` for each tile of a block of columns."""
        emit = self.emit
        with emit.builder.loop(block.begin, block.end, hint="columns") as loop:
            tile = Variable(f"columns{block.run.number}", block.run.count)
            emit.addresses.bind(tile, loop.variable, emit.builder.block)
            body(of(tile))

    def _first_vector(self, block: ColumnBlock, tile: Expr) -> Expr:
        return tile * block.run.vectors + block.run.first

    def _pack_columns(
        self, panel: Panel, block: ColumnBlock, begin: Expr, depth: int
    ) -> FilledPanel:
        """A block of columns as [tile][k][column], for k from `begin` on."""
        problem, lanes = self.emit.problem, self.emit.lanes
        width = block.run.vectors * lanes
        if block.run.count == 1:
            width = min(width, self.columns.lanes_used - block.run.first * lanes)
        return panel.fill(
            partial(self._columns_of, block), width, depth,
            lambda tile, k, c: problem.view.vector(
                problem.batch,
                self.columns.index(self._first_vector(block, tile) * lanes + c),
                problem.k(begin + k),
            ),
            lambda tile: (tile - block.first) * (depth * self.width),
        )  # fmt: skip

    # -- K blocks ----------------------------------------------------------------------------

    def _k_blocks(
        self, blocks: Sequence[ColumnBlock], rows: RowBlock, vectors: VectorOperand | None
    ) -> None:
        """A block of columns (of one run, or several) with a block of rows: the sums of all K
        blocks but the last go on in scratch, those of the last are the results."""
        count = max(fixed(LoopCut(self.depth, K_BLOCK).tiles), 1)

        def k_block(begin: Expr, products: int, is_last: bool) -> None:
            broadcast, run = rows.broadcast, KRun(begin * (self.groups - 1), products)
            if broadcast is None:
                # A copy of this K block alone, not one of all of them behind one another.
                assert self.packer is not None
                broadcast = self._pack_rows(self.packer, rows, of(0), begin, products)
                run = KRun(-begin, products)
            for block in blocks:
                self._k_block(
                    block, rows, KBlock(begin, products, is_last, run, broadcast), vectors
                )

        if count > 1:
            # Where each but the last is the first, it needs no zeros to add to.
            for block in blocks if count > 2 else ():
                self._clear(block, rows)
            self.emit.copier.loop(
                count - 1, "k_block", lambda i: k_block(i * K_BLOCK, K_BLOCK, False)
            )
        begin = (count - 1) * K_BLOCK
        k_block(of(begin), self.depth - begin, True)

    def _clear(self, block: ColumnBlock, rows: RowBlock) -> None:
        sums, lanes, tile = self.sums, self.emit.lanes, self.plan.tile
        assert sums is not None

        def clear(column: Expr, run: RowRun, number: Expr) -> None:
            at = self._sum(block, column, run.behind(number, rows.first))
            self.emit.clear(sums, run.rows * tile.vectors, lambda i: at + i * lanes)

        def all_rows(column: Expr) -> None:
            for run in rows.tiles:
                over_run(self.emit, run, "tile", partial(clear, column, run))

        self._columns_of(block, all_rows)

    def _sum(self, block: ColumnBlock, column: Expr, tile: Expr) -> Expr:
        """Where the sums of a tile of columns and one of rows, counted in its block, start."""
        inside = tile * (self.plan.tile.rows * self.width)
        return (column - block.first) * self.tile_sums + inside

    def _k_block(
        self, block: ColumnBlock, rows: RowBlock, k: KBlock, vectors: VectorOperand | None
    ) -> None:
        if vectors is None:
            assert self.panel is not None
            filled = self._pack_columns(self.panel, block, k.begin, k.count)
            vectors = VectorPanel(self.emit, filled)
        registers = RegisterTile(self.emit, k.broadcast, vectors)

        def against(column: Expr) -> None:
            start = (column + block.run.number) * self.depth
            if not self.plan.blocks.rows:
                start = (column - block.first) * k.count - k.begin
            vector, count = self._first_vector(block, column), block.run.vectors

            def tile(run: RowRun, number: Expr) -> None:
                row = number * self.plan.tile.rows
                batch = self.emit.problem.batch
                at = OutputTile(batch, row, run.rows, self.columns, vector, count)
                sums = self._sum(block, column, run.behind(number, rows.first))
                self._tile(registers, at, run.behind(number, rows.copied), k, start, sums)

            for run in rows.tiles:
                over_run(self.emit, run, "tile", partial(tile, run))

        self._columns_of(block, against)

    def _tile(
        self, registers: RegisterTile, at: OutputTile, tile: Expr, k_block: KBlock, start: Expr,
        kept: Expr,
    ) -> None:  # fmt: skip
        """One K block of a tile. `tile` is its number in the copy of the broadcast operand, `start`
        where its columns start in theirs, `kept` where its sums do in scratch."""
        emit = self.emit
        lane = emit.copier.lane()
        body = registers.products(at, lane, tile, k_block.run, start)
        zeros = emit.zeros(at.rows * at.vectors)
        with emit.builder.loop(0, k_block.count, carried=zeros, hint="k") as loop:
            k = Variable(f"k{k_block.count}", k_block.count)
            emit.addresses.bind(k, loop.variable, emit.builder.block)
            loop.yield_(*body((k_block.begin + of(k),), list(loop.carried)))
        sums = list(loop.results)
        positions = self._positions(at, kept, lane) if self.sums is not None else []
        if self.sums is not None:
            before = zeros
            if not k_block.begin.is_constant or k_block.begin.constant > 0:
                here = emit.builder.block
                before = [emit.evaluator.load(self.sums, place, (), here) for place in positions]
            sums = list(map(emit.builder.add, before, sums))
        if k_block.is_last or self.sums is None:
            store_results(emit, at, lane, sums)
            return
        for place, value in zip(positions, sums, strict=True):
            emit.evaluator.store(self.sums, place, value)

    def _positions(self, at: OutputTile, kept: Expr, lane: Expr) -> list[Expr]:
        """Where the sums of a tile lie in scratch."""
        return [
            kept + r * self.width + v * self.emit.lanes + lane
            for r in range(at.rows) for v in range(at.vectors)
        ]  # fmt: skip
