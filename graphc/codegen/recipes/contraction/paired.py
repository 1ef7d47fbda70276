"""Strategy: products of bf16 by the processor's instruction for pairs, two FMAs in one.

Both operands are copied as pairs along k: all rows ahead, the columns of a tile for each tile.
Where sums could be denormal, which the instruction flushes to zero, FMAs add up the same sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphc.codegen.evaluate.loop_cut import LoopCut
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
from graphc.codegen.recipes.contraction.k_blocks import K_BLOCK
from graphc.codegen.recipes.contraction.pairs import (
    ColumnsInPlace,
    CopiedColumns,
    FilledPairs,
    PackedPairs,
    PairedColumns,
    PairedRows,
    is_normal,
    is_noted,
    is_packed,
    pair_count,
)
from graphc.codegen.recipes.contraction.problem import ContractionProblem, k_variables
from graphc.codegen.recipes.contraction.register_tile import store_present, store_results
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile, Tile
from graphc.codegen.recipes.contraction.tilings import Tiling, tilings
from graphc.codegen.recipes.typical import at_least
from graphc.codegen.target import Target
from graphc.ir.dims import is_symbolic
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, of

LANES = (4, 8, 16)
"""Those of the instruction's registers."""
SHARE, APART = 0.5, 1.1
"""Of an FMA's time, what one of a pair's products takes: by the instruction, and by FMAs."""
NOTED = 1.0
"""Cost of noting the least magnitude of a vector of pairs."""


@dataclass(frozen=True, slots=True)
class PairedPlan:
    """A register tile of pairs. `rows_along_k`, `columns_along_k`: whether indices of k lie side by
    side in the operands. `packed`: columns are read where they lie, as pairs. `checked`: the
    instruction adds them where no sum is denormal; else FMAs do."""

    problem: ContractionProblem
    lanes: int
    columns: Columns
    tile: Tile
    rows_along_k: bool
    columns_along_k: bool
    packed: bool
    checked: bool
    cost: float
    reason: str

    @staticmethod
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[PairedPlan]:
        """Products of bf16, all but whose rows are numbers, where the processor has the
        instruction, or columns lie as pairs."""
        view = problem.view
        if view.types[0].dtype is not DType.bf16:
            return
        if is_symbolic((*view.n, *view.k)) or problem.depth == 0:
            return
        if not len(view.k) == 1 == len(view.n):
            return
        for tiling in tilings(problem, target, limit / SHARE):
            packed = is_packed(problem, tiling.columns[0])
            sides = along_k(problem)
            if tiling.lanes not in LANES or (problem.has_sizes and not sides[0]):
                continue
            if packed:
                yield _plan(tiling, sides, packed=True, checked=False)
            if target.paired_products:
                yield _plan(tiling, sides, packed, checked=True)

    def nest(self) -> Nest:
        problem, loops = self.problem, batch_loops(self.problem)
        columns = column_split(problem, self.columns, self.tile)
        axis = Axis("rows", problem.rows, Role.ROWS)
        rows = Split("rows", axis, self.tile.rows, Tail.CLAMPED, variable="tile_row")
        each = batch_of(problem, loops, Holds.BROADCAST)
        broadcast = PairedRows(problem, self.rows_along_k, self.lanes, each)
        width = self.tile.vectors * self.lanes
        each = batch_of(problem, loops, Holds.VECTORS)
        vectors: PairedColumns | ColumnsInPlace
        if self.packed:
            vectors = ColumnsInPlace(problem, self.columns, width, self.checked, each)
        else:
            vectors = PairedColumns(problem, self.columns, width, self.columns_along_k, each)
        tile = ForEach(rows, (Compute(PairedTile(self, broadcast)),))
        parallel = columns if columns.tiles != 1 else rows
        return BatchNest(
            problem, (broadcast, vectors),
            (Fill(broadcast), ForEach(columns, (Fill(vectors), tile))), self.reason,
            parallel=(parallel,) if parallel.tiles != 1 else (),
        ).nest(loops)  # fmt: skip


