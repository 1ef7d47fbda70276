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

from collections.abc import Callable, Sequence

from graphc.codegen.kernels.contraction.cost.broadcast_packing import BroadcastPacking
from graphc.codegen.kernels.contraction.cost.costs import any_place
from graphc.codegen.kernels.contraction.cost.tiles import (
    Columns,
    OutputTile,
    Place,
    Tile,
    TileColumns,
)
from graphc.codegen.kernels.contraction.emission.axes import column_split
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.emission.tile_results import store_tile
from graphc.codegen.kernels.contraction.operands.broadcast_operand import (
    BroadcastOperand,
    KRun,
    broadcast_of,
)
from graphc.codegen.kernels.contraction.operands.vector_operand import (
    PanelPerTile,
    VectorInPlace,
    VectorOperand,
    VectorStage,
    column_names,
    vectors_of,
)
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK, Accumulate, KLoops
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Effect,
    Fill,
    ForEach,
    NestPlace,
    Role,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.ir.dims import common_divisor, known_number
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Quotient, Variable, of
from graphc.records import record, replace
from graphc.schedule.access import Index

RECOMPUTED = 50
"""Rows from which one may be computed twice, so that the last tile is as high as the others."""


@record
class RegisterTile:
    """Reads both operands, and adds their products to the sums of a tile. `normal`: elements are
    pairs, and whether none of their sums is denormal (None: they are numbers)."""

    emit: Emitter
    broadcast: BroadcastOperand
    vectors: VectorOperand
    normal: bool | None = None

    def products(
        self, at: OutputTile, lane: Expr, tile: Expr, run: KRun | None = None, start: int | Expr = 0
    ) -> Accumulate:
        """What adds the products at one k to the sums of a tile, row by row. `tile` is its number
        in the copy of the broadcast operand, of which k lies in `run`; in the panel of the other
        one index k is row `start` + k."""
        emit = self.emit
        places = at.places(lane)
        m = [emit.problem.m(at.row_number(r)) for r in range(at.rows)]
        first = of(start)

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
                        totals[number] = self._added(wide, vector, sums[number])
            return totals

        return body

    def _added(self, x: LoopValue, y: LoopValue, total: LoopValue) -> LoopValue:
        if self.normal is None:
            return self.emit.multiply_add(x, y, total)
        return self.emit.builder.op("dot_pairs", total, x, y, attribute=self.normal)

    def k_loops(self, at: OutputTile, lane: Expr, tile: Expr, unrolled: int) -> KLoops:
        """The loops over k of one tile."""
        emit = self.emit
        zeros = emit.zeros(at.rows * at.vectors)
        body = self.products(at, lane, tile)
        pairs, each = emit.problem.pairs, emit.view.products_each
        in_runs = isinstance(self.vectors, VectorInPlace) and not pairs and emit.view.chains == 1
        return KLoops(
            emit.builder, emit.evaluator, emit.view.k, unrolled, body, zeros, pairs, each,
            runs_of_vectors(emit.problem, at.columns) if in_runs else (),
            emit.view.chains,
        )  # fmt: skip


def store_results(emit: Emitter, at: OutputTile, lane: Expr, totals: list[LoopValue]) -> None:
    """The body's outputs for a tile."""
    sums = [totals[r * at.vectors : (r + 1) * at.vectors] for r in range(at.rows)]

    def place(row: Expr, vector: int | Expr, lane: Expr) -> Place:
        n, guards = at.columns.place(at.vector + vector, lane)
        return emit.view.out(at.batch, emit.problem.m(at.row + row), n), guards

    shape = emit.view.node.types[0].shape
    store_tile(
        emit.builder, emit.addresses, shape, place, lane, sums, emit.finish, emit.tile_memory
    )  # fmt: skip


def last_overlaps(
    problem: ContractionProblem, tile: Tile, packing: BroadcastPacking | None = None
) -> bool:
    """Whether the last tile of rows may begin where it is whole: a few rows are then computed
    twice, to the same bits, and the code of a lower tile, often half of a kernel, is not there.
    Not where results are stored that were computed from more than the operands: an output may lie
    in the memory of an input, which a row computed before has changed."""
    rows = problem.rows
    refused = Tail.SHIFTED.refusal(rows, tile.rows) is not None
    if refused or (packing is not None and packing.group != 1):
        return False
    rest = rows % tile.rows
    return rest != 0 and (tile.rows - rest) * RECOMPUTED <= rows


WRITTEN_OUT = 8
"""The longest run of k that is written out."""


def runs_of_vectors(problem: ContractionProblem, columns: TileColumns) -> tuple[int, ...]:
    """Runs of k for which an element of the vector operand is computed from the same value: of
    integers that share a byte, groups that share a scale. For `KLoops`."""
    view, lane = problem.view, Variable("probe_lane", max(columns.lanes, 2))
    if len(view.k) != 1:
        return ()
    (k,) = k_variables(view)
    case = view.vector(problem.batch, any_place(columns, lane), (of(k),))
    divisors = {
        known_number(atom.divisor)
        for _, linear in view.dequantized_from(case)
        for atom, _ in linear.terms
        if isinstance(atom, Quotient) and atom.dividend.variables() == {k}
    }
    step, runs = common_divisor(view.k[0], K_BLOCK), []
    for size in sorted((each for each in divisors if each is not None), reverse=True):
        if step % size == 0:
            runs.append(size)
            step = size
    return (*runs, 1) if runs and runs[-1] > WRITTEN_OUT else tuple(runs)


