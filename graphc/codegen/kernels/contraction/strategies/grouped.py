"""Strategy: products of few bits by instructions for groups of them: pairs of bf16, quads of bytes.

Both operands are copied as groups along k (`k_groups.py`): all rows ahead, the columns of a tile
for each tile. Where sums could be denormal, which the instruction for pairs flushes to zero, FMAs
add up the same sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from graphc.codegen.elements.leaf_loops import fold
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.kernels.contraction.cost.costs import COPIED, TRANSPOSED, note
from graphc.codegen.kernels.contraction.cost.tiles import Columns, OutputTile, Tile
from graphc.codegen.kernels.contraction.cost.tilings import Tiling, tilings
from graphc.codegen.kernels.contraction.emission.axes import (
    BatchNest,
    batch_loops,
    batch_of,
    column_split,
)
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.k_groups import (
    K_GROUPS,
    ColumnsInPlace,
    CopiedColumns,
    FilledGroups,
    GroupColumns,
    GroupRows,
    GroupWay,
    KGroup,
)
from graphc.codegen.kernels.contraction.operands.least_magnitude import is_normal
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.kernels.contraction.strategies.register_tile import store_present, store_results
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
from graphc.codegen.target import Target
from graphc.ir.dims import at_least
from graphc.ops.kinds.index_expr import FINEST, Expr, Variable, of
from graphc.records import record

LANES = (4, 8, 16)
"""Those of the instructions' registers."""
NOTED = 1.0
"""Cost of noting the least magnitude of a vector of pairs."""


@record
class GroupedPlan:
    """A register tile of groups. `run`: so many indices of k lie side by side in a row, 0 where
    rows do; `columns_along_k`: those of a column. `packed`: columns are read where they lie, as
    groups."""

    problem: ContractionProblem
    group: KGroup
    way: GroupWay
    lanes: int
    columns: Columns
    tile: Tile
    run: int
    columns_along_k: bool
    packed: bool
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.BATCH | Coordinates.ROWS)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[GroupedPlan]:
        """Products that a group is for, all but whose rows are numbers."""
        group, view = next((each for each in K_GROUPS if each.takes(problem)), None), problem.view
        if group is None or problem.depth == 0:
            return
        if not len(view.k) == 1 == len(view.n):
            return
        possible = [way.share for way in group.ways if way.is_there(target, True)]
        for tiling in tilings(problem, target, limit / min(possible)) if possible else ():
            if tiling.lanes not in LANES:
                continue
            run = run_of_row(problem, group.size * tiling.lanes)
            packed = group.is_packed(problem, tiling.columns[0])
            if run or not problem.has_sizes:
                for way in group.ways:
                    if way.is_there(target, packed):
                        yield _plan(tiling, group, way, run, packed)

    def nest(self) -> Nest:
        problem, loops = self.problem, batch_loops(self.problem)
        columns = column_split(problem, self.columns, self.tile)
        axis = Axis("rows", problem.rows, Role.ROWS)
        rows = Split("rows", axis, self.tile.rows, Tail.CLAMPED, variable="tile_row")
        each = batch_of(problem, loops, Holds.BROADCAST)
        broadcast = GroupRows(self.group, problem, self.run, self.lanes, each)
        vectors = GroupColumns(
            self.group, problem, self.columns, self.tile.vectors * self.lanes,
            self.columns_along_k, self.packed, self.way.checked,
            batch_of(problem, loops, Holds.VECTORS),
        )  # fmt: skip
        tile = ForEach(rows, (Compute(GroupTile(self, broadcast)),))
        parallel = columns if columns.tiles != 1 else rows
        return BatchNest(
            problem, (broadcast, vectors),
            (Fill(broadcast), ForEach(columns, (Fill(vectors), tile))), self.reason,
            parallel=(parallel,) if parallel.tiles != 1 else (),
        ).nest(loops)  # fmt: skip


