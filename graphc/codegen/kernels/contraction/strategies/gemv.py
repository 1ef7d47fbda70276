"""Strategy: a vector times a matrix, which is read once, so at the speed of memory.

- streamed: the matrix is contiguous along the columns. A few of its rows at a time are read side by
  side from end to end, and added to sums in scratch.
- transposed: it is contiguous along k. Blocks of lanes x lanes are transposed in registers, and the
  sums stay there.

Each result is the same K blocks of products as in any other strategy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.elements.shuffles import transpose
from graphc.codegen.kernels.contraction.cost.costs import CACHE_LINE, PAGE, any_place, note
from graphc.codegen.kernels.contraction.cost.tiles import Columns, Tile
from graphc.codegen.kernels.contraction.cost.tilings import Tiling, tilings
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
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK, nothing_added, pair_order
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.kernels.contraction.problem.view import operand_value
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import (
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Leaf,
    Nest,
    NestPlace,
    Room,
    Split,
    Stage,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import record
from graphc.schedule.access import Index

STREAMS = 8
"""Rows of the matrix that are read side by side."""
LINES = 16
"""Of a matrix that is transposed in registers: as many as a processor fetches ahead of."""


@record
class GemvPlan:
    """`vectors` of columns at a time. `transposed`: the matrix is contiguous along k."""

    problem: ContractionProblem
    lanes: int
    columns: Columns
    vectors: int
    transposed: bool
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.BATCH)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[GemvPlan]:
        """For one row, of an operand read in place, and a matrix that is contiguous either way."""
        if problem.rows != 1 or len(problem.view.k) != 1:
            return
        for tiling in tilings(problem, target, limit):
            if not tiling.is_flat or tiling.packing is not None or tiling.lanes < 4:
                continue
            steps = _steps(tiling) if problem.depth >= tiling.lanes else (None, None)
            if 1 not in steps or not _in_rows(tiling):
                continue
            transposed = steps[0] != 1
            # Rows that share a set of the cache: no more of them than it has ways.
            apart = (steps[0] or 0) * problem.dtype.itemsize
            vectors = 2
            if transposed:
                vectors = 1 if apart % PAGE == 0 else max(LINES // tiling.lanes, 1)
            columns = tiling.columns[0]
            how = "transposed in registers" if transposed else "streamed"
            yield GemvPlan(
                problem, tiling.lanes, columns, min(vectors, columns.vectors), transposed,
                tiling.bound + tiling.scattered,
                note(
                    problem, "gemv", f"{tiling.description}, vector operand {how}",
                    products=tiling.products, scattered=tiling.scattered,
                ),
            )  # fmt: skip

    def nest(self) -> Nest:
        problem, loops = self.problem, batch_loops(self.problem)
        columns = column_split(problem, self.columns, Tile(1, self.vectors))
        row = Row(problem, self.columns)
        parallel = (columns,) if columns.tiles != 1 else ()
        if self.transposed:
            body: tuple[Statement, ...] = (ForEach(columns, (Compute(TransposedBlock(row)),)),)
            stages: tuple[Stage, ...] = ()
        else:
            body, stages = _streamed(row, columns, loops)
        return BatchNest(problem, stages, body, self.reason, parallel=parallel).nest(loops)


def _steps(tiling: Tiling) -> tuple[int | None, int | None]:
    """Elements of the matrix from one column to the next, and from one k to the next."""
    problem, view = tiling.problem, tiling.problem.view
    lane = Variable("probe_lane", max(tiling.lanes, 2))
    (k,) = k_variables(view)
    case = view.vector(problem.batch, any_place(tiling.columns[0], lane), (of(k),))
    return view.stride(case, lane), view.stride(case, k)


def _in_rows(tiling: Tiling) -> bool:
    """Whether the matrix lies as rows or columns, not as tiles of them."""
    problem, lane = tiling.problem, Variable("probe_lane", max(tiling.lanes, 2))
    k = tuple(of(variable) for variable in k_variables(problem.view))
    case = problem.view.vector(problem.batch, any_place(tiling.columns[0], lane), k)
    return problem.view.is_affine(case)


@record
class Row:
    """One row of results, and its columns."""

    problem: ContractionProblem
    columns: Columns

    def broadcast(self, emit: Emitter, k: Expr) -> LoopValue:
        """An element of the vector, in all lanes."""
        problem = self.problem
        return BroadcastInPlace(emit).at(problem.batch, problem.m(of(0)), problem.k(k))

    def element(self, emit: Emitter, n: Index, k: Expr, guards: tuple[Guard, ...]) -> LoopValue:
        """Elements of the matrix."""
        problem = self.problem
        case = problem.view.vector(problem.batch, n, problem.k(k))
        assert case is not None
        value = operand_value(emit.evaluator, problem.view, case, guards)
        return emit.builder.splat(value, emit.lanes)

    def finish(self, emit: Emitter, n: Index, guards: tuple[Guard, ...], total: LoopValue) -> None:
        problem = self.problem
        emit.finish(problem.view.out(problem.batch, problem.m(of(0)), n), guards, total)


# -- streamed --------------------------------------------------------------------------------------


def _streamed(
    row: Row, columns: Split, loops: Sequence[Variable]
) -> tuple[tuple[Statement, ...], tuple[Stage, ...]]:
    """Sums in scratch, to which a few rows of the matrix at a time are added; of several K blocks
    those of one, added to totals."""
    batch = batch_of(row.problem, loops, Holds.SUMS)
    room = (*((name, 1) for name in batch), ("columns", row.columns.vectors))
    depth, sums = sum_axis(row.problem), Sums("sums", room, batch)
    rows = RowElements(row, batch_of(row.problem, loops, Holds.BROADCAST))
    k = Split("matrix_rows", depth, STREAMS, Tail.WHOLE_AND_REST, variable="k")

    def over(leaf: Leaf) -> ForEach:
        return ForEach(columns, (Compute(leaf),))

    products = (Fill(rows), over(StreamedProducts(row, sums)))
    if depth.extent <= K_BLOCK:
        results = over(StreamedResults(row, sums))
        return (over(ClearVectors(sums)), ForEach(k, products), Fill(sums), results), (sums, rows)
    totals = Sums("totals", room, batch)
    blocks = Split("k_block", depth, K_BLOCK, Tail.WHOLE_AND_REST, variable="kblock")
    of_block = (
        over(ClearVectors(sums)), ForEach(k, products, within=blocks), Fill(sums),
        over(AddVectors(sums, totals)),
    )  # fmt: skip
    return (
        over(ClearVectors(totals)), ForEach(blocks, of_block), Fill(totals),
        over(StreamedResults(row, totals)),
    ), (sums, totals, rows)  # fmt: skip


def _vectors(emit: Emitter, place: NestPlace) -> Iterator[tuple[Expr, Expr]]:
    """The numbers of the vectors of a block of columns, and their places in scratch."""
    columns, lane = place["columns"], emit.copier.lane()
    for v in range(columns.size):
        yield columns.first + v, (columns.first + v) * emit.lanes + lane


@record
class ClearVectors:
    """The leaf that sets the sums of some columns to zero."""

    sums: Sums

    @property
    def text(self) -> str:
        return f"clear {self.sums.name}"

    @property
    def effect(self) -> Effect:
        return Effect(clears=self.sums.name)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        zero = emit.builder.const(emit.dtype, 0)
        for _, at in _vectors(emit, place):
            emit.evaluator.store(place.memory[self.sums.name], at, zero)


@record
class AddVectors:
    """The leaf that adds the sums of a K block to those of all."""

    sums: Sums
    totals: Sums

    @property
    def text(self) -> str:
        return f"add {self.sums.name} to {self.totals.name}"

    @property
    def effect(self) -> Effect:
        return Effect(takes=self.sums.name, adds=self.totals.name)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        sums, totals = (place.memory[each.name] for each in (self.sums, self.totals))
        for _, at in _vectors(emit, place):
            before = emit.evaluator.load(totals, at, (), emit.builder.block)
            block = emit.evaluator.load(sums, at, (), place.filled[self.sums.name])
            emit.evaluator.store(totals, at, emit.builder.add(before, block))


@record
class RowElements:
    """The stage of the vector's elements for some rows of the matrix, each in all lanes."""

    row: Row
    batch: tuple[str, ...]
    name: str = "vector"
    holds: Holds = Holds.BROADCAST

    @property
    def room(self) -> Room:
        return (*((name, 1) for name in self.batch), ("k", STREAMS))

    @property
    def whole(self) -> tuple[str, ...]:
        return (*self.batch, "matrix_rows")

    @property
    def text(self) -> str:
        return f"registers [{STREAMS} elements]"

    def declare(self, emit: Emitter) -> None:
        return None

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> list[LoopValue]:
        k = place["matrix_rows"]
        return [self.row.broadcast(emit, k.first + i) for i in range(k.size)]


