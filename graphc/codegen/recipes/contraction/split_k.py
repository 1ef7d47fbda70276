"""Strategy: groups of k, one by one, for a long reduction with a large copy of an operand.

A convolution's weight gradient sums over all positions of all images, and reads the input by
channels. A few images at a time are copied, channels last, into a halo buffer; all tiles add their
products to partial sums in scratch; the body's outputs are computed from these, in the order of the
output's memory, after the last group. K blocks end where they always do, so the bits are those of
any other strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from graphc.codegen.evaluate.loop_cut import LoopCut
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.recipes.contraction.broadcast_operand import BroadcastInPlace
from graphc.codegen.recipes.contraction.costs import group_size, note
from graphc.codegen.recipes.contraction.emitter import EmissionContext, Emitter
from graphc.codegen.recipes.contraction.halo import (
    Group,
    HaloBuffer,
    HaloPlan,
    group_end,
    group_members,
)
from graphc.codegen.recipes.contraction.problem import ContractionProblem
from graphc.codegen.recipes.contraction.register_tile import RegisterTile
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile, Tile
from graphc.codegen.recipes.contraction.tilings import Tiling, tilings
from graphc.codegen.recipes.contraction.vector_operand import VectorHalo
from graphc.codegen.recipes.contraction.vector_read import column_read, halo_of, halo_read
from graphc.codegen.recipes.contraction.view import group_variable
from graphc.codegen.target import Target
from graphc.ir.dims import fixed, is_symbolic
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import unflatten

ROW_TILES, BLOCKS = 8, 4
"""Tiles of rows, at most, that meet the same columns in turn, while the copy of these is in the
caches; fewer where there would be less than so many blocks of rows, among which threads divide."""
REORDERED = 1 / 8
"""Cost of results that are stored in the order of their memory, beside that of scattering them."""


@dataclass(frozen=True, slots=True)
class SplitKPlan:
    """`group` indices of k's first axis at a time; `halo` holds what the vector operand has of
    them. `recomputed`: zeros stand for skipped products, so tiles with NaN are computed again."""

    problem: ContractionProblem
    lanes: int
    columns: Columns
    tile: Tile
    unrolled: int
    group: int
    halo: HaloPlan
    recomputed: bool
    cost: float
    reason: str

    @staticmethod
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[SplitKPlan]:
        # Along all columns they are packed.
        if len(problem.view.n) < 2:
            return
        for tiling in tilings(problem, target, limit):
            if not wants_groups(tiling) or tiling.packing is not None:
                continue
            depth = problem.view.k[0]
            whole, members = (None, depth) if isinstance(depth, int) else (1, 1)
            read = None if column_read(tiling, target) else halo_read(tiling, whole)
            if read is None or read.halo is None:
                continue
            group = group_size(problem, -(-read.halo.elements // members), target)
            halo = halo_of(tiling, group)
            if halo is None:
                continue
            results = tiling.scattered * REORDERED
            yield SplitKPlan(
                problem, tiling.lanes, replace(tiling.columns[0], down=0), tiling.tile,
                tiling.unrolled, group, halo, read.guarded and problem.dtype.is_float,
                tiling.bound + read.cost + results,
                note(
                    problem, "split k", f"{tiling.description}, {read.description}, {group} of "
                    f"{depth} at a time", products=tiling.products, copies=read.cost,
                    reordered=results,
                ),
            )  # fmt: skip

    def lower(self, context: EmissionContext) -> Kernel:
        emit = Emitter(context, self.problem, self.lanes)
        loops = emit.batch_loops()
        nest = SplitKNest(emit, self)
        return emit.over_batch(loops, nest.batch_element, self.reason)


def wants_groups(tiling: Tiling) -> bool:
    """Whether a halo buffer of such a tile is better filled by groups of k, as results scatter; or
    has to be, as one for all of k would grow with a size known only at run time."""
    needed = tiling.scattered > 0 or is_symbolic(tiling.problem.view.k)
    return needed and tiling.unrolled > 0 and len(tiling.columns) == 1


@dataclass(frozen=True, slots=True)
class RowRange:
    """A block of tiles of rows: the first tile, how many there are, at most how many, and the rows
    in each."""

    first: Expr
    count: Number
    size: int
    rows: int


class SplitKNest:
    """Groups of the first axis of k outside, then rows, columns inside. Makes the scratch."""

    def __init__(self, emit: Emitter, plan: SplitKPlan) -> None:
        self.emit = emit
        self.plan = plan
        self.rows = emit.problem.rows
        self.tile = plan.tile
        self.columns = plan.columns
        self.groups = group_variable(emit.view, plan.group)
        self.width = self.columns.vectors * emit.lanes
        self.row_tiles = LoopCut(self.rows, self.tile.rows)
        whole = fixed(self.row_tiles.whole)
        self.block = max(min(ROW_TILES, whole // BLOCKS), 1)
        self.row_blocks = LoopCut(whole, self.block)
        self.one_group = self.groups.extent == 1
        kept_rows = self.block * self.tile.rows if self.one_group else self.rows
        self.sums = emit.scratch("sums", kept_rows * self.width)
        self.halo = HaloBuffer(emit.copier, emit.view, plan.halo)
        self.halo.clear()

    def batch_element(self, split: bool) -> int:
        """What is split are blocks of rows."""
        emit = self.emit
        count = fixed(self.row_blocks.tiles) + bool(self.row_tiles.rest)
        if self.one_group:
            registers = self._registers(None)
            self._row_blocks(split, lambda rows: self._products_of(registers, rows, None))
            return count
        self._row_blocks(split, self._clear)
        with emit.builder.loop(0, self.groups.extent, hint="group") as loop:
            emit.addresses.bind(self.groups, loop.variable, emit.builder.block)
            size = self.plan.group
            registers = self._registers(group_members(emit, self.groups, loop.variable, size))
            first = emit.numbers.mul(loop.variable, size)
            group = first, group_end(emit, first, size)
            self._row_blocks(split, lambda rows: self._products_of(registers, rows, group))
        self._row_blocks(split, self._outputs)
        return count

    def _registers(self, members: Group | None) -> RegisterTile:
        """The register tile, from the halo buffer as it is filled here."""
        shares = self.tile.rows == 1
        vectors = VectorHalo(self.emit, self.halo.fill(group=members), self.columns, shares, {})
        return RegisterTile(self.emit, BroadcastInPlace(self.emit), vectors)

    def _row_blocks(self, split: bool, body: Callable[[RowRange], None]) -> None:
        """`body` for all blocks of tiles of rows, or those of this call. The last block of whole
        tiles goes through the loop as the others do: a body is all of the products, too much code
        to write it twice."""
        emit, cut = self.emit, self.row_blocks
        blocks = fixed(cut.tiles)
        begin, end = emit.range_of(0, blocks, split)
        if blocks:
            with emit.builder.loop(begin, end, hint="rows") as loop:
                block = Variable("row_block", blocks)
                emit.addresses.bind(block, loop.variable, emit.builder.block)
                count = cut.present(emit.addresses, of(block))
                body(RowRange(of(block) * self.block, count, self.block, self.tile.rows))
        if self.row_tiles.rest:
            last = RowRange(of(fixed(self.row_tiles.whole)), 1, 1, fixed(self.row_tiles.rest))
            emit.last(blocks if split else None, lambda: body(last))

    def _tiles(self, rows: RowRange, body: Callable[[Expr, Expr], None]) -> None:
        """`body(first row, first row in the block)` for each tile of a block."""
        emit = self.emit
        with emit.builder.loop(0, rows.count, hint="tile") as loop:
            tile = Variable(f"tile{rows.size}", rows.size)
            emit.addresses.bind(tile, loop.variable, emit.builder.block)
            body((rows.first + of(tile)) * self.tile.rows, of(tile) * self.tile.rows)

    def _kept(self, row: Expr, inside: Expr) -> Expr:
        """The row of scratch that holds a row's sums: of all rows, or of those of a block."""
        return inside if self.one_group else row

    def _clear(self, rows: RowRange) -> None:
        vectors = rows.rows * self.columns.vectors
        self._tiles(
            rows,
            lambda row, inside: self.emit.clear(
                self.sums,
                vectors,
                lambda at: row * self.width + at * self.emit.lanes,
                self.emit.first_addend() if self.emit.problem.has_sizes else None,
            ),
        )

    def _products_of(
        self, registers: RegisterTile, rows: RowRange, group: tuple[Number, Number] | None
    ) -> None:
        """Adds the products of one group to a block of rows, all columns; of the only group (None),
        also computes the outputs."""
        emit = self.emit

        def against(vector: Expr, vectors: int) -> None:
            def tile(row: Expr, inside: Expr) -> None:
                batch = emit.problem.batch
                at = OutputTile(batch, row, rows.rows, self.columns, vector, vectors)
                self._group_tile(registers, at, inside, group)

            self._tiles(rows, tile)

        for run in self.columns.tiles(self.tile):
            emit.run(run, 0, False, against)
        if group is None:
            self._outputs(rows)

    def _group_tile(
        self, registers: RegisterTile, at: OutputTile, inside: Expr,
        group: tuple[Number, Number] | None,
    ) -> None:  # fmt: skip
        """Adds the products of a group to the sums of a tile; with no group, of all of k."""
        emit = self.emit
        lane = emit.tile_lane()
        loops = registers.k_loops(at, lane, of(0), self.plan.unrolled)
        positions = [
            (self._kept(at.row, inside) + r) * self.width + (at.vector + v) * emit.lanes + lane
            for r in range(at.rows) for v in range(at.vectors)
        ]  # fmt: skip
        if group is None:
            totals = loops.total()
            if self.plan.recomputed:
                totals = emit.guarded.tile(at, totals)
        else:
            block = emit.builder.block
            start = [emit.evaluator.load(self.sums, p, (), block) for p in positions]
            totals = loops.added_to(start, *group)
        for position, total in zip(positions, totals, strict=True):
            emit.evaluator.store(self.sums, position, total)

    # -- outputs -----------------------------------------------------------------------------

    def _outputs(self, rows: RowRange) -> None:
        """The body's outputs for a block of rows, by vectors along the op's own order of n."""
        emit, lanes, shape = self.emit, self.emit.lanes, self.emit.view.n
        if not self.one_group and self.plan.recomputed:
            self._tiles(rows, lambda row, inside: self._check(row, rows.rows))
        filled_in = emit.builder.block

        def vector(row: Expr, kept: Expr, first: Expr, count: int) -> None:
            lane = emit.copier.lane()
            n = unflatten(first + lane, shape)
            guards = ((lane, 0, count),) if count < lanes else ()
            at = kept * self.width + self.columns.position(n)
            total = emit.evaluator.load(self.sums, at, guards, filled_in)
            index = emit.view.out(emit.problem.batch, emit.problem.m(row), n)
            emit.finish(index, guards, emit.builder.splat(total, lanes))

        def vectors(row: Expr, kept: Expr, first: Expr, count: int) -> None:
            for start in range(0, count, lanes):
                vector(row, kept, first + start, min(lanes, count - start))

        # So many at a time that coordinates differ from those of the first by constants.
        step = math.prod(shape[1:]) * lanes

        def one(row: Expr, kept: Expr) -> None:
            emit.copier.tiles(
                math.prod(shape), step, "out",
                lambda block, count: vectors(row, kept, block * step, count),
            )  # fmt: skip

        self._tiles(
            rows,
            lambda row, inside: emit.copier.loop(
                rows.rows, "r", lambda r: one(row + r, self._kept(row + r, inside + r))
            ),
        )

    def _check(self, row: Expr, rows: int) -> None:
        """Recomputes tiles of partial sums that are not finite, products skipped where guarded."""
        emit = self.emit

        def one(r: Expr, vector: Expr) -> None:
            at = OutputTile(emit.problem.batch, row + r, 1, self.columns, vector, 1)
            position = at.row * self.width + vector * emit.lanes + emit.tile_lane()
            total = emit.evaluator.load(self.sums, position, (), emit.builder.block)
            (total,) = emit.guarded.tile(at, [total])
            emit.evaluator.store(self.sums, position, total)

        vectors = self.columns.vectors
        emit.copier.loop(rows, "r", lambda r: emit.copier.loop(vectors, "v", lambda v: one(r, v)))
