"""The recipe `contract`: the cheapest plan of the strategies, lowered.

In: a kernel's body around one contraction and its epilogue, a target. Out: its loops.
docs/contractions.md tells how they come about.
"""

from __future__ import annotations

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.common import declare_buffers, lanes_for
from graphc.codegen.kernels.contraction.emission.emitter import EmissionContext, Emitter
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.strategies.table import StrategyPlan, choose
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.nests.nest import Nest
from graphc.codegen.nests.writer import write_nest
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph


def contract_nest(body: Graph, target: Target) -> Nest | None:
    """The nest of such a kernel; None where it has no results."""
    lanes = lanes_for(body, target)
    if not next(problems(body, lanes)).has_results:
        return None
    return choose(body, lanes, target).nest()


def lower_contract(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one contraction and its epilogue."""
    lanes = lanes_for(body, target)
    problem = next(problems(body, lanes))
    if not problem.has_results:
        builder = LoopBuilder(name)
        declare_buffers(builder, body)
        return builder.finish(1, f"{problem.name}: no results")
    return plan_kernel(name, choose(body, lanes, target), lanes)


def plan_kernel(name: str, plan: StrategyPlan, lanes: int) -> Kernel:
    """The kernel of a plan; `lanes`: those of a full vector."""
    builder, body = LoopBuilder(name), plan.problem.view.body
    inputs, outputs = declare_buffers(builder, body)
    evaluator = Evaluator(builder, body, inputs, lanes)
    context = EmissionContext(builder, evaluator, outputs)
    return write_nest(plan.nest(), Emitter(context, plan.problem, plan.lanes))