@record
class StreamedProducts:
    """The leaf that adds the products of some rows of the matrix to the sums of some columns."""

    row: Row
    sums: Sums

    @property
    def text(self) -> str:
        return "products of rows side by side"

    @property
    def effect(self) -> Effect:
        return Effect(reads=("vector",), adds=self.sums.name, continues=True)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        sums, wide = place.memory[self.sums.name], place.filled["vector"]
        k, columns, lane = place["matrix_rows"], place["columns"], emit.copier.lane()
        for v in range(columns.size):
            n, guards = self.row.columns.place(columns.first + v, lane)
            at = (columns.first + v) * emit.lanes + lane
            total = emit.evaluator.load(sums, at, (), emit.builder.block)
            for i in pair_order(k.size, emit.problem.pairs):
                if i is None:
                    (total,) = nothing_added(emit.builder, [total])
                    continue
                element = self.row.element(emit, n, k.first + i, guards)
                total = emit.multiply_add(wide[i], element, total)
            emit.evaluator.store(sums, at, total)


@record
class StreamedResults:
    """The leaf of the body's outputs of some columns."""

    row: Row
    sums: Sums

    @property
    def text(self) -> str:
        return f"results of {self.sums.name}"

    @property
    def effect(self) -> Effect:
        return Effect(takes=self.sums.name, stores=True)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        memory, filled_in = place.memory[self.sums.name], place.filled[self.sums.name]
        columns, lane = place["columns"], emit.copier.lane()
        for v in range(columns.size):
            n, guards = self.row.columns.place(columns.first + v, lane)
            at = (columns.first + v) * emit.lanes + lane
            self.row.finish(emit, n, guards, emit.evaluator.load(memory, at, (), filled_in))


