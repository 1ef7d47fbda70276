"""The recipe `nest`: which loops compute a body of elementwise ops, index maps and reductions.

In: a kernel body without anchor, and a target. Out: its loops, by the first strategy that fits.
"""

from __future__ import annotations

from typing import Protocol

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.common import declare_buffers, lanes_for
from graphc.codegen.kernels.elementwise.columns import ColumnsPlan
from graphc.codegen.kernels.elementwise.destinations import by_parts
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.kernels.elementwise.phases import PhasesPlan
from graphc.codegen.kernels.elementwise.problem import Domain, LoopNest, NestProblem, loop_nest
from graphc.codegen.kernels.elementwise.rows import RowsPlan
from graphc.codegen.kernels.elementwise.stages import StagesPlan
from graphc.codegen.kernels.elementwise.transposed import TransposedPlan
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.nests.nest import Nest
from graphc.codegen.nests.writer import write_nest
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph


class NestPlan(Protocol):
    """What a strategy would do with the loops of a domain: frozen, fields of its own."""

    @property
    def over(self) -> LoopNest: ...

    def nest(self) -> Nest:
        """The kernel as a value."""


class NestStrategy(Protocol):
    def of(self, nest: LoopNest, /) -> NestPlan | None:
        """The plan for a nest; None where the strategy does not fit."""


STRATEGIES: tuple[NestStrategy, ...] = (
    TransposedPlan,
    ColumnsPlan,
    PhasesPlan,
    StagesPlan,
    RowsPlan,
)
"""In the order in which they are asked: each is better than those behind it where it fits."""


def lower_nest(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body without anchor. Buffers: the body's inputs, then its outputs."""
    builder = LoopBuilder(name)
    planned = _planned(builder, body, target)
    if planned is None:
        return builder.finish(1)
    plan, emit = planned
    return write_nest(plan.nest(), emit)


def plan_elements(body: Graph, target: Target) -> NestPlan | None:
    """The plan of such a kernel; None where it has no results."""
    planned = _planned(LoopBuilder("elements"), body, target)
    return None if planned is None else planned[0]


def _planned(
    builder: LoopBuilder, body: Graph, target: Target
) -> tuple[NestPlan, NestEmitter] | None:
    """The plan, and what its loops are written with; None where no output has elements: what loops
    that never run read may not exist either."""
    inputs, buffers = declare_buffers(builder, body)
    if all(type.numel == 0 for type in body.output_types):
        return None
    body, outputs = by_parts(body, buffers)
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    plan = choose(loop_nest(Domain(NestProblem(body, outputs, evaluator.lanes))))
    return plan, NestEmitter(builder, evaluator, outputs)


def choose(nest: LoopNest) -> NestPlan:
    """The plan of the first strategy that fits."""
    plans = (strategy.of(nest) for strategy in STRATEGIES)
    return next(plan for plan in plans if plan is not None)
