"""Strategy: convolutions with vectors along output channels; products with padding are left out.

The rows of a tile are neighbouring positions of one line of the plane. Which taps of the kernel's
last axis they have is known where the tile is written; those of its other axes are listed for each
line (`tap_list.py`), so all lines are one loop. For each tile of columns the weights of one K block
are read by all lines in turn, so they come from L1; sums stay in scratch from K block to K block.
Weights must lie with output channels side by side: a pass packs those that are frozen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.recipes.contraction.costs import CACHE_LINE, note, scatter_cost
from graphc.codegen.recipes.contraction.emitter import EmissionContext, Emitter
from graphc.codegen.recipes.contraction.k_blocks import K_BLOCK, cut
from graphc.codegen.recipes.contraction.lines import Lines, Segment, lines_of
from graphc.codegen.recipes.contraction.problem import ContractionProblem, k_variables
from graphc.codegen.recipes.contraction.tap_list import list_taps, over_k_blocks, store_sums
from graphc.codegen.recipes.contraction.tiles import (
    Columns,
    OutputTile,
    Tile,
    choose_tile,
    vector_registers,
)
from graphc.codegen.recipes.contraction.transposed_epilogue import transposed_epilogue
from graphc.codegen.recipes.contraction.vector_operand import VectorInPlace
from graphc.codegen.recipes.contraction.view import ResidueClass, operand_value
from graphc.codegen.target import Target
from graphc.ir.dims import fixed
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Case
from graphc.schedule.access import Index, unflatten

EFFICIENCY = 0.93
"""Efficiency of loops over listed taps beside those that are written out."""


@dataclass(frozen=True, slots=True)
class DirectConvPlan:
    """A register tile of positions and output channels; `lines`: the plane as such tiles."""

    problem: ContractionProblem
    lanes: int
    columns: Columns
    tile: Tile
    lines: Lines
    cost: float
    reason: str

    @staticmethod
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[DirectConvPlan]:
        view = problem.view
        if (
            problem.has_sizes
            or len(view.n) != 1
            or 0 in (*view.n, *view.k)
            or math.prod(view.k[1:]) > K_BLOCK
        ):
            return
        lanes = problem.lanes_for(view.n[0])
        lane = Variable("probe_lane", max(lanes, 2))
        columns = Columns(ResidueClass(view.n, (1,), (0,)), (0,), lanes, 0)
        k = tuple(of(variable) for variable in k_variables(view))
        if view.stride(view.vector(problem.batch, (of(lane),), k), lane) != 1:
            return
        line = view.m[-1] if view.m else 1
        tile, efficiency = choose_tile(line, columns.vectors, vector_registers(target))
        lines = lines_of(view, tile.rows)
        if lines is None or not lines.products or efficiency <= 0:
            return
        sums = problem.rows * tile.vectors * lanes * view.dtype.itemsize
        if sums > target.l2_bytes // 2:
            return
        vectors = problem.typical(problem.batch_count) * columns.vectors
        products = vectors * view.k[0] * lines.products / (EFFICIENCY * efficiency)
        results = vectors * problem.rows * scatter_cost(problem, [columns])
        yield DirectConvPlan(
            problem, lanes, columns, tile, lines, products + results,
            note(
                problem, "direct conv", f"lanes along n[0], tile {tile.rows}x{tile.vectors}x"
                f"{lanes} of positions and output channels", products=products, scattered=results,
            ),
        )  # fmt: skip

    def lower(self, context: EmissionContext) -> Kernel:
        emit = Emitter(context, self.problem, self.lanes)
        nest = LineNest(emit, self)
        return emit.over_batch(emit.batch_loops(), nest.batch_element, self.reason)


class LineNest:
    """Batch, tiles of columns, K blocks, tiles of positions, lines, listed taps. Makes the scratch
    and lists the taps."""

    def __init__(self, emit: Emitter, plan: DirectConvPlan) -> None:
        self.emit = emit
        self.view = emit.view
        self.lines, self.columns, self.tile = plan.lines, plan.columns, plan.tile
        self.rows = emit.problem.rows
        self.width = plan.tile.vectors * emit.lanes
        self.sums = emit.scratch("sums", self.rows * self.width)
        self.epilogue = transposed_epilogue(emit, self.width, self.rows)
        # Each tap of the last axis reads the number anew. Where two taps of neighbouring positions
        # are the same element, LLVM would share the load, and have no registers left for the sums.
        taps = math.prod(self.view.k[1:-1])
        self.taps = list_taps(emit, self.lines.count, taps, self.view.k[-1], self._entry)
        self.vectors = VectorInPlace(emit)

    def _entry(self, line: Expr, tap: Expr) -> tuple[tuple[Expr, ...], tuple[Guard, ...]]:
        """A tap of the outer kernel axes, once for each of the last."""
        place, last = next(
            (segment.first + row, last) for segment in self.lines.segments
            for row, taps in enumerate(segment.exists) for last, exists in enumerate(taps) if exists
        )  # fmt: skip
        zeros = (of(0),) * len(self.view.batch)
        at = (*unflatten(line, self.view.m[:-1]), of(place))
        case = self.view.broadcast(zeros, at, self._k(of(0), tap, last))
        assert case is not None
        return (tap,) * self.view.k[-1], tuple(case.guards)

    def _k(self, plane: Expr, tap: Expr, last: int) -> Index:
        return (plane, *unflatten(tap, self.view.k[1:-1]), of(last))

    def batch_element(self, split: bool) -> int:
        """What is split are tiles of columns."""
        runs = self.columns.tiles(self.tile)
        count = sum(run.count for run in runs)
        for run in runs:
            self.emit.run(run, 0, split and count > 1, self._columns)
        return count

    def _columns(self, vector: Expr, vectors: int) -> None:
        """One tile of columns, all rows."""
        emit, problem = self.emit, self.emit.problem

        def k_block(begin: Number, end: Number, added: bool) -> None:
            for segment in self.lines.segments:
                tile = partial(self._tile, segment, vector, vectors, (begin, end), added)
                self._each(segment, tile)

        over_k_blocks(emit, self.sums, self.rows * self.tile.vectors, k_block)
        first, along = vector * emit.lanes, vectors * emit.lanes
        if first.is_constant:
            along = min(along, self.columns.lanes_used - fixed(first.constant))
        self.epilogue.store(
            self.sums, lambda position: position * self.width, along,
            lambda i, position: self.view.out(problem.batch, problem.m(position), (first + i,)),
        )  # fmt: skip

    def _each(self, segment: Segment, body: Callable[[Expr, Expr], None]) -> None:
        """`body(line, first row)` for the tiles of a segment of all lines."""
        copier, lines = self.emit.copier, self.lines.count

        def tile(i: Expr) -> None:
            first = i * segment.rows + segment.first
            copier.loop(lines, "line", lambda line: body(line, line * self.view.m[-1] + first))

        copier.loop(segment.count, "segment", tile)

    # -- the register tile -------------------------------------------------------------------

    def _tile(
        self, segment: Segment, vector: Expr, vectors: int, planes: tuple[Number, Number],
        added: bool, line: Expr, row: Expr,
    ) -> None:  # fmt: skip
        """The products of some indices of k's first axis, stored or added to the tile's sums."""
        emit, builder, k = self.emit, self.emit.builder, self.view.k
        at = OutputTile(emit.problem.batch, row, segment.rows, self.columns, vector, vectors)
        lane = emit.tile_lane()
        taps = self.taps.bounds(emit.addresses.scalar(line))
        zeros = emit.zeros(at.rows * at.vectors)
        with builder.loop(*planes, carried=zeros, hint="plane") as outer:
            plane = Variable("plane", k[0])
            emit.addresses.bind(plane, outer.variable, builder.block)
            self._fetch_ahead(at, line, of(plane))
            with builder.loop(*taps, self.taps.size, carried=outer.carried, hint="tap") as inner:
                sums = list(inner.carried)
                for last in range(k[-1]):
                    rows = [r for r in range(at.rows) if segment.exists[r][last]]
                    if rows:
                        # Never of extent 1: what is read must depend on it, and so stay inside
                        # this loop, which a line without taps does not enter.
                        tap = Variable(f"tap{last}", max(math.prod(k[1:-1]), 2))
                        number = self.taps.number(inner.variable, last, tap)
                        sums = self._added(at, lane, rows, self._k(of(plane), number, last), sums)
                inner.yield_(*sums)
            outer.yield_(*inner.results)
        positions = [
            (at.row + r) * self.width + v * emit.lanes + lane
            for r in range(at.rows) for v in range(at.vectors)
        ]  # fmt: skip
        store_sums(emit, self.sums, positions, list(outer.results), added)

    def _added(
        self, at: OutputTile, lane: Expr, rows: list[int], k: Index, sums: list[LoopValue]
    ) -> list[LoopValue]:
        """The sums with the products of one tap, which these rows have."""
        emit = self.emit
        columns = [
            self.vectors.vector(at.batch, n, guards, k, lane, of(0))
            for n, guards in at.places(lane)
        ]
        totals = list(sums)
        for r in rows:
            case = self.view.broadcast(at.batch, emit.problem.m(at.row + r), k)
            assert case is not None
            # Its guards hold: they are what the taps are listed by.
            element = operand_value(emit.evaluator, self.view, Case(case.operand, case.index, ()))
            wide = emit.builder.splat(element, emit.lanes)
            for v, vector in enumerate(columns):
                assert vector is not None
                number = r * at.vectors + v
                totals[number] = emit.multiply_add(wide, vector, sums[number])
        return totals

    def _fetch_ahead(self, at: OutputTile, line: Expr, plane: Expr) -> None:
        """Asks for a part of the weights of the next K block while this one is computed, each tile
        for another: at batch 1 all weights come from memory, and only the first tile would wait."""
        emit, view = self.emit, self.view
        k = (plane, *(of(0) for _ in view.k[1:]))
        case = view.vector(at.batch, self.columns.index(at.vector * emit.lanes), k)
        place = view.place(case) if case is not None else None
        if place is None:
            return
        number, linear = place
        per_line = CACHE_LINE // emit.dtype.itemsize
        of_plane = math.prod(view.k[1:]) * at.vectors * emit.lanes
        several = emit.problem.depth > K_BLOCK
        ahead = of_plane * (cut(view.k)[1] if several else view.k[0])
        share = -(-of_plane // per_line // (self.lines.count * self.lines.tiles))
        tile = emit.problem.m(at.row)[-1] // self.tile.rows * self.lines.count + line
        for i in range(share):
            emit.evaluator.prefetch(number, linear + ahead + (tile * share + i) * per_line)
