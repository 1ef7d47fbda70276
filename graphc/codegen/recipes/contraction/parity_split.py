"""Strategy: results whose even and odd coordinates along the vectors have other products.

The gradient of a strided convolution is such: each residue class of its coordinates is computed
apart; kept in scratch, two vectors of them then make two vectors of neighbours, for which the
body's outputs are computed. A class without any product (a 1x1 kernel has them) is zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.loop_ir.nodes import Buffer, Kernel, LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.recipes.contraction.broadcast_operand import broadcast_ahead
from graphc.codegen.recipes.contraction.costs import note
from graphc.codegen.recipes.contraction.emitter import EmissionContext, Emitter
from graphc.codegen.recipes.contraction.problem import ContractionProblem, k_variables
from graphc.codegen.recipes.contraction.register_tile import TileNest, last_overlaps
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile
from graphc.codegen.recipes.contraction.tilings import Tiling, tilings
from graphc.codegen.recipes.contraction.vector_operand import vector_memory
from graphc.codegen.recipes.contraction.vector_read import VectorRead, taps_of, vector_read
from graphc.codegen.recipes.contraction.view import ResidueClass
from graphc.codegen.target import Target
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import unflatten

INTERLEAVED = 1 / 8
"""Cost of interleaving results by vectors, beside that of scattering them."""


@dataclass(frozen=True, slots=True)
class ParitySplitPlan:
    """A register tile whose lanes run along every second result."""

    problem: ContractionProblem
    tiling: Tiling
    read: VectorRead
    cost: float
    reason: str

    @staticmethod
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[ParitySplitPlan]:
        if problem.has_sizes or len(problem.view.residue_classes()) < 2:
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

    def lower(self, context: EmissionContext) -> Kernel:
        tiling, read = self.tiling, self.read
        emit = Emitter(context, self.problem, tiling.lanes)
        loops = emit.batch_loops()
        computed = tuple(c for c in tiling.columns if _has_products(tiling, c.residues))
        results = ParityResults(emit, tiling.columns, computed)
        packing = tiling.packing
        if packing is not None and len(computed) < 2:
            packing = replace(packing, taps_first=0)
        overlaps = last_overlaps(emit, tiling.tile, packing)
        broadcast = broadcast_ahead(emit, packing, loops, overlaps=overlaps)
        memory = vector_memory(emit, read, tiling.tile.rows, tiling.tile.vectors)

        def element(split: bool) -> int:
            """A single one is not split."""
            TileNest(
                emit, computed, tiling.tile, tiling.unrolled,
                recomputed=read.guarded and emit.dtype.is_float and self.problem.depth != 0,
                broadcast=broadcast, vectors=memory.for_batch_element(), store=results.keep,
                overlaps=overlaps,
            ).write(False)  # fmt: skip
            results.interleave()
            return 1

        return emit.over_batch(loops, element, self.reason)


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


class ParityResults:
    """The results of all residue classes of a batch element, in scratch: those `computed`."""

    def __init__(
        self, emit: Emitter, columns: tuple[Columns, ...], computed: tuple[Columns, ...]
    ) -> None:
        self.emit = emit
        self.columns = {column.residues.offsets: column for column in columns}
        self.blocks = max((column.blocks for column in computed), default=1)
        starts: dict[Shape, int] = {}
        size = 0
        for column in computed:
            starts[column.residues.offsets] = size
            size += emit.problem.rows * column.row_count * self.blocks * emit.lanes
        self.starts = starts
        self.memory: Buffer = emit.scratch("results", max(size, 1))

    def keep(self, at: OutputTile, lane: Expr, totals: list[LoopValue]) -> None:
        """Stores the results of a tile of one class."""
        for r in range(at.rows):
            for v in range(at.vectors):
                row, block = at.columns.row_and_block(at.vector + v)
                position = self._position(at.row + r, at.columns, row, block) + lane
                self.emit.evaluator.store(self.memory, position, totals[r * at.vectors + v])

    def _position(self, m: Expr, columns: Columns, row: Expr, block: Expr) -> Expr:
        start = self.starts[columns.residues.offsets]
        at = (m * columns.row_count + row) * self.blocks + block
        return at * self.emit.lanes + start

    def _result(
        self, m: Expr, columns: Columns, row: Expr, block: Expr, lane: Expr, filled_in: OpenBlock
    ) -> LoopValue:
        if columns.residues.offsets not in self.starts:
            return self.emit.zero
        at = self._position(m, columns, row, block) + lane
        return self.emit.evaluator.load(self.memory, at, (), filled_in)

    def interleave(self) -> None:
        """The body's outputs for all rows."""
        emit = self.emit
        rows = Variable("result_row", max(emit.problem.rows, 1))
        with emit.builder.loop(0, emit.problem.rows, hint="row") as loop:
            emit.addresses.bind(rows, loop.variable, emit.builder.block)
            for columns in self.columns.values():
                if columns.residues.offsets[-1] == 0:
                    self._outputs(of(rows), columns)

    def _outputs(self, m: Expr, even: Columns) -> None:
        """The outputs of one row for the coordinates of a class and of its odd neighbour."""
        emit, lanes, residues = self.emit, self.emit.lanes, even.residues
        odd = self.columns[(*residues.offsets[:-1], 1)]
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
                    self._result(m, columns, r, block, lane, filled_in) for columns in (even, odd)
                )
                for half in range(2 if count > lanes else 1):
                    vector = self._interleaved(a, b, half)
                    w = block * (2 * lanes) + half * lanes + lane
                    kept = min(count - half * lanes, lanes)
                    guards: tuple[Guard, ...] = ((lane, 0, kept),) if kept < lanes else ()
                    index = emit.view.out(emit.problem.batch, emit.problem.m(m), (*outer, w))
                    emit.finish(index, guards, vector)

            emit.copier.tiles(emit.view.n[-1], 2 * lanes, "pair", pair)

        emit.copier.loop(math.prod(extents), "r", row)

    def _interleaved(self, a: LoopValue, b: LoopValue, half: int) -> LoopValue:
        lanes = self.emit.lanes
        if lanes == 1:
            return b if half else a
        first = half * lanes // 2
        order = [first + i // 2 + (lanes if i % 2 else 0) for i in range(lanes)]
        return self.emit.builder.shuffle(a, b, order)