def _plan(tiling: Tiling, sides: tuple[bool, bool], packed: bool, checked: bool) -> PairedPlan:
    problem, columns, tile = tiling.problem, tiling.columns[0], tiling.tile
    pairs, rows = pair_count(problem), problem.typical(problem.rows)
    each = TRANSPOSED if sides[1] else COPIED
    if packed:
        each = NOTED if checked and not is_noted(problem, columns) else 0.0
    vectors = columns.vectors * each + -(-rows // tiling.lanes) * COPIED
    copies = problem.typical(problem.batch_count) * pairs * vectors
    products = tiling.products * (SHARE if checked else APART)
    how = "by the instruction" if checked else "by FMAs"
    return PairedPlan(
        problem, tiling.lanes, columns, tile, *sides, packed, checked,
        products + copies + tiling.scattered,
        note(
            problem, "paired", f"tile {tile.rows}x{tile.vectors}x{tiling.lanes}, pairs of bf16 "
            f"{how}, vector operand {'in place' if packed else 'packed'}", products=products,
            copies=copies, scattered=tiling.scattered,
        ),
    )  # fmt: skip


def along_k(problem: ContractionProblem) -> tuple[bool, bool]:
    """Whether the elements of a row, and those of a column, lie side by side."""
    view, (k,) = problem.view, k_variables(problem.view)
    other = of(Variable("probe_other", at_least(problem.rows + math.prod(view.n), 2)))
    cases = (
        view.broadcast(problem.batch, problem.m(other), (of(k),)),
        view.vector(problem.batch, (other,), (of(k),)),
    )
    rows, columns = (view.stride(case, k) == 1 for case in cases)
    return rows, columns


@dataclass(frozen=True, slots=True)
class PairedTile:
    """The leaf of a tile's sums, and its results."""

    plan: PairedPlan
    rows: PairedRows

    @property
    def text(self) -> str:
        tile = self.plan.tile
        return f"register tile of pairs {tile.rows}x{tile.vectors}x{self.plan.lanes}"

    @property
    def effect(self) -> Effect:
        return Effect(
            covers=("k",), reads=("broadcast", "vectors"), stores=True,
            tails=OF_NUMBERS | {Tail.CLAMPED},
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        b, rows, columns = emit.builder, place["rows"], place["columns"]
        at = OutputTile(
            emit.problem.batch, rows.first, rows.size, self.plan.columns, columns.first,
            columns.size,
        )  # fmt: skip
        x, y = (place.filled[name] for name in ("broadcast", "vectors"))
        lane = emit.tile_lane()

        def results(normal: bool) -> None:
            if rows.rest is None:
                store_results(emit, at, lane, self._totals(emit, at, lane, x, y, normal))
            else:
                store_present(emit, at, lane, lambda at: self._totals(emit, at, lane, x, y, normal))

        if y.field is None or not self.plan.checked:
            results(normal=False)
            return
        with b.if_(b.op("not", is_normal(emit, x.field, y.field)), cold=True) as branch:
            with branch.then():
                results(normal=False)
            with branch.otherwise():
                results(normal=True)

    def _totals(
        self, emit: Emitter, at: OutputTile, lane: Expr, x: FilledPairs,
        y: CopiedColumns | PackedPairs, normal: bool,
    ) -> list[LoopValue]:  # fmt: skip
        """The sums of all K blocks."""
        b, zeros = emit.builder, emit.zeros(at.rows * at.vectors)
        pairs, of_block = pair_count(emit.problem), K_BLOCK // 2

        def added(k: Expr, sums: list[LoopValue]) -> list[LoopValue]:
            columns = [y.vector(emit, k, at.vector, v, lane) for v in range(at.vectors)]
            totals = []
            for r in range(at.rows):
                pair = x.load(emit, self.rows.position(at.row_number(r), k))
                wide = b.splat(pair, emit.lanes)
                for v, column in enumerate(columns):
                    total = sums[r * at.vectors + v]
                    totals.append(b.op("dot_pairs", total, wide, column, attribute=normal))
            return totals

        def block(begin: Expr, count: int) -> list[LoopValue]:
            with b.loop(0, count, carried=zeros, hint="pair") as loop:
                variable = Variable(f"pair{count}", count)
                emit.addresses.bind(variable, loop.variable, b.block)
                loop.yield_(*added(begin + of(variable), list(loop.carried)))
            return list(loop.results)

        def add_block(tile: Expr, size: int, totals: Sequence[LoopValue]) -> list[LoopValue]:
            return list(map(b.add, totals, block(tile * of_block, size)))

        if pairs <= of_block:
            return block(of(0), pairs)
        return LoopCut(pairs, of_block).fold(
            emit.addresses, "pair_block", zeros, add_block, hint="k_block"
        )
