"""Strategy: a vector times a matrix, which is read once, so at the speed of memory.

- streamed: the matrix is contiguous along the columns. A few of its rows at a time are read side by
  side from end to end, and added to sums in scratch.
- transposed: it is contiguous along k. Blocks of lanes x lanes are transposed in registers, and the
  sums stay there.

Each result is the same K blocks of products as in any other strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.loop_cut import LoopCut
from graphc.codegen.evaluate.shuffles import transpose
from graphc.codegen.loop_ir.nodes import Buffer, Kernel, LoopValue
from graphc.codegen.recipes.contraction.broadcast_operand import BroadcastInPlace
from graphc.codegen.recipes.contraction.costs import CACHE_LINE, PAGE, any_place, note
from graphc.codegen.recipes.contraction.emitter import EmissionContext, Emitter
from graphc.codegen.recipes.contraction.k_blocks import K_BLOCK
from graphc.codegen.recipes.contraction.problem import ContractionProblem, k_variables
from graphc.codegen.recipes.contraction.tiles import Columns, Tile, TileRun
from graphc.codegen.recipes.contraction.tilings import Tiling, tilings
from graphc.codegen.recipes.contraction.view import operand_value
from graphc.codegen.target import Target
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index

STREAMS = 8
"""Rows of the matrix that are read side by side."""

Block = Callable[[Expr, int], None]


@dataclass(frozen=True, slots=True)
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
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[GemvPlan]:
        """For one row, of an operand read in place, and a matrix that is contiguous either way."""
        if problem.rows != 1 or len(problem.view.k) != 1 or problem.has_sizes:
            return
        for tiling in tilings(problem, target, limit):
            if not tiling.is_flat or tiling.packing is not None or tiling.lanes < 4:
                continue
            steps = _steps(tiling) if problem.depth >= tiling.lanes else (None, None)
            if 1 not in steps:
                continue
            transposed = steps[0] != 1
            # Rows that share a set of the cache: no more of them than it has ways.
            apart = (steps[0] or 0) * problem.dtype.itemsize
            vectors = 1 if transposed and apart % PAGE == 0 else 2
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

    def lower(self, context: EmissionContext) -> Kernel:
        emit = Emitter(context, self.problem, self.lanes)
        row = Row(emit, self.columns, self.columns.tiles(Tile(1, self.vectors)))
        parts = sum(run.count for run in row.runs)
        write = partial(_transposed, row) if self.transposed else Streams(row).write

        def element(split: bool) -> int:
            write(split and parts > 1)
            return parts

        return emit.over_batch(emit.batch_loops(), element, self.reason)


def _steps(tiling: Tiling) -> tuple[int | None, int | None]:
    """Elements of the matrix from one column to the next, and from one k to the next."""
    problem, view = tiling.problem, tiling.problem.view
    lane = Variable("probe_lane", max(tiling.lanes, 2))
    (k,) = k_variables(view)
    case = view.vector(problem.batch, any_place(tiling.columns[0], lane), (of(k),))
    return view.stride(case, lane), view.stride(case, k)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of results: its columns, and the blocks of them."""

    emit: Emitter
    columns: Columns
    runs: list[TileRun]

    def blocks(self, split: bool, body: Block) -> None:
        """`body(first vector, vectors)` for all blocks of columns, or those of this call."""
        for run in self.runs:
            self.emit.run(run, 0, split, body)

    def broadcast(self, k: Expr) -> LoopValue:
        """An element of the vector, in all lanes."""
        problem = self.emit.problem
        return BroadcastInPlace(self.emit).at(problem.batch, problem.m(of(0)), problem.k(k))

    def element(self, n: Index, k: Expr, guards: tuple[Guard, ...]) -> LoopValue:
        """Elements of the matrix."""
        emit, problem = self.emit, self.emit.problem
        case = problem.view.vector(problem.batch, n, problem.k(k))
        assert case is not None
        value = operand_value(emit.evaluator, problem.view, case, guards)
        return emit.builder.splat(value, emit.lanes)

    def finish(self, n: Index, guards: tuple[Guard, ...], total: LoopValue) -> None:
        problem = self.emit.problem
        self.emit.finish(problem.view.out(problem.batch, problem.m(of(0)), n), guards, total)


# -- streamed --------------------------------------------------------------------------------------


