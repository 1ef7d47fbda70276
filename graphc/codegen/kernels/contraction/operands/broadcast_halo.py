"""The broadcast operand through a halo buffer: what windows sweep over, with zeros around it.

In: the plan of the buffer, of a contraction whose rows are positions of a plane of a size known
only at run time. Out: the stage that fills it for each element of the batch, and what reads it.
With the zeros no product has a guard, so one register tile serves the border and all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.kernels.contraction.cost.halo_plan import HaloPlan
from graphc.codegen.kernels.contraction.emission.axes import batch_of
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.broadcast_operand import KRun
from graphc.codegen.kernels.contraction.operands.halo import FilledHalo, HaloBuffer
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import Holds, NestPlace, Room
from graphc.ops.kinds.index_expr import Expr, Variable
from graphc.records import record
from graphc.schedule.access import Index


@record
class BroadcastHalo:
    """Reads elements from the buffer."""

    emit: Emitter
    filled: FilledHalo

    def element(
        self, batch: Index, m: Index, k: Index, tile: Expr, row: int, run: KRun | None
    ) -> LoopValue:
        case = self.emit.view.broadcast(batch, m, k)
        if case is None:  # on padding, wherever the tile is
            return self.emit.zero
        return self.emit.builder.splat(self.filled.load(case), self.emit.lanes)


@record
class BroadcastHaloStage:
    """The stage of the buffer; `batch`: the loops over the batch along which it differs."""

    problem: ContractionProblem
    plan: HaloPlan
    batch: tuple[str, ...]
    name: str = "broadcast"
    holds: Holds = Holds.BROADCAST

    @property
    def room(self) -> Room:
        batch = ((name, 1) for name in self.batch)
        return (*batch, ("rows", self.problem.rows), ("k", self.problem.view.k[0]))

    @property
    def whole(self) -> tuple[str, ...]:
        return self.batch

    @property
    def text(self) -> str:
        return f"halo {''.join(f'[{axis.extent}]' for axis in self.plan.axes)}"

    def declare(self, emit: Emitter) -> HaloBuffer:
        return HaloBuffer(emit.copier, emit.view, self.plan)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        place.memory[self.name].clear()

    def fill(self, emit: Emitter, place: NestPlace) -> BroadcastHalo:
        return BroadcastHalo(emit, place.memory[self.name].fill())


def broadcast_halos(
    problem: ContractionProblem, plan: HaloPlan | None, loops: Sequence[Variable]
) -> tuple[BroadcastHaloStage, ...]:
    """The stage, where there is a plan; `loops`: over the batch."""
    if plan is None:
        return ()
    return (BroadcastHaloStage(problem, plan, batch_of(problem, loops, Holds.BROADCAST)),)
