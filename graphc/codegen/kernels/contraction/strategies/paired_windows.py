"""Strategy: convolutions of bf16 by the processor's instruction for pairs, two FMAs in one.

As `unblocked`, over pairs of channels: a halo buffer and a copy of the weights hold them. Where
sums could be denormal, which the instruction flushes to zero, FMAs add up the same sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphc.codegen.kernels.contraction.cost.costs import COPIED, note
from graphc.codegen.kernels.contraction.cost.tiles import Columns, OutputTile
from graphc.codegen.kernels.contraction.cost.tilings import Tiling, tilings
from graphc.codegen.kernels.contraction.cost.vector_read import VectorRead, halo_read
from graphc.codegen.kernels.contraction.emission.axes import BatchNest, batch_loops
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.broadcast_operand import broadcast_of, packed_ahead
from graphc.codegen.kernels.contraction.operands.k_groups import PAIR_INSTRUCTION
from graphc.codegen.kernels.contraction.operands.least_magnitude import is_normal
from graphc.codegen.kernels.contraction.operands.pairs_view import LeastOf, PairsView
from graphc.codegen.kernels.contraction.operands.vector_operand import (
    HaloStage,
    column_names,
    vector_stage,
    vectors_of,
)
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.strategies.grouped import LANES, NOTED
from graphc.codegen.kernels.contraction.strategies.register_tile import (
    RegisterTile,
    TileLoops,
    store_results,
)
from graphc.codegen.kernels.contraction.strategies.split_k import wants_groups
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Clear,
    Compute,
    Effect,
    Fill,
    ForEach,
    Nest,
    NestPlace,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ir.types import DType
from graphc.records import record


@record
class PairedWindowsPlan:
    """A register tile of pairs; `singly`: the problem of products."""

    singly: ContractionProblem
    tiling: Tiling
    read: VectorRead
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.BATCH)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[PairedWindowsPlan]:
        view = problem.view
        if (
            not target.paired_products
            or view.op.pairing is None
            or view.types[0].dtype is not DType.bf16
            or problem.pairs
            or view.swapped
            or not problem.depth
        ):
            return
        of_pairs = ContractionProblem(PairsView(view.body), problem.lanes)
        for tiling in tilings(of_pairs, target, limit / PAIR_INSTRUCTION.share):
            if tiling.lanes not in LANES or tiling.is_interleaved or wants_groups(tiling):
                continue
            read = halo_read(tiling)
            if read is None or tiling.packing is None:
                continue
            yield _plan(problem, tiling, read)

    @property
    def problem(self) -> ContractionProblem:
        return self.tiling.problem

    @property
    def lanes(self) -> int:
        return self.tiling.lanes

    def nest(self) -> Nest:
        """As that of `unblocked`."""
        tiling, problem = self.tiling, self.problem
        loops = batch_loops(problem)
        (broadcast,) = packed_ahead(problem, tiling.packing, loops)
        vectors = vector_stage(problem, self.read, tiling.columns, tiling.tile, loops)
        assert isinstance(vectors, HaloStage)
        least = LeastOf(broadcast.name), LeastOf(vectors.name, vectors.whole)
        tiles = TileLoops(
            problem, tiling.columns, tiling.tile, tiling.unrolled, recomputed=False, packed=True,
            vectors=vectors,
        )  # fmt: skip
        rows = tiles.rows(parallel=True)
        body = tuple(
            ForEach(split, (ForEach(rows, (Compute(PairsTile(self, columns, name, vectors)),)),))
            for split, (name, columns) in zip(
                tiles.splits(), column_names(tiling.columns), strict=True
            )
        )
        return BatchNest(
            self.singly, (broadcast, vectors, *least), (Fill(vectors), Fill(least[1]), *body),
            self.reason, once=(Fill(broadcast), Fill(least[0]), Clear(vectors)),
            parallel=tiles.parallel(loops),
        ).nest(loops)  # fmt: skip


def _plan(problem: ContractionProblem, tiling: Tiling, read: VectorRead) -> PairedWindowsPlan:
    assert read.halo is not None
    fills = problem.typical(problem.batch_count)
    noted = fills * read.halo.elements / tiling.lanes * (COPIED + NOTED)
    copies = 2 * (tiling.packing_cost + read.cost) + noted
    products = tiling.products * 2 * PAIR_INSTRUCTION.share
    return PairedWindowsPlan(
        problem, tiling, read, products + copies + tiling.scattered,
        note(
            problem, "paired windows", f"{tiling.description}, pairs of bf16 by the instruction, "
            f"{read.description}", products=products, copies=copies, scattered=tiling.scattered,
        ),
    )  # fmt: skip


@record
class PairsTile:
    """The leaf of a tile's sums of pairs, and its results."""

    plan: PairedWindowsPlan
    columns: Columns
    column_name: str
    vectors: HaloStage

    @property
    def text(self) -> str:
        tile = self.plan.tiling.tile
        return f"register tile of pairs {tile.rows}x{tile.vectors}x{self.columns.lanes}"

    @property
    def effect(self) -> Effect:
        name = self.vectors.name
        return Effect(
            covers=("k",), reads=("broadcast", "broadcast_least", name, f"{name}_least"),
            stores=True, tails=OF_NUMBERS | {Tail.CLAMPED},
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        b, rows, vectors = emit.builder, place["rows"], place[self.column_name]
        at = OutputTile(
            emit.problem.batch, rows.first, rows.size, self.columns, vectors.first, vectors.size
        )
        lane = emit.tile_lane()
        fields = place.filled["broadcast_least"], place.filled[f"{self.vectors.name}_least"]

        def results(normal: bool) -> None:
            reader = vectors_of(emit, self.vectors, self.columns, place)
            tile = RegisterTile(emit, broadcast_of(emit, place), reader, normal)
            totals = tile.k_loops(at, lane, rows.number, self.plan.tiling.unrolled).total()
            if self.plan.read.guarded:
                totals = emit.guarded.tile(at, totals)
            store_results(emit, at, lane, totals)

        with b.if_(b.op("not", is_normal(emit, *fields)), cold=True) as branch:
            with branch.then():
                results(normal=False)
            with branch.otherwise():
                results(normal=True)
