"""Strategy: convolutions with vectors along output channels; products with padding are left out.

The rows of a tile are neighbouring positions of one line of the plane. Which taps of the kernel's
last axis they have is known where the tile is written; those of its other axes are listed for each
line (`tap_list.py`), so all lines are one loop. For each tile of columns the weights of one K block
are read by all lines in turn, so they come from L1; sums stay in scratch from K block to K block.
Weights must lie with output channels side by side: a pass packs those that are frozen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.contraction.cost.costs import CACHE_LINE, note, scatter_cost
from graphc.codegen.kernels.contraction.cost.tiles import (
    Columns,
    OutputTile,
    Tile,
    choose_tile,
    vector_registers,
)
from graphc.codegen.kernels.contraction.emission.axes import (
    BatchNest,
    batch_loops,
    batch_of,
    column_split,
)
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.emission.sums import Sums
from graphc.codegen.kernels.contraction.emission.transposed_epilogue import (
    Transposed,
    TransposedEpilogue,
)
from graphc.codegen.kernels.contraction.operands.vector_operand import VectorInPlace
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK, cut
from graphc.codegen.kernels.contraction.problem.lines import Lines, lines_of
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.kernels.contraction.problem.view import (
    ContractionView,
    ResidueClass,
    operand_value,
)
from graphc.codegen.kernels.contraction.strategies.tap_list import (
    Taps,
    in_k_blocks,
    is_cut,
    over_taps,
    planes_of,
    store_sums,
)
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Clear,
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Nest,
    NestPlace,
    Role,
    Room,
    Split,
)
from graphc.codegen.nests.tails import Run, Tail
from graphc.codegen.target import Target
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Case
from graphc.records import record
from graphc.schedule.access import Index, unflatten

EFFICIENCY = 0.93
"""Efficiency of loops over listed taps beside those that are written out."""


@record
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
    @open_to(Coordinates.BATCH)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[DirectConvPlan]:
        view = problem.view
        if len(view.n) != 1 or 0 in (*view.n, *view.k) or math.prod(view.k[1:]) > K_BLOCK:
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

    def nest(self) -> Nest:
        """Batch, tiles of columns, K blocks, tiles of positions, lines, listed taps."""
        problem, view = self.problem, self.problem.view
        columns = column_split(problem, self.columns, self.tile)
        runs, number = [], 0
        for segment in self.lines.segments:
            runs.append(Run(number, segment.first, segment.count, segment.rows))
            number += segment.count
        line = Axis("positions", view.m[-1], Role.ROWS, number=1)
        segments = Split("positions", line, self.tile.rows, Tail.RUNS, tuple(runs), "segment")
        lines = Split("lines", Axis("lines", self.lines.count, Role.ROWS), 1, Tail.EXACT)
        # Each tap of the last axis reads the number anew. Where two taps of neighbouring positions
        # are the same element, LLVM would share the load, and have no registers left for the sums.
        lister = LineTaps(problem, self.lines)
        taps = Taps(self.lines.count, math.prod(view.k[1:-1]), view.k[-1], lister.entry)
        loops = batch_loops(problem)
        batch = batch_of(problem, loops, Holds.SUMS)
        room: Room = (
            *((name, 1) for name in batch), ("lines", self.lines.count), ("positions", view.m[-1]),
            ("columns", self.tile.vectors),
        )  # fmt: skip
        sums = Sums("sums", room, (*batch, "columns"))
        width = self.tile.vectors * self.lanes
        transposed = Transposed(width, problem.rows)
        tile = LineTile(self, width)
        tiles = ForEach(segments, (ForEach(lines, (Compute(tile),)),))
        products = in_k_blocks(problem, (Clear(sums),), (tiles,))
        results = Compute(LineResults(self, width))
        parallel = (columns,) if columns.tiles != 1 else ()
        return BatchNest(
            problem, (sums, transposed, taps),
            (ForEach(columns, (*products, Fill(sums), results)),), self.reason,
            once=(Fill(taps),), parallel=parallel,
        ).nest(loops)  # fmt: skip


@record
class LineTaps:
    """Lists the taps of lines."""

    problem: ContractionProblem
    lines: Lines

    def entry(self, line: Expr, tap: Expr) -> tuple[tuple[Expr, ...], tuple[Guard, ...]]:
        """A tap of the outer kernel axes, once for each of the last."""
        view = self.problem.view
        place, last = next(
            (segment.first + row, last) for segment in self.lines.segments
            for row, taps in enumerate(segment.exists) for last, exists in enumerate(taps) if exists
        )  # fmt: skip
        zeros = (of(0),) * len(view.batch)
        at = (*unflatten(line, view.m[:-1]), of(place))
        case = view.broadcast(zeros, at, _k(view, of(0), tap, last))
        assert case is not None
        return (tap,) * view.k[-1], tuple(case.guards)


def _k(view: ContractionView, plane: Expr, tap: Expr, last: int) -> Index:
    return (plane, *unflatten(tap, view.k[1:-1]), of(last))


@record
class LineResults:
    """The leaf of the body's outputs of one tile of columns, all positions."""

    plan: DirectConvPlan
    width: int

    @property
    def text(self) -> str:
        return "results of sums, transposed"

    @property
    def effect(self) -> Effect:
        return Effect(covers=("positions", "lines"), takes="sums", stores=True)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        problem, columns = self.plan.problem, place["columns"]
        epilogue: TransposedEpilogue = place.memory["transposed"]
        first = columns.first * emit.lanes
        along = self.plan.columns.lanes_of(columns.first, columns.size)
        epilogue.store(
            place.memory["sums"], lambda position: position * self.width, along,
            lambda i, position: emit.view.out(problem.batch, problem.m(position), (first + i,)),
        )  # fmt: skip


