"""The register tile: the products of some rows with some vectors of columns.

A tile of rows (m) and vectors of columns (n) stays in registers over all of k, or a K block of it:
one FMA chain per result. Per column the tile reads vectors of one operand, per row it broadcasts
elements of the other. What the body computes from the results is computed from the registers.

Where a window hangs over the edge its copy holds zeros. A zero is only right if what it is
multiplied with is finite: a tile with NaN among its results is computed again, product by product.

In: readers of both operands. Out: what adds products to sums, and `TileNest`, the loops over all
tiles of a batch element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from graphc.codegen.evaluate.loop_cut import LoopCut
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.contraction.broadcast_operand import (
    BroadcastOperand,
    BroadcastPacking,
    KRun,
)
from graphc.codegen.recipes.contraction.emitter import Emitter
from graphc.codegen.recipes.contraction.k_blocks import Accumulate, KLoops
from graphc.codegen.recipes.contraction.tile_results import store_tile
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile, Place, Tile
from graphc.codegen.recipes.contraction.vector_operand import ForBatchElement, VectorOperand
from graphc.ir.dims import Extent, always_le, fixed
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index

RECOMPUTED = 50
"""Rows from which one may be computed twice, so that the last tile is as high as the others."""
StoreTile = Callable[[OutputTile, Expr, list[LoopValue]], None]
"""Keeps the results of a tile, by vectors of these lanes."""


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Reads both operands, and adds their products to the sums of a tile."""

    emit: Emitter
    broadcast: BroadcastOperand
    vectors: VectorOperand

    def products(
        self, at: OutputTile, lane: Expr, tile: Expr, run: KRun | None = None, start: int | Expr = 0
    ) -> Accumulate:
        """What adds the products at one k to the sums of a tile, row by row. `tile` is its number
        in the copy of the broadcast operand, of which k lies in `run`; in the panel of the other
        one index k is row `start` + k."""
        emit = self.emit
        places = at.places(lane)
        m = [emit.problem.m(at.row_number(r)) for r in range(at.rows)]
        first = of(start) if isinstance(start, int) else start

        def body(k: Index, sums: list[LoopValue]) -> list[LoopValue]:
            columns = [
                self.vectors.vector(at.batch, n, guards, k, lane + v * emit.lanes, first)
                for v, (n, guards) in enumerate(places)
            ]
            totals = list(sums)
            for r in range(at.rows) if any(vector is not None for vector in columns) else ():
                wide = self.broadcast.element(at.batch, m[r], k, tile, r, run)
                for v, vector in enumerate(columns):
                    if vector is not None:
                        number = r * at.vectors + v
                        totals[number] = emit.multiply_add(wide, vector, sums[number])
            return totals

        return body

    def k_loops(self, at: OutputTile, lane: Expr, tile: Expr, unrolled: int) -> KLoops:
        """The loops over k of one tile."""
        emit = self.emit
        zeros = emit.zeros(at.rows * at.vectors)
        body = self.products(at, lane, tile)
        return KLoops(emit.builder, emit.evaluator, emit.view.k, unrolled, body, zeros)


def store_results(emit: Emitter, at: OutputTile, lane: Expr, totals: list[LoopValue]) -> None:
    """The body's outputs for a tile."""
    sums = [totals[r * at.vectors : (r + 1) * at.vectors] for r in range(at.rows)]

    def place(row: Expr, vector: int, lane: Expr) -> Place:
        n, guards = at.columns.place(at.vector + vector, lane)
        return emit.view.out(at.batch, emit.problem.m(at.row + row), n), guards

    shape = emit.view.node.types[0].shape
    store_tile(emit.builder, emit.addresses, shape, place, lane, sums, emit.finish)


def last_overlaps(emit: Emitter, tile: Tile, packing: BroadcastPacking | None = None) -> bool:
    """Whether the last tile of rows may begin where it is whole: a few rows are then computed
    twice, to the same bits, and the code of a lower tile, often half of a kernel, is not there.
    Not where results are stored that were computed from more than the operands: an output may lie
    in the memory of an input, which a row computed before has changed."""
    rows = emit.problem.rows
    if not isinstance(rows, int) or (packing is not None and packing.group != 1):
        return False
    cut = LoopCut(rows, tile.rows)
    return cut.whole != 0 and cut.rest != 0 and (tile.rows - cut.rest) * RECOMPUTED <= rows


