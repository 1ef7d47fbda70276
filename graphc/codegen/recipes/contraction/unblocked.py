"""Strategy: columns, then rows, all of k at once.

For convolutions, and for products that are small or read where they lie: what one tile of columns
reads stays in the caches while all rows pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.recipes.contraction.broadcast_operand import broadcast_ahead
from graphc.codegen.recipes.contraction.costs import note
from graphc.codegen.recipes.contraction.emitter import EmissionContext, Emitter
from graphc.codegen.recipes.contraction.problem import ContractionProblem
from graphc.codegen.recipes.contraction.register_tile import (
    TileNest,
    last_overlaps,
    store_results,
)
from graphc.codegen.recipes.contraction.split_k import wants_groups
from graphc.codegen.recipes.contraction.tilings import Tiling, tilings
from graphc.codegen.recipes.contraction.vector_operand import vector_memory
from graphc.codegen.recipes.contraction.vector_read import VectorRead, column_read, halo_read
from graphc.codegen.target import Target
from graphc.ir.dims import Extent


@dataclass(frozen=True, slots=True)
class UnblockedPlan:
    """A register tile, and how it reads its columns."""

    problem: ContractionProblem
    tiling: Tiling
    read: VectorRead
    cost: float
    reason: str

    @staticmethod
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

    def lower(self, context: EmissionContext) -> Kernel:
        tiling, read = self.tiling, self.read
        emit = Emitter(context, self.problem, tiling.lanes)
        loops = emit.batch_loops()
        broadcast = broadcast_ahead(emit, tiling.packing, loops)
        memory = vector_memory(emit, read, tiling.tile.rows, tiling.tile.vectors)
        overlaps = tiling.packing is None and last_overlaps(emit, tiling.tile)

        def element(split: bool) -> Extent:
            return TileNest(
                emit, tiling.columns, tiling.tile, tiling.unrolled,
                recomputed=read.guarded and emit.dtype.is_float and self.problem.depth != 0,
                broadcast=broadcast, vectors=memory.for_batch_element(),
                store=partial(store_results, emit),
                overlaps=overlaps and not emit.view.epilogue_reads,
            ).write(split)  # fmt: skip

        return emit.over_batch(loops, element, self.reason)