@record
class TileLeaf:
    """The leaf that adds all products of a tile's rows with its columns, and stores the results.
    `recomputed`: zeros stand for skipped products, so tiles with NaN are computed again. `results`:
    the sums, by name, that it keeps them in; None: it stores the body's outputs."""

    problem: ContractionProblem
    columns: Columns
    column_name: str
    tile: Tile
    unrolled: int
    recomputed: bool
    packed: bool
    """Whether a stage has the broadcast operand."""
    vectors: VectorStage | None
    overwrites: bool
    results: str | None = None

    @property
    def text(self) -> str:
        tile, lanes = self.tile, self.columns.lanes
        return f"register tile {tile.rows}x{tile.vectors}x{lanes}"

    @property
    def effect(self) -> Effect:
        copies = ["broadcast"] if self.packed else []
        copies += [self.vectors.name] if self.vectors is not None else []
        return Effect(
            covers=("k",), reads=tuple(copies), adds=self.results, starts=True,
            stores=self.results is None,
            tails=OF_NUMBERS | {Tail.CLAMPED, Tail.SHIFTED},
            overwrites=self.overwrites,
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        rows, vectors = place["rows"], place[self.column_name]
        at = OutputTile(
            self.problem.batch, rows.first, rows.size, self.columns, vectors.first, vectors.size
        )
        reader = vectors_of(emit, self.vectors, self.columns, place)
        registers = RegisterTile(emit, broadcast_of(emit, place), reader)
        lane = emit.tile_lane()

        def totals_of(at: OutputTile) -> list[LoopValue]:
            totals = registers.k_loops(at, lane, rows.number, self.unrolled).total()
            return emit.guarded.tile(at, totals) if self.recomputed else totals

        if rows.rest is not None:
            store_present(emit, at, lane, totals_of)
            return
        totals = totals_of(at)
        if self.results is None:
            store_results(emit, at, lane, totals)
        else:
            place.memory[self.results].keep(emit, at, lane, totals)


def store_present(
    emit: Emitter, at: OutputTile, lane: Expr, totals_of: Callable[[OutputTile], list[LoopValue]]
) -> None:
    """A tile of which only the rows that there are, as is known at run time, are stored: the
    others are computed from the last one."""
    b, rows = emit.builder, emit.problem.rows
    first, last = b.size(at.row.constant), b.size(rows - 1)
    numbers = [b.add(first, b.const(DType.i64, r)) for r in range(at.rows)]
    clamped = [_bound(emit, b.minimum(number, last)) for number in numbers]
    totals = totals_of(replace(at, clamped=tuple(clamped)))
    for r, row in enumerate(numbers):
        with b.if_(b.compare("lt", row, b.size(rows))) as branch:
            with branch.then():
                one = replace(at, row=_bound(emit, row), rows=1)
                store_results(emit, one, lane, totals[r * at.vectors : (r + 1) * at.vectors])
            with branch.otherwise():
                pass


def _bound(emit: Emitter, row: LoopValue) -> Expr:
    """A row's number, as known in the block at hand."""
    variable = Variable(f"row{row.name}", emit.problem.rows)
    emit.addresses.bind(variable, row, emit.builder.block)
    return of(variable)


@record
class TileLoops:
    """All tiles of one element of the batch: tiles of columns outside, tiles of rows inside.
    `overlaps`: see `last_overlaps`. `results`: as in `TileLeaf`."""

    problem: ContractionProblem
    columns: tuple[Columns, ...]
    tile: Tile
    unrolled: int
    recomputed: bool
    packed: bool
    vectors: VectorStage | None
    overlaps: bool = False
    results: str | None = None

    def splits(self) -> list[Split]:
        """The tiles of columns of each residue class."""
        return [
            column_split(
                self.problem, columns, self.tile, name, f"{name}_" if name != "columns" else name
            )
            for name, columns in column_names(self.columns)
        ]

    def rows(self, parallel: bool) -> Split:
        axis = Axis("rows", self.problem.rows, Role.ROWS)
        tail = Tail.SHIFTED if self.overlaps and not parallel else Tail.CLAMPED
        return Split("rows", axis, self.tile.rows, tail, variable="tile_row")

    def parallel(self, loops: Sequence[Variable]) -> tuple[Split, ...]:
        """What threads divide where there are no such loops over the batch: tiles of columns, or,
        where there is one, of rows."""
        if loops:
            return ()
        splits, rows = self.splits(), self.rows(True)
        if sum(split.tiles for split in splits) != 1:
            return tuple(splits)
        return () if rows.is_one_tile else (rows,)

    def statements(self, by_rows: bool) -> tuple[Statement, ...]:
        rows = self.rows(by_rows)
        return tuple(
            self._columns(columns, split, rows)
            for columns, split in zip(self.columns, self.splits(), strict=True)
        )

    def _columns(self, columns: Columns, split: Split, rows: Split) -> ForEach:
        leaf = TileLeaf(
            self.problem, columns, split.name, self.tile, self.unrolled, self.recomputed,
            self.packed, self.vectors, overwrites=self.overlaps, results=self.results,
        )  # fmt: skip
        tiles = ForEach(rows, (Compute(leaf),), always=rows.tail is Tail.SHIFTED)
        panel = (Fill(self.vectors),) if isinstance(self.vectors, PanelPerTile) else ()
        return ForEach(split, (*panel, tiles))
