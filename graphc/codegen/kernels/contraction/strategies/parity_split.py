"""Strategy: results whose even and odd coordinates along the vectors have other products.

The gradient of a strided convolution is such: each residue class of its coordinates is computed
apart; kept in scratch, two vectors of them then make two vectors of neighbours, for which the
body's outputs are computed. A class without any product (a 1x1 kernel has them) is zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.shuffles import interleave
from graphc.codegen.kernels.contraction.cost.costs import note
from graphc.codegen.kernels.contraction.cost.tiles import Columns, OutputTile
from graphc.codegen.kernels.contraction.cost.tilings import Tiling, tilings
from graphc.codegen.kernels.contraction.cost.vector_read import VectorRead, taps_of, vector_read
from graphc.codegen.kernels.contraction.emission.axes import (
    BatchNest,
    batch_loops,
    batch_of,
    vector_axis,
)
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.broadcast_operand import packed_ahead
from graphc.codegen.kernels.contraction.operands.vector_operand import (
    HaloStage,
    column_names,
    vector_stage,
)
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.kernels.contraction.problem.view import ResidueClass
from graphc.codegen.kernels.contraction.strategies.register_tile import TileLoops, last_overlaps
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.nests.nest import (
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
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import record, replace
from graphc.schedule.access import unflatten

INTERLEAVED = 1 / 8
"""Cost of interleaving results by vectors, beside that of scattering them."""


@record
class ParitySplitPlan:
    """A register tile whose lanes run along every second result."""

    problem: ContractionProblem
    tiling: Tiling
    read: VectorRead
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.BATCH)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[ParitySplitPlan]:
        if len(problem.view.residue_classes()) < 2:
            return
        for tiling in tilings(problem, target, limit):
            read = vector_read(tiling, target) if tiling.is_interleaved else None
            if read is None:
                continue
            results = tiling.scattered * INTERLEAVED
            yield ParitySplitPlan(
                problem, tiling, read, tiling.bound + read.cost + results,
                note(
                    problem, "parity split", f"{tiling.description}, {read.description}",
                    products=tiling.products, copies=read.cost + tiling.packing_cost,
                    interleaved=results,
                ),
            )  # fmt: skip

    @property
    def lanes(self) -> int:
        return self.tiling.lanes

    def nest(self) -> Nest:
        tiling, read, problem = self.tiling, self.read, self.problem
        loops = batch_loops(problem)
        computed = tuple(c for c in tiling.columns if _has_products(tiling, c.residues))
        results = ParityResults(
            problem, tiling.columns, computed, batch_of(problem, loops, Holds.SUMS)
        )
        packing = tiling.packing
        if packing is not None and len(computed) < 2:
            packing = replace(packing, taps_first=0)
        overlaps = last_overlaps(problem, tiling.tile, packing)
        broadcast = packed_ahead(problem, packing, loops, overlaps=overlaps)
        vectors = vector_stage(problem, read, computed, tiling.tile, loops)
        tiles = TileLoops(
            problem, computed, tiling.tile, tiling.unrolled,
            recomputed=read.guarded and problem.dtype.is_float and problem.depth != 0,
            packed=bool(broadcast), vectors=vectors, overlaps=overlaps, results=results.name,
        )  # fmt: skip
        halo = (vectors,) if isinstance(vectors, HaloStage) else ()
        rows = Split("result_row", Axis("rows", problem.rows, Role.ROWS), 1, Tail.EXACT)
        outputs = ForEach(rows, (Compute(Interleaved(problem, results)),), always=True)
        return BatchNest(
            problem, (results, *broadcast, *(() if vectors is None else (vectors,))),
            (*map(Fill, halo), *tiles.statements(False), Fill(results), outputs),
            self.reason, once=(*map(Fill, broadcast), *map(Clear, halo)), covered=results.skipped,
        ).nest(loops)  # fmt: skip


def _has_products(tiling: Tiling, residues: ResidueClass) -> bool:
    problem, view = tiling.problem, tiling.problem.view
    n = residues.index(
        tuple(of(Variable(f"probe_n{a}", extent)) for a, extent in enumerate(residues.extents))
    )
    looped = tuple(of(variable) for variable in k_variables(view)[: tiling.unrolled])
    return any(
        view.vector(problem.batch, n, (*looped, *tap)) is not None
        for tap in taps_of(view, tiling.unrolled)
    )


@record
class ParityResults:
    """The stage of the results of all residue classes of a batch element: those `computed`."""

    problem: ContractionProblem
    classes: tuple[Columns, ...]
    computed: tuple[Columns, ...]
    batch: tuple[str, ...]
    name: str = "results"
    holds: Holds = Holds.SUMS

    @property
    def room(self) -> Room:
        names = column_names(self.computed)
        columns = ((name, each.vectors) for name, each in names)
        return (*((name, 1) for name in self.batch), ("rows", self.problem.rows), *columns)

    @property
    def whole(self) -> tuple[str, ...]:
        return self.batch

    @property
    def text(self) -> str:
        return f"{self.problem.dtype.value} [class][{self.problem.rows} rows][columns]"

    @property
    def skipped(self) -> tuple[Axis, ...]:
        """The axes of classes without products, whose results are zeros."""
        classes = (columns for columns in self.classes if columns not in self.computed)
        return tuple(
            replace(vector_axis(self.problem, columns, f"skipped{i}"), has_products=False)
            for i, columns in enumerate(classes)
        )

    @property
    def columns(self) -> dict[Shape, Columns]:
        return {column.residues.offsets: column for column in self.classes}

    def declare(self, emit: Emitter) -> ParityMemory:
        blocks = max((column.blocks for column in self.computed), default=1)
        starts: dict[Shape, int] = {}
        size = 0
        for column in self.computed:
            starts[column.residues.offsets] = size
            size += self.problem.rows * column.row_count * blocks * emit.lanes
        return ParityMemory(emit.scratch(self.name, max(size, 1)), blocks, starts)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> OpenBlock:
        """All results are there."""
        return emit.builder.block


@record
class ParityMemory:
    """`starts`: where the results of each class begin; each row has so many `blocks`."""

    memory: Buffer
    blocks: int
    starts: dict[Shape, int]

    def keep(self, emit: Emitter, at: OutputTile, lane: Expr, totals: list[LoopValue]) -> None:
        """Stores the results of a tile of one class."""
        columns = at.columns
        assert isinstance(columns, Columns)
        for r in range(at.rows):
            for v in range(at.vectors):
                row, block = columns.row_and_block(at.vector + v)
                position = self._position(emit, at.row + r, columns, row, block) + lane
                emit.evaluator.store(self.memory, position, totals[r * at.vectors + v])

    def _position(self, emit: Emitter, m: Expr, columns: Columns, row: Expr, block: Expr) -> Expr:
        start = self.starts[columns.residues.offsets]
        at = (m * columns.row_count + row) * self.blocks + block
        return at * emit.lanes + start

    def result(
        self, emit: Emitter, m: Expr, columns: Columns, row: Expr, block: Expr, lane: Expr,
        filled_in: OpenBlock,
    ) -> LoopValue:  # fmt: skip
        if columns.residues.offsets not in self.starts:
            return emit.zero
        at = self._position(emit, m, columns, row, block) + lane
        return emit.evaluator.load(self.memory, at, (), filled_in)


@record
class Interleaved:
    """The leaf of the body's outputs of one row."""

    problem: ContractionProblem
    results: ParityResults

    @property
    def text(self) -> str:
        return "interleave even and odd columns"

    @property
    def effect(self) -> Effect:
        computed = (name for name, _ in column_names(self.results.computed))
        names = (*computed, *(axis.name for axis in self.results.skipped))
        return Effect(covers=names, takes=self.results.name, stores=True)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        columns = self.results.columns
        for even in columns.values():
            if even.residues.offsets[-1] == 0:
                odd = columns[(*even.residues.offsets[:-1], 1)]
                self._outputs(emit, place.memory["results"], place["result_row"].first, even, odd)

    def _outputs(
        self, emit: Emitter, memory: ParityMemory, m: Expr, even: Columns, odd: Columns
    ) -> None:
        """The outputs of one row for the coordinates of a class and of its odd neighbour."""
        lanes, residues = emit.lanes, even.residues
        extents = tuple(residues.extents[axis] for axis in even.row_axes)

        def row(r: Expr) -> None:
            at = unflatten(r, extents)
            outer = tuple(
                i * step + offset
                for i, step, offset in zip(at, residues.steps, residues.offsets, strict=False)
            )
            filled_in = emit.builder.block

            def pair(block: Expr, count: int) -> None:
                lane = emit.copier.lane()
                a, b = (
                    memory.result(emit, m, columns, r, block, lane, filled_in)
                    for columns in (even, odd)
                )
                for half in range(2 if count > lanes else 1):
                    vector = interleave(emit.builder, a, b, half)
                    w = block * (2 * lanes) + half * lanes + lane
                    kept = min(count - half * lanes, lanes)
                    guards: tuple[Guard, ...] = ((lane, 0, kept),) if kept < lanes else ()
                    problem = self.problem
                    index = emit.view.out(problem.batch, problem.m(m), (*outer, w))
                    emit.finish(index, guards, vector)

            emit.copier.tiles(emit.view.n[-1], 2 * lanes, "pair", pair)

        emit.copier.loop(math.prod(extents), "r", row)