class Streams:
    """Sums in scratch, to which a few rows of the matrix at a time are added."""

    def __init__(self, row: Row) -> None:
        emit = row.emit
        self.row = row
        self.emit = emit
        self.depth = emit.problem.depth
        size = row.columns.vectors * emit.lanes
        self.sums = emit.scratch("sums", size)
        """Those of one K block."""
        self.totals = emit.scratch("totals", size) if self.depth > K_BLOCK else self.sums

    def write(self, split: bool) -> None:
        emit, row = self.emit, self.row
        self._clear(self.totals, split)
        if self.totals is self.sums:
            self._products(of(0), self.depth, split)
        else:
            emit.copier.tiles(
                self.depth, K_BLOCK, "kblock",
                lambda i, count: self._k_block(i * K_BLOCK, count, split),
            )  # fmt: skip
        filled_in = emit.builder.block

        def finish(first: Expr, vectors: int) -> None:
            lane = emit.copier.lane()
            for v in range(vectors):
                n, guards = row.columns.place(first + v, lane)
                at = (first + v) * emit.lanes + lane
                row.finish(n, guards, emit.evaluator.load(self.totals, at, (), filled_in))

        row.blocks(split, finish)

    def _clear(self, memory: Buffer, split: bool) -> None:
        emit = self.emit
        zero = emit.builder.const(emit.dtype, 0)

        def clear(first: Expr, vectors: int) -> None:
            lane = emit.copier.lane()
            for v in range(vectors):
                emit.evaluator.store(memory, (first + v) * emit.lanes + lane, zero)

        self.row.blocks(split, clear)

    def _k_block(self, begin: Expr, count: int, split: bool) -> None:
        """One K block of several: its sums from 0 on, added to the totals."""
        emit = self.emit
        self._clear(self.sums, split)
        self._products(begin, count, split)
        filled_in = emit.builder.block

        def add(first: Expr, vectors: int) -> None:
            lane = emit.copier.lane()
            for v in range(vectors):
                at = (first + v) * emit.lanes + lane
                before = emit.evaluator.load(self.totals, at, (), emit.builder.block)
                block = emit.evaluator.load(self.sums, at, (), filled_in)
                emit.evaluator.store(self.totals, at, emit.builder.add(before, block))

        self.row.blocks(split, add)

    def _products(self, begin: Expr, count: int, split: bool) -> None:
        """Adds the products of `count` rows of the matrix, a few at a time."""
        self.emit.copier.tiles(
            count, STREAMS, "k", lambda i, some: self._rows(begin + i * STREAMS, some, split)
        )

    def _rows(self, k: Expr, count: int, split: bool) -> None:
        """Products of rows k…k + count of the matrix, added to the sums of all columns."""
        emit, row = self.emit, self.row
        wide = [row.broadcast(k + i) for i in range(count)]

        def block(first: Expr, vectors: int) -> None:
            lane = emit.copier.lane()
            for v in range(vectors):
                n, guards = row.columns.place(first + v, lane)
                at = (first + v) * emit.lanes + lane
                total = emit.evaluator.load(self.sums, at, (), emit.builder.block)
                for i in range(count):
                    total = emit.multiply_add(wide[i], row.element(n, k + i, guards), total)
                emit.evaluator.store(self.sums, at, total)

        row.blocks(split, block)


# -- transposed ------------------------------------------------------------------------------------


def _transposed(row: Row, split: bool) -> None:
    row.blocks(split, lambda first, vectors: _block(row, first, vectors))


def _block(row: Row, first: Expr, vectors: int) -> None:
    """The results of one block of columns."""
    emit = row.emit
    builder, zeros, depth = emit.builder, emit.zeros(vectors), emit.problem.depth

    def k_block(begin: Expr, count: int) -> list[LoopValue]:
        # Whole cache lines of each row at a time: rows often lie at distances that put them
        # into one set, where half a line would not stay until its other half is wanted.
        step = max(CACHE_LINE // emit.dtype.itemsize, emit.lanes)

        def lines(tile: Expr, size: int, sums: Sequence[LoopValue]) -> list[LoopValue]:
            return _products(row, first, begin + tile * step, size, sums)

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
        row.finish(n, guards, totals[v])


def _products(
    row: Row, first: Expr, k: Expr, count: int, sums: Sequence[LoopValue]
) -> list[LoopValue]:
    """`count` products more for each column."""
    emit, lanes = row.emit, row.emit.lanes
    lane = emit.copier.lane()
    starts = range(0, count, lanes)
    wide = [row.broadcast(k + i) for i in range(count)]
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
                loaded[start].append(row.element(n, at, guards) if exists else emit.zero)
        for start in starts:
            vectors = transpose(emit.builder, loaded[start])[: count - start]
            for i, vector in enumerate(vectors):
                total = emit.multiply_add(wide[start + i], vector, total)
        totals.append(total)
    return totals
