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
from dataclasses import dataclass
from functools import partial

from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.contraction.broadcast_operand import BroadcastOperand, KRun
from graphc.codegen.recipes.contraction.emitter import Emitter
from graphc.codegen.recipes.contraction.k_blocks import Accumulate, KLoops
from graphc.codegen.recipes.contraction.tile_results import store_tile
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile, Place, Tile
from graphc.codegen.recipes.contraction.vector_operand import ForBatchElement, VectorOperand
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index

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
        m = [emit.problem.m(at.row + r) for r in range(at.rows)]
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
    store_tile(emit.builder, emit.integers, shape, place, lane, sums, emit.finish)


@dataclass(frozen=True, slots=True)
class TileNest:
    """All tiles of one batch element: tiles of columns outside, tiles of rows, k inside.
    `recomputed`: zeros stand for skipped products, so tiles with NaN are computed again."""

    emit: Emitter
    columns: tuple[Columns, ...]
    tile: Tile
    unrolled: int
    recomputed: bool
    broadcast: BroadcastOperand
    vectors: ForBatchElement
    store: StoreTile

    def write(self, split: bool) -> int:
        """What is split are tiles of columns, or, where there is one, of rows."""
        runs = [columns.tiles(self.tile) for columns in self.columns]
        count = sum(run.count for each in runs for run in each)
        row_tiles = -(-self.emit.problem.rows // self.tile.rows)
        by_rows = split and count == 1 < row_tiles
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
        whole, rest = divmod(emit.problem.rows, height)

        def tile(number: Expr, rows: int) -> OutputTile:
            return OutputTile(emit.problem.batch, number * height, rows, columns, first, vectors)

        reader = self.vectors.for_columns(tile(of(0), height))
        registers = RegisterTile(emit, self.broadcast, reader)
        if whole and by_rows:
            with emit.builder.loop(*emit.range_of(0, whole, True), hint="tile") as loop:
                number = Variable("row_tile", whole)
                emit.integers.bind(number, loop.variable, emit.builder.block)
                self._tile(registers, tile(of(number), height), of(number))
        elif whole:
            emit.copier.loop(whole, "tile", lambda i: self._tile(registers, tile(i, height), i))
        if rest:
            last = of(whole)
            emit.last(
                whole if by_rows else None, lambda: self._tile(registers, tile(last, rest), last)
            )

    def _tile(self, registers: RegisterTile, at: OutputTile, number: Expr) -> None:
        lane = self.emit.tile_lane()
        totals = registers.k_loops(at, lane, number, self.unrolled).total()
        if self.recomputed:
            totals = self.emit.guarded.tile(at, totals)
        self.store(at, lane, totals)
