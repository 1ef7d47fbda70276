"""Strategy: products of integers in blocks along k that have scales (`block_matmul`), by
instructions for quads of bytes.

Rows are copied as quads ahead, with their sums over blocks. Columns are read where they lie: bytes
that hold a quad for each lane are shifted and masked, so those that several quads share are read
once. Sums of a block are integers in registers; behind it they are scaled and added to totals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphc.codegen.elements.copier import Copier
from graphc.codegen.elements.leaf_loops import fold
from graphc.codegen.kernels.contraction.cost.costs import COPIED, note
from graphc.codegen.kernels.contraction.cost.tiles import (
    Columns,
    OutputTile,
    Tile,
    vector_registers,
)
from graphc.codegen.kernels.contraction.emission.axes import BatchNest, column_split
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.block_columns import (
    BlockColumns,
    blocks_together,
)
from graphc.codegen.kernels.contraction.operands.block_rows import BlockRows, FilledRows
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.strategies.register_tile import store_present, store_results
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Effect,
    Fill,
    ForEach,
    Nest,
    NestPlace,
    Role,
    Split,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.nn.block_products import QUAD, block_matmul
from graphc.records import record

OF_ONE_ROW = 4
"""Vectors of a tile of one row: as many as read whole tiles of 64 columns with the widest."""
OF_ROWS = 2
LEAST_LANES = 4
OPEN_ROWS = 4
"""Rows of a tile where their number is not known."""
SHARES = {True: 0.15, False: 0.45}
"""Of the time of an FMA, what a product takes, with an instruction for four and without."""


@record
class ScaledBlocksPlan:
    """A register tile whose sums are those of a block. `rows_along_k`: as in GroupRows."""

    problem: ContractionProblem
    lanes: int
    columns: Columns
    tile: Tile
    rows_along_k: bool
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.ROWS)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[ScaledBlocksPlan]:
        """One, for `block_matmul` as it has its operands. Rows may be of any number."""
        view = problem.view
        if view.op is not block_matmul or view.swapped:
            return
        k, row = Variable("probe_k", problem.depth), Variable("probe_row", 2)
        along_k = view.stride(view.broadcast((), (of(row),), (of(k),)), k) == 1
        if problem.has_sizes and not along_k:
            return
        (count,) = view.n
        lanes = min(problem.lanes, max(problem.lanes_for(count), LEAST_LANES))
        columns = Columns(view.residue_classes()[0], (0,), lanes, 0)
        tile = _tile(problem, columns, target)
        rows, blocks = problem.typical(problem.rows), problem.depth // view.attributes["block"]
        products = rows * columns.vectors * problem.depth * SHARES[target.quad_products]
        copies = -(-rows // lanes) * (problem.depth // QUAD + 2.0 * blocks) * COPIED
        yield ScaledBlocksPlan(
            problem, lanes, columns, tile, along_k, products + copies,
            note(
                problem, "scaled blocks", f"tile {tile.rows}x{tile.vectors}x{lanes}, "
                f"exact sums of {view.attributes['block']}", products=products, copies=copies,
            ),
        )  # fmt: skip

    def nest(self) -> Nest:
        problem = self.problem
        columns = column_split(problem, self.columns, self.tile)
        axis = Axis("rows", problem.rows, Role.ROWS)
        rows = Split("rows", axis, self.tile.rows, Tail.CLAMPED, variable="tile_row")
        broadcast = BlockRows(problem, self.rows_along_k, self.lanes)
        tile = ForEach(rows, (Compute(BlockTile(self, broadcast)),))
        parallel = columns if columns.tiles != 1 else rows
        return BatchNest(
            problem, (broadcast,), (Fill(broadcast), ForEach(columns, (tile,))), self.reason,
            parallel=(parallel,) if parallel.tiles != 1 else (),
        ).nest([])  # fmt: skip


def _tile(problem: ContractionProblem, columns: Columns, target: Target) -> Tile:
    """Two vectors of columns, and as many rows as there are registers for their sums and totals,
    beside a vector of columns (measured: totals, which are wanted once a block, may as well lie in
    memory); of one row four vectors."""
    if problem.rows == 1:
        return Tile(1, min(OF_ONE_ROW, columns.vectors))
    vectors = min(OF_ROWS, columns.vectors)
    most = (vector_registers(target) - vectors) // (2 * vectors)
    if problem.open & Coordinates.ROWS:
        return Tile(min(most, OPEN_ROWS), vectors)
    tiles = -(-problem.rows // most)
    return Tile(-(-problem.rows // tiles), vectors)


@record
class BlockTile:
    """The leaf of a tile's sums, block by block, and its results."""

    plan: ScaledBlocksPlan
    rows: BlockRows

    @property
    def text(self) -> str:
        tile = self.plan.tile
        return f"register tile of scaled blocks {tile.rows}x{tile.vectors}x{self.plan.lanes}"

    @property
    def effect(self) -> Effect:
        return Effect(
            covers=("k",), reads=("broadcast",), stores=True, tails=OF_NUMBERS | {Tail.CLAMPED}
        )

    def write(self, emit: Emitter, place: NestPlace) -> None:
        rows, columns = place["rows"], place["columns"]
        at = OutputTile((), rows.first, rows.size, self.plan.columns, columns.first, columns.size)
        filled: FilledRows = place.filled["broadcast"]
        lane = emit.tile_lane()
        if rows.rest is None:
            store_results(emit, at, lane, self._totals(emit, at, lane, filled))
        else:
            store_present(emit, at, lane, lambda at: self._totals(emit, at, lane, filled))

    def _totals(self, emit: Emitter, at: OutputTile, lane: Expr, x: FilledRows) -> list[LoopValue]:
        b, block = emit.builder, emit.view.attributes["block"]
        together = blocks_together(emit.view)
        steps = emit.problem.depth // (block * together)
        byte = Copier(b, emit.evaluator, QUAD * emit.lanes).lane()
        columns = BlockColumns.of(emit, self.plan.columns, at.vector, lane, byte)

        def added(step: Expr, totals: list[LoopValue]) -> list[LoopValue]:
            for i in range(together):
                totals = self._block(emit, at, columns, x, (step, i), totals)
            return totals

        variable, zeros = Variable(f"blocks{steps}", steps), emit.zeros(at.rows * at.vectors)
        return fold(emit.addresses, variable, (0, steps), "block", zeros, added)

    def _block(
        self, emit: Emitter, at: OutputTile, columns: BlockColumns, x: FilledRows,
        place: tuple[Expr, int], totals: list[LoopValue],
    ) -> list[LoopValue]:  # fmt: skip
        """The totals with those of the i-th block of a step."""
        b, size, vectors = emit.builder, emit.view.attributes["block"], range(at.vectors)
        step, i = place
        number = step * columns.together + i
        rows = [at.row_number(r) for r in range(at.rows)]
        sums = [each for row in rows for each in [x.start(emit, row, number)] * at.vectors]
        attributes = emit.view.attributes
        narrow = True if attributes["bits"] + attributes["high_bits"] < 8 else None
        for quad in range(size // QUAD):
            read = [columns.quad(v, step, i * (size // QUAD) + quad) for v in vectors]
            for r, row in enumerate(rows):
                wide = b.splat(x.quad(emit, row, number * (size // QUAD) + quad), emit.lanes)
                for v in vectors:
                    n = r * at.vectors + v
                    sums[n] = b.op("dot_quads", sums[n], read[v], wide, attribute=narrow)
        scales = [columns.scale(v, number) for v in vectors]
        minimums = [columns.minimum(v, number) for v in vectors] if columns.has_minimum else []
        added = []
        for r, row in enumerate(rows):
            scale = b.splat(x.scale(emit, row, number), emit.lanes)
            for v in vectors:
                n = r * at.vectors + v
                term = b.mul(b.convert(sums[n], emit.dtype), scales[v])
                if minimums:
                    whole = b.splat(x.whole(emit, row, number), emit.lanes)
                    term = b.fma(minimums[v], whole, term)
                added.append(b.fma(term, scale, totals[n]))
        return added
