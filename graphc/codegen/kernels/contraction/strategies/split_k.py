"""Strategy: groups of k, one by one, for a long reduction with a large copy of an operand.

A convolution's weight gradient sums over all positions of all images, and reads the input by
channels. A few images at a time are copied, channels last, into a halo buffer; all tiles add their
products to partial sums in scratch; the body's outputs are computed from these, in the order of the
output's memory, after the last group. K blocks end where they always do, so the bits are those of
any other strategy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphc.codegen.kernels.contraction.cost.costs import first_copied, group_size, note
from graphc.codegen.kernels.contraction.cost.halo_plan import HaloPlan
from graphc.codegen.kernels.contraction.cost.tiles import Columns, OutputTile, Tile
from graphc.codegen.kernels.contraction.cost.tilings import Tiling, tilings
from graphc.codegen.kernels.contraction.cost.vector_read import column_read, halo_of, halo_read
from graphc.codegen.kernels.contraction.emission.axes import (
    BatchNest,
    batch_loops,
    batch_of,
    column_split,
    sum_axis,
)
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.emission.sums import Sums
from graphc.codegen.kernels.contraction.operands.broadcast_operand import BroadcastInPlace
from graphc.codegen.kernels.contraction.operands.vector_operand import (
    FilledGroup,
    GroupHalos,
    VectorHalo,
)
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.strategies.register_tile import RegisterTile
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Clear,
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Leaf,
    Nest,
    NestPlace,
    Role,
    Span,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ir.dims import ceil_div
from graphc.ops.kinds.index_expr import Expr, of
from graphc.records import record, replace
from graphc.schedule.access import unflatten

ROW_TILES, BLOCKS = 8, 4
"""Tiles of rows, at most, that meet the same columns in turn, while the copy of these is in the
caches; fewer where there would be less than so many blocks of rows, among which threads divide."""
REORDERED = 1 / 8
"""Cost of results that are stored in the order of their memory, beside that of scattering them."""
WRITTEN_OUT = 64
"""Vectors of results that are written out, at most."""


@record
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
    @open_to(Coordinates.BATCH | Coordinates.DEPTH)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[SplitKPlan]:
        # Along all columns they are packed.
        if len(problem.view.n) < 2:
            return
        for tiling in tilings(problem, target, limit):
            if not wants_groups(tiling) or tiling.packing is not None or tiling.halo is not None:
                continue
            whole, members = first_copied(problem.view.k[0])
            read = None if column_read(tiling, target) else halo_read(tiling, whole)
            if read is None or read.halo is None:
                continue
            group = group_size(problem, ceil_div(read.halo.elements, members), target)
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
                    f"{problem.view.k[0]} at a time", products=tiling.products, copies=read.cost,
                    reordered=results,
                ),
            )  # fmt: skip

    def nest(self) -> Nest:
        """Groups of the first axis of k outside, then blocks of rows, columns, rows."""
        problem, tile = self.problem, self.tile
        row = Axis("rows", problem.rows, Role.ROWS)
        rows = Split("rows", row, tile.rows, Tail.WHOLE_AND_REST, variable="tile")
        block = max(min(ROW_TILES, problem.rows // tile.rows // BLOCKS), 1)
        blocks = Split("row_blocks", rows, block, Tail.APART, variable="row_block")
        groups = Split("group", sum_axis(problem), self.group, Tail.BOUNDED)
        columns = column_split(problem, self.columns, tile)
        one_group = groups.tiles == 1
        kept = block * tile.rows if one_group else problem.rows
        loops, vectors = batch_loops(problem), ("columns", self.columns.vectors)
        batch = batch_of(problem, loops, Holds.SUMS)
        room = (*((name, 1) for name in batch), ("rows", kept), vectors)
        sums = Sums("sums", room, (*batch, *(("row_blocks",) * one_group)))
        split = None if one_group else groups.name
        batch = batch_of(problem, loops, Holds.VECTORS)
        room = (*((name, 1) for name in batch), vectors, ("k", self.group))
        halo = GroupHalos(problem, (self.halo,), room, batch, split, self.group)
        part = GroupPart(self, sums, one_group)

        def each_row(leaf: Leaf) -> ForEach:
            return ForEach(rows, (Compute(leaf),), within=blocks)

        products = ForEach(columns, (each_row(GroupProducts(part)),))
        check = (each_row(GroupCheck(part)),) if self.recomputed and not one_group else ()
        outputs = (*check, Fill(sums), each_row(GroupResults(part)))
        if one_group:
            body: tuple[Statement, ...] = (Fill(halo), ForEach(blocks, (products, *outputs)))
        else:
            body = (
                ForEach(blocks, (each_row(GroupClear(part)),)),
                ForEach(groups, (Fill(halo), ForEach(blocks, (products,)))),
                ForEach(blocks, outputs),
            )
        return BatchNest(
            problem, (sums, halo), body, self.reason, once=(Clear(halo),), parallel=(blocks,)
        ).nest(loops)


def wants_groups(tiling: Tiling) -> bool:
    """Whether a halo buffer of such a tile is better filled by groups of k, as results scatter; or
    has to be, as one for all of k would grow with a size known only at run time."""
    needed = tiling.scattered > 0 or tiling.problem.sum_grows
    return needed and tiling.unrolled > 0 and len(tiling.columns) == 1


@record
class GroupPart:
    """What the leaves have in common: where the sums of a tile lie."""

    plan: SplitKPlan
    sums: Sums
    one_group: bool

    @property
    def width(self) -> int:
        return self.plan.columns.vectors * self.plan.lanes

    def kept(self, rows: Span) -> Expr:
        """The row of scratch that holds a tile's first row: of all rows, or of those of a block."""
        if not self.one_group:
            return rows.first
        assert rows.inside is not None
        return rows.inside * self.plan.tile.rows


