"""The recipe `nest`: which loops compute a body of elementwise ops, index maps and reductions.

In: a kernel body without anchor, and a target. Out: its loops, by the first strategy that fits.
"""

from __future__ import annotations

from typing import Protocol

from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.recipes.common import declare_buffers, lanes_for
from graphc.codegen.recipes.nest.columns import ColumnsPlan
from graphc.codegen.recipes.nest.destinations import by_parts
from graphc.codegen.recipes.nest.emitter import NestEmitter
from graphc.codegen.recipes.nest.phases import PhasesPlan
from graphc.codegen.recipes.nest.problem import Domain, LoopNest, NestProblem, loop_nest
from graphc.codegen.recipes.nest.rows import RowsPlan
from graphc.codegen.recipes.nest.stages import StagesPlan
from graphc.codegen.recipes.nest.transposed import TransposedPlan
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph


class NestPlan(Protocol):
    """What a strategy would do for a nest: frozen, fields of its own."""

    def lower(self, emit: NestEmitter) -> Kernel:
        """Writes the kernel."""


class NestStrategy(Protocol):
    def of(self, nest: LoopNest) -> NestPlan | None:
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
    inputs, buffers = declare_buffers(builder, body)
    if all(type.numel == 0 for type in body.output_types):
        return builder.finish(1)  # what loops that never run read may not exist either
    body, outputs = by_parts(body, buffers)
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    plan = choose(loop_nest(Domain(NestProblem(body, outputs, evaluator.lanes))))
    return plan.lower(NestEmitter(builder, evaluator, outputs))


def choose(nest: LoopNest) -> NestPlan:
    """The plan of the first strategy that fits."""
    plans = (strategy.of(nest) for strategy in STRATEGIES)
    return next(plan for plan in plans if plan is not None)