# -- transposed ------------------------------------------------------------------------------------


@record
class TransposedBlock:
    """The leaf of all products of one block of columns, and their results."""

    row: Row

    @property
    def text(self) -> str:
        return "products of blocks transposed in registers"

    @property
    def effect(self) -> Effect:
        return Effect(covers=("k",), stores=True)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        row, columns = self.row, place["columns"]
        first, vectors = columns.first, columns.size
        builder, zeros, depth = emit.builder, emit.zeros(vectors), emit.problem.depth

        def k_block(begin: Expr, count: int) -> list[LoopValue]:
            # Whole cache lines of each row at a time: rows often lie at distances that put them
            # into one set, where half a line would not stay until its other half is wanted.
            step = max(CACHE_LINE // emit.dtype.itemsize, emit.lanes)

            def lines(tile: Expr, size: int, sums: Sequence[LoopValue]) -> list[LoopValue]:
                return _products(emit, row, first, begin + tile * step, size, sums)

            return LoopCut(count, step).fold(
                emit.addresses, f"transposed{count}", zeros, lines, hint="k"
            )

        def add_k_block(tile: Expr, size: int, totals: Sequence[LoopValue]) -> list[LoopValue]:
            return list(map(builder.add, totals, k_block(tile * K_BLOCK, size)))

        if depth <= K_BLOCK:
            totals = k_block(of(0), depth)
        else:
            totals = LoopCut(depth, K_BLOCK).fold(
                emit.addresses, "transposed_k_block", zeros, add_k_block, hint="k_block"
            )
        lane = emit.copier.lane()
        for v in range(vectors):
            n, guards = row.columns.place(first + v, lane)
            row.finish(emit, n, guards, totals[v])


def _products(
    emit: Emitter, row: Row, first: Expr, k: Expr, count: int, sums: Sequence[LoopValue]
) -> list[LoopValue]:
    """`count` products more for each column."""
    lanes, lane = emit.lanes, emit.copier.lane()
    starts = range(0, count, lanes)
    wide = [row.broadcast(emit, k + i) for i in range(count)]
    totals = []
    for v, total in enumerate(sums):
        columns = [(first + v) * lanes + r for r in range(lanes)]
        loaded: dict[int, list[LoopValue]] = {start: [] for start in starts}
        for column in columns:
            exists = column.bounds()[0] < row.columns.lanes_used
            for start in starts:
                kept = min(lanes, count - start)
                guards = ((lane, 0, kept),) if kept < lanes else ()
                n = row.columns.index(column)
                at = k + start + lane
                loaded[start].append(row.element(emit, n, at, guards) if exists else emit.zero)
        for start in starts:
            vectors = transpose(emit.builder, loaded[start])[: count - start]
            for i in pair_order(len(vectors), emit.problem.pairs):
                if i is None:
                    (total,) = nothing_added(emit.builder, [total])
                    continue
                total = emit.multiply_add(wide[start + i], vectors[i], total)
        totals.append(total)
    return totals
