"""Strategy: products of bytes by the processor's instructions for two or four of them.

Both operands are copied as quads along k: all rows ahead, the columns of a tile for each tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Nest,
    NestPlace,
    Role,
    Split,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.recipes.contraction.axes import BatchNest, batch_loops, batch_of, column_split
from graphc.codegen.recipes.contraction.costs import COPIED, TRANSPOSED, note
from graphc.codegen.recipes.contraction.emitter import Emitter
from graphc.codegen.recipes.contraction.paired import LANES, along_k
from graphc.codegen.recipes.contraction.problem import ContractionProblem
from graphc.codegen.recipes.contraction.quads import (
    CopiedQuads,
    FilledQuads,
    PackedQuads,
    QuadColumns,
    QuadRows,
    QuadsInPlace,
    is_packed,
    quad_count,
)
from graphc.codegen.recipes.contraction.register_tile import store_present, store_results
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile, Tile
from graphc.codegen.recipes.contraction.tilings import Tiling, tilings
from graphc.codegen.target import Target
from graphc.ir.dims import is_symbolic
from graphc.ops.contract import int_matmul
from graphc.ops.kinds.index_expr import Expr, Variable, of

FOURS, TWOS = 0.1, 0.4
"""Of the time of a product of i32, which takes two and a half FMAs', what one takes by `vpdpbusd`
and by `vpmaddwd`."""


@dataclass(frozen=True, slots=True)
class QuadPlan:
    """A register tile of quads. `rows_along_k`, `columns_along_k`: whether indices of k lie side by
    side in the operands. `packed`: columns are read where they lie, as quads."""

    problem: ContractionProblem
    lanes: int
    columns: Columns
    tile: Tile
    rows_along_k: bool
    columns_along_k: bool
    packed: bool
    cost: float
    reason: str

    @staticmethod
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[QuadPlan]:
        """Products of bytes, all but whose rows are numbers, where the processor has instructions
        for several of them."""
        view = problem.view
        if view.op is not int_matmul or not target.triple.startswith("x86"):
            return
        if is_symbolic((*view.n, *view.k)) or problem.depth == 0:
            return
        share = FOURS if target.quad_products else TWOS
        for tiling in tilings(problem, target, limit / share):
            sides = along_k(problem)
            if tiling.lanes in LANES and (sides[0] or not problem.has_sizes):
                yield _plan(tiling, sides, share)

    def nest(self) -> Nest:
        problem, loops = self.problem, batch_loops(self.problem)
        columns = column_split(problem, self.columns, self.tile)
        axis = Axis("rows", problem.rows, Role.ROWS)
        rows = Split("rows", axis, self.tile.rows, Tail.CLAMPED, variable="tile_row")
        each = batch_of(problem, loops, Holds.BROADCAST)
        broadcast = QuadRows(problem, self.rows_along_k, self.lanes, each)
        width = self.tile.vectors * self.lanes
        each = batch_of(problem, loops, Holds.VECTORS)
        vectors: QuadColumns | QuadsInPlace
        if self.packed:
            vectors = QuadsInPlace(problem, self.columns, width, each)
        else:
            vectors = QuadColumns(problem, self.columns, width, self.columns_along_k, each)
        tile = ForEach(rows, (Compute(QuadTile(self, broadcast)),))
        parallel = columns if columns.tiles != 1 else rows
        return BatchNest(
            problem, (broadcast, vectors),
            (Fill(broadcast), ForEach(columns, (Fill(vectors), tile))), self.reason,
            parallel=(parallel,) if parallel.tiles != 1 else (),
        ).nest(loops)  # fmt: skip


def _plan(tiling: Tiling, sides: tuple[bool, bool], share: float) -> QuadPlan:
    problem, columns, tile = tiling.problem, tiling.columns[0], tiling.tile
    quads, rows = quad_count(problem), problem.typical(problem.rows)
    packed = is_packed(problem, columns)
    each = 0.0 if packed else TRANSPOSED if sides[1] else COPIED
    vectors = columns.vectors * each + -(-rows // tiling.lanes) * COPIED
    copies = problem.typical(problem.batch_count) * quads * vectors
    products = tiling.products * share
    how = "four" if share == FOURS else "two"
    return QuadPlan(
        problem, tiling.lanes, columns, tile, *sides, packed,
        products + copies + tiling.scattered,
        note(
            problem, "quads", f"tile {tile.rows}x{tile.vectors}x{tiling.lanes}, {how} products at "
            f"a time, vector operand {'in place' if packed else 'packed'}", products=products,
            copies=copies, scattered=tiling.scattered,
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuadTile:
    """The leaf of a tile's sums, and its results."""

    plan: QuadPlan
    rows: QuadRows

    @property
    def text(self) -> str:
        tile = self.plan.tile
        return f"register tile of quads {tile.rows}x{tile.vectors}x{self.plan.lanes}"

    @property
    def effect(self) -> Effect:
        return Effect(
            covers=("k",), reads=("broadcast", "vectors"), stores=True,
            tails=OF_NUMBERS | {Tail.CLAMPED},
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        rows, columns = place["rows"], place["columns"]
        at = OutputTile(
            emit.problem.batch, rows.first, rows.size, self.plan.columns, columns.first,
            columns.size,
        )  # fmt: skip
        x, y = (place.filled[name] for name in ("broadcast", "vectors"))
        lane = emit.tile_lane()
        if rows.rest is None:
            store_results(emit, at, lane, self._totals(emit, at, lane, x, y))
        else:
            store_present(emit, at, lane, lambda at: self._totals(emit, at, lane, x, y))

    def _totals(
        self, emit: Emitter, at: OutputTile, lane: Expr, x: FilledQuads,
        y: CopiedQuads | PackedQuads,
    ) -> list[LoopValue]:  # fmt: skip
        b, count = emit.builder, quad_count(emit.problem)
        with b.loop(0, count, carried=y.starts * at.rows, hint="quad") as loop:
            variable = Variable(f"quad{count}", count)
            emit.addresses.bind(variable, loop.variable, b.block)
            k = of(variable)
            columns = [y.vector(emit, k, at.vector, v, lane) for v in range(at.vectors)]
            totals = []
            for r in range(at.rows):
                quad = x.load(emit, self.rows.position(at.row_number(r), k))
                wide = b.splat(quad, emit.lanes)
                for v, column in enumerate(columns):
                    total = loop.carried[r * at.vectors + v]
                    totals.append(b.op("dot_quads", total, wide, column))
            loop.yield_(*totals)
        return list(loop.results)