@record
class GroupClear:
    """The leaf that sets the sums of a tile of rows to zero."""

    part: GroupPart

    @property
    def text(self) -> str:
        return "clear sums"

    @property
    def effect(self) -> Effect:
        return Effect(covers=("columns",), clears="sums", tails=OF_NUMBERS | {Tail.APART})

    def write(self, emit: Emitter, place: NestPlace) -> None:
        rows, part = place["rows"], self.part
        emit.clear(
            place.memory["sums"],
            rows.size * part.plan.columns.vectors,
            lambda at: rows.first * part.width + at * emit.lanes,
            emit.first_addend() if emit.problem.has_sizes else None,
        )


@record
class GroupProducts:
    """The leaf that adds the products of a group to the sums of a tile; of the only group those of
    all of k."""

    part: GroupPart

    @property
    def text(self) -> str:
        tile = self.part.plan.tile
        return f"register tile {tile.rows}x{tile.vectors}x{self.part.plan.lanes}"

    @property
    def effect(self) -> Effect:
        covers = ("k",) if self.part.one_group else ()
        return Effect(
            covers=covers, reads=("halo",), adds="sums", starts=self.part.one_group,
            tails=OF_NUMBERS | {Tail.APART, Tail.BOUNDED},
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        rows, vectors, part, plan = place["rows"], place["columns"], self.part, self.part.plan
        group: FilledGroup = place.filled["halo"]
        (halo,) = group.halos
        reader = VectorHalo(emit, halo, plan.columns, plan.tile.rows == 1, group.loaded)
        registers = RegisterTile(emit, BroadcastInPlace(emit), reader)
        at = OutputTile(
            plan.problem.batch, rows.first, rows.size, plan.columns, vectors.first, vectors.size
        )
        lane, sums = emit.tile_lane(), place.memory["sums"]
        loops = registers.k_loops(at, lane, of(0), plan.unrolled)
        positions = [
            (part.kept(rows) + r) * part.width + (at.vector + v) * emit.lanes + lane
            for r in range(at.rows) for v in range(at.vectors)
        ]  # fmt: skip
        if group.bounds is None:
            totals = loops.total()
            if plan.recomputed:
                totals = emit.guarded.tile(at, totals)
        else:
            block = emit.builder.block
            start = [emit.evaluator.load(sums, p, (), block) for p in positions]
            totals = loops.added_to(start, *group.bounds)
        for position, total in zip(positions, totals, strict=True):
            emit.evaluator.store(sums, position, total)


@record
class GroupCheck:
    """The leaf that recomputes sums that are not finite, products skipped where guarded."""

    part: GroupPart

    @property
    def text(self) -> str:
        return "sums with NaN again"

    @property
    def effect(self) -> Effect:
        tails = OF_NUMBERS | {Tail.APART}
        return Effect(covers=("columns", "k"), checks="sums", tails=tails)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        rows, plan, sums = place["rows"], self.part.plan, place.memory["sums"]

        def one(r: Expr, vector: Expr) -> None:
            at = OutputTile(emit.problem.batch, rows.first + r, 1, plan.columns, vector, 1)
            position = at.row * self.part.width + vector * emit.lanes + emit.tile_lane()
            total = emit.evaluator.load(sums, position, (), emit.builder.block)
            (total,) = emit.guarded.tile(at, [total])
            emit.evaluator.store(sums, position, total)

        vectors = plan.columns.vectors
        emit.copier.loop(
            rows.size, "r", lambda r: emit.copier.loop(vectors, "v", lambda v: one(r, v))
        )


@record
class GroupResults:
    """The leaf of the body's outputs of a tile of rows, by vectors along the op's own order of
    n."""

    part: GroupPart

    @property
    def text(self) -> str:
        return "results of sums, in the order of memory"

    @property
    def effect(self) -> Effect:
        tails = OF_NUMBERS | {Tail.APART}
        return Effect(covers=("columns",), takes="sums", stores=True, tails=tails)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        rows, kept = place["rows"], self.part.kept(place["rows"])
        lanes, shape, filled_in = emit.lanes, emit.view.n, place.filled["sums"]

        def vector(row: Expr, kept: Expr, first: Expr, count: int) -> None:
            lane = emit.copier.lane()
            n = unflatten(first + lane, shape)
            guards = ((lane, 0, count),) if count < lanes else ()
            at = kept * self.part.width + self.part.plan.columns.position(n)
            total = emit.evaluator.load(place.memory["sums"], at, guards, filled_in)
            index = emit.view.out(emit.problem.batch, emit.problem.m(row), n)
            emit.finish(index, guards, emit.builder.splat(total, lanes))

        def vectors(row: Expr, kept: Expr, first: Expr, count: int) -> None:
            for start in range(0, count, lanes):
                vector(row, kept, first + start, min(lanes, count - start))

        # So many at a time that coordinates differ from those of the first by constants, of all but
        # the first axes where that were too many to write out.
        step = lanes
        for extent in reversed(shape[1:]):
            if step * extent > WRITTEN_OUT * lanes:
                break
            step *= extent

        def one(row: Expr, kept: Expr) -> None:
            emit.copier.tiles(
                math.prod(shape), step, "out",
                lambda block, count: vectors(row, kept, block * step, count),
            )  # fmt: skip

        emit.copier.loop(rows.size, "r", lambda r: one(rows.first + r, kept + r))