def _plan(tiling: Tiling, group: KGroup, way: GroupWay, run: int, packed: bool) -> GroupedPlan:
    problem, columns, tile = tiling.problem, tiling.columns[0], tiling.tile
    rows = problem.typical(problem.rows)
    along_k = column_along_k(problem)
    each = TRANSPOSED if along_k else COPIED
    if packed:
        each = NOTED if way.checked and not group.is_noted(problem, columns) else 0.0
    vectors = columns.vectors * each + -(-rows // tiling.lanes) * COPIED
    copies = problem.typical(problem.batch_count) * group.count(problem) * vectors
    products = tiling.products * way.share
    return GroupedPlan(
        problem, group, way, tiling.lanes, columns, tile, run, along_k, packed,
        products + copies + tiling.scattered,
        note(
            problem, f"{group.name}s", f"tile {tile.rows}x{tile.vectors}x{tiling.lanes}, "
            f"{way.text}, vector operand {'in place' if packed else 'packed'}", products=products,
            copies=copies, scattered=tiling.scattered,
        ),
    )  # fmt: skip


def run_of_row(problem: ContractionProblem, block: int) -> int:
    """How many elements of a row that begin at a multiple of it lie side by side: `block` where all
    do. A window's are the channels of one tap behind those of another. 0 where it is none that is
    told: of fewer than FINEST nobody knows where they end."""
    view, (k,) = problem.view, k_variables(problem.view)
    row = problem.m(of(Variable("probe_row", at_least(problem.rows, 2))))
    if view.runs_along(view.broadcast(problem.batch, row, (of(k),)), k):
        return block
    run = max(block, FINEST)
    while run >= FINEST:
        place = Variable("probe_place", run)
        at = of(Variable("probe_run", max(problem.depth // run, 1))) * run + of(place)
        case = view.broadcast(problem.batch, row, (at,))
        if problem.depth % run == 0 and view.runs_along(case, place):
            return run
        run //= 2
    return 0


def column_along_k(problem: ContractionProblem) -> bool:
    """Whether the elements of a column lie side by side."""
    view, (k,) = problem.view, k_variables(problem.view)
    column = of(Variable("probe_column", at_least(math.prod(view.n), 2)))
    return view.stride(view.vector(problem.batch, (column,), (of(k),)), k) == 1


@record
class GroupTile:
    """The leaf of a tile's sums, and its results."""

    plan: GroupedPlan
    rows: GroupRows

    @property
    def text(self) -> str:
        plan, tile = self.plan, self.plan.tile
        return f"register tile of {plan.group.name}s {tile.rows}x{tile.vectors}x{plan.lanes}"

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

        if not self.plan.way.checked:
            results(normal=False)
            return
        with b.if_(b.op("not", is_normal(emit, x.field, y.field)), cold=True) as branch:
            with branch.then():
                results(normal=False)
            with branch.otherwise():
                results(normal=True)

    def _totals(
        self, emit: Emitter, at: OutputTile, lane: Expr, x: FilledGroups,
        y: CopiedColumns | ColumnsInPlace, normal: bool,
    ) -> list[LoopValue]:  # fmt: skip
        """The sums of all K blocks, each from what sums begin at: not zero for a single one."""
        b, group, starts = emit.builder, self.plan.group, y.starts * at.rows
        count = group.count(emit.problem)
        of_block, attribute = group.of_block or count, normal if group.flushes else None

        def added(k: Expr, sums: list[LoopValue]) -> list[LoopValue]:
            columns = [y.vector(emit, k, at.vector, v, lane) for v in range(at.vectors)]
            totals = []
            for r in range(at.rows):
                factors = x.load(emit, self.rows.position(at.row_number(r), k))
                wide = b.splat(factors, emit.lanes)
                for v, column in enumerate(columns):
                    total = sums[r * at.vectors + v]
                    totals.append(b.op(group.opcode, total, wide, column, attribute=attribute))
            return totals

        def block(begin: Expr, count: int) -> list[LoopValue]:
            variable = Variable(f"{group.name}{count}", count)
            return fold(
                emit.addresses, variable, (0, count), group.name, starts,
                lambda k, sums: added(begin + k, sums),
            )  # fmt: skip

        def add_block(tile: Expr, size: int, totals: Sequence[LoopValue]) -> list[LoopValue]:
            return list(map(b.add, totals, block(tile * of_block, size)))

        if count <= of_block:
            return block(of(0), count)
        return LoopCut(count, of_block).fold(
            emit.addresses, f"{group.name}_block", starts, add_block, hint="k_block"
        )