@dataclass(frozen=True, slots=True)
class TileNest:
    """All tiles of one batch element: tiles of columns outside, tiles of rows, k inside.
    `recomputed`: zeros stand for skipped products, so tiles with NaN are computed again.
    `overlaps`: see `last_overlaps`; a copy of the broadcast operand has the last tile so too."""

    emit: Emitter
    columns: tuple[Columns, ...]
    tile: Tile
    unrolled: int
    recomputed: bool
    broadcast: BroadcastOperand
    vectors: ForBatchElement
    store: StoreTile
    overlaps: bool = False

    @property
    def _rows(self) -> LoopCut:
        return LoopCut(self.emit.problem.rows, self.tile.rows)

    def write(self, split: bool) -> Extent:
        """What is split are tiles of columns, or, where there is one, of rows."""
        runs = [columns.tiles(self.tile) for columns in self.columns]
        count = sum(run.count for each in runs for run in each)
        row_tiles = self._rows.tiles
        by_rows = split and count == 1 and not always_le(row_tiles, 1)
        split = split and count > 1
        done = 0
        for columns, each in zip(self.columns, runs, strict=True):
            for run in each:
                self.emit.run(run, done, split, partial(self._columns, columns, by_rows))
            done += sum(run.count for run in each)
        return row_tiles if by_rows else count

    def _columns(self, columns: Columns, by_rows: bool, first: Expr, vectors: int) -> None:
        """One tile of columns, all rows; or tiles begin…end of them."""
        emit, height = self.emit, self.tile.rows
        at = OutputTile(emit.problem.batch, of(0), height, columns, first, vectors)
        registers = RegisterTile(emit, self.broadcast, self.vectors.for_columns(at))

        def tile(number: Expr, rest: Extent | None) -> None:
            here = replace(at, row=number * height)
            if rest is None or isinstance(rest, int):
                self._tile(registers, replace(here, rows=rest or height), number)
            else:
                self._cut_tile(registers, here, number, rest)

        if self.overlaps and not by_rows:
            return self._overlapping(registers, at)
        part = (emit.builder.begin, emit.builder.end) if by_rows else None
        self._rows.each(emit.addresses, "tile_row", tile, part)

    def _overlapping(self, registers: RegisterTile, at: OutputTile) -> None:
        """All tiles of rows by the same code: the last one begins in the one before."""
        b, rows, height = self.emit.builder, self.emit.problem.rows, self.tile.rows
        tiles = fixed(self._rows.tiles)
        with b.loop(0, tiles, hint="tile") as loop:
            number = Variable("tile_row", tiles)
            self.emit.addresses.bind(number, loop.variable, b.block)
            n = self.emit.numbers
            first = n.minimum(n.mul(loop.variable, height), rows - height)
            row = Variable("tile_first", rows - height + 1)
            self.emit.addresses.bind(row, n.value(first), b.block)
            self._tile(registers, replace(at, row=of(row)), of(number))

    def _tile(self, registers: RegisterTile, at: OutputTile, number: Expr) -> None:
        lane = self.emit.tile_lane()
        totals = registers.k_loops(at, lane, number, self.unrolled).total()
        if self.recomputed:
            totals = self.emit.guarded.tile(at, totals)
        self.store(at, lane, totals)

    def _cut_tile(
        self, registers: RegisterTile, at: OutputTile, number: Expr, rest: Extent
    ) -> None:
        """A tile that has only `rest` rows, known at run time: the others are computed from the
        last one there is, and are not stored."""
        b, lane = self.emit.builder, self.emit.tile_lane()
        rows = self.emit.problem.rows
        first, last = b.size(at.row.constant), b.size(rows - 1)
        numbers = [b.add(first, b.const(DType.i64, r)) for r in range(at.rows)]
        clamped = [self._bound(b.minimum(number, last)) for number in numbers]
        inside = replace(at, clamped=tuple(clamped))
        totals = registers.k_loops(inside, lane, number, self.unrolled).total()
        for r, row in enumerate(numbers):
            with b.if_(b.compare("lt", row, b.size(rows))) as branch:
                with branch.then():
                    one = replace(at, row=self._bound(row), rows=1)
                    self.store(one, lane, totals[r * at.vectors : (r + 1) * at.vectors])
                with branch.otherwise():
                    pass

    def _bound(self, row: LoopValue) -> Expr:
        """A row's number, as known in the block at hand."""
        variable = Variable(f"row{row.name}", self.emit.problem.rows)
        self.emit.addresses.bind(variable, row, self.emit.builder.block)
        return of(variable)
