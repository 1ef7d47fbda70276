"""Strategy: columns, then rows, all of k at once.

For convolutions, and for products that are small or read where they lie: what one tile of columns
reads stays in the caches while all rows pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphc.codegen.kernels.contraction.cost.costs import note
from graphc.codegen.kernels.contraction.cost.tilings import Tiling, tilings
from graphc.codegen.kernels.contraction.cost.vector_read import VectorRead, column_read, halo_read
from graphc.codegen.kernels.contraction.emission.axes import BatchNest, batch_loops
from graphc.codegen.kernels.contraction.operands.broadcast_halo import broadcast_halos
from graphc.codegen.kernels.contraction.operands.broadcast_operand import packed_ahead
from graphc.codegen.kernels.contraction.operands.vector_operand import HaloStage, vector_stage
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.strategies.register_tile import TileLoops, last_overlaps
from graphc.codegen.kernels.contraction.strategies.split_k import wants_groups
from graphc.codegen.nests.nest import Clear, Fill, Nest
from graphc.codegen.target import Target
from graphc.records import record


@record
class UnblockedPlan:
    """A register tile, and how it reads its columns."""

    problem: ContractionProblem
    tiling: Tiling
    read: VectorRead
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.BATCH | Coordinates.ROWS | Coordinates.SUM)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[UnblockedPlan]:
        for tiling in tilings(problem, target, limit):
            if tiling.is_interleaved:
                continue  # cheaper by parity_split, whatever is read how
            read = column_read(tiling, target)
            if read is None and not wants_groups(tiling):
                read = halo_read(tiling)
            if read is None:
                continue
            yield UnblockedPlan(
                problem, tiling, read, tiling.bound + read.cost + tiling.scattered,
                note(
                    problem, "unblocked", f"{tiling.description}, {read.description}",
                    products=tiling.products, copies=read.cost + tiling.packing_cost,
                    scattered=tiling.scattered,
                ),
            )  # fmt: skip

    @property
    def lanes(self) -> int:
        return self.tiling.lanes

    def nest(self) -> Nest:
        tiling, read, problem = self.tiling, self.read, self.problem
        loops = batch_loops(problem)
        broadcast = packed_ahead(problem, tiling.packing, loops)
        windows = broadcast_halos(problem, tiling.halo, loops)
        vectors = vector_stage(problem, read, tiling.columns, tiling.tile, loops)
        guarded = read.guarded or tiling.skips
        overlaps = tiling.packing is None and last_overlaps(problem, tiling.tile)
        tiles = TileLoops(
            problem, tiling.columns, tiling.tile, tiling.unrolled,
            recomputed=guarded and problem.dtype.is_float and problem.depth != 0,
            packed=bool(broadcast or windows), vectors=vectors,
            overlaps=overlaps and not problem.view.epilogue_reads,
        )  # fmt: skip
        halos = (*windows, *((vectors,) if isinstance(vectors, HaloStage) else ()))
        parallel = tiles.parallel(loops)
        return BatchNest(
            problem, (*broadcast, *windows, *(() if vectors is None else (vectors,))),
            (*map(Fill, halos), *tiles.statements(parallel[:1] == (tiles.rows(True),))),
            self.reason, once=(*map(Fill, broadcast), *map(Clear, halos)), parallel=parallel,
        ).nest(loops)  # fmt: skip