@record
class LineTile:
    """The leaf of a register tile of neighbouring positions of a line and vectors of columns: the
    products of some indices of k's first axis, stored or added to sums."""

    plan: DirectConvPlan
    width: int

    @property
    def text(self) -> str:
        tile = self.plan.tile
        return f"register tile {tile.rows}x{tile.vectors}x{self.plan.lanes} of listed taps"

    @property
    def effect(self) -> Effect:
        several = is_cut(self.plan.problem.view.k)
        return Effect(
            covers=() if several else ("k",), reads=("taps",), adds="sums", starts=not several,
            tails=OF_NUMBERS | {Tail.STEPPED},
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        span, line, vectors = place["positions"], place["lines"].first, place["columns"]
        segment, taps = self.plan.lines.segments[span.run], place.filled["taps"]
        bounds, added = planes_of(emit, place)
        k = emit.view.k
        at = OutputTile(
            emit.problem.batch, line * emit.view.m[-1] + span.first, segment.rows,
            self.plan.columns, vectors.first, vectors.size,
        )  # fmt: skip
        lane = emit.tile_lane()

        def of_tap(plane: Expr, entry: LoopValue, sums: list[LoopValue]) -> list[LoopValue]:
            for last in range(k[-1]):
                rows = [r for r in range(at.rows) if segment.exists[r][last]]
                if rows:
                    # Never of extent 1: what is read must depend on it, and so stay inside this
                    # loop, which a line without taps does not enter.
                    tap = Variable(f"tap{last}", max(math.prod(k[1:-1]), 2))
                    at_k = _k(emit.view, plane, taps.number(entry, last, tap), last)
                    sums = self._added(emit, at, lane, rows, at_k, sums)
            return sums

        totals = over_taps(
            emit, taps, line, bounds, emit.zeros(at.rows * at.vectors), of_tap,
            begun=lambda plane: self._fetch_ahead(emit, at, line, plane),
        )  # fmt: skip
        positions = [
            (at.row + r) * self.width + v * emit.lanes + lane
            for r in range(at.rows) for v in range(at.vectors)
        ]  # fmt: skip
        store_sums(emit, place.memory["sums"], positions, totals, added)

    def _added(
        self, emit: Emitter, at: OutputTile, lane: Expr, rows: list[int], k: Index,
        sums: list[LoopValue],
    ) -> list[LoopValue]:  # fmt: skip
        """The sums with the products of one tap, which these rows have."""
        reader = VectorInPlace(emit)
        columns = [
            reader.vector(at.batch, n, guards, k, lane, of(0)) for n, guards in at.places(lane)
        ]
        totals = list(sums)
        for r in rows:
            case = emit.view.broadcast(at.batch, emit.problem.m(at.row + r), k)
            assert case is not None
            # Its guards hold: they are what the taps are listed by.
            element = operand_value(emit.evaluator, emit.view, Case(case.operand, case.index, ()))
            wide = emit.builder.splat(element, emit.lanes)
            for v, vector in enumerate(columns):
                assert vector is not None
                number = r * at.vectors + v
                totals[number] = emit.multiply_add(wide, vector, sums[number])
        return totals

    def _fetch_ahead(self, emit: Emitter, at: OutputTile, line: Expr, plane: Expr) -> None:
        """Asks for a part of the weights of the next K block while this one is computed, each tile
        for another: at batch 1 all weights come from memory, and only the first tile would wait."""
        view, lines, columns = emit.view, self.plan.lines, self.plan.columns
        k = (plane, *(of(0) for _ in view.k[1:]))
        case = view.vector(at.batch, columns.index(at.vector * emit.lanes), k)
        place = view.place(case) if case is not None else None
        if place is None:
            return
        number, linear = place
        per_line = CACHE_LINE // emit.dtype.itemsize
        of_plane = math.prod(view.k[1:]) * at.vectors * emit.lanes
        several = emit.problem.depth > K_BLOCK
        ahead = of_plane * (cut(view.k)[1] if several else view.k[0])
        share = -(-of_plane // per_line // (lines.count * lines.tiles))
        tile = emit.problem.m(at.row)[-1] // self.plan.tile.rows * lines.count + line
        for i in range(share):
            emit.evaluator.prefetch(number, linear + ahead + (tile * share + i) * per_line)
