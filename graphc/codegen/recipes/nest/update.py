"""The recipe `update`: a box of a tensor is computed and stored where the tensor lies.

In: a body whose output is an input with a box of it changed; both are the same memory. Out: the
loops of a nest over the box.
"""

from __future__ import annotations

from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.recipes.common import declare_buffers, lanes_for
from graphc.codegen.recipes.nest.destinations import StoreDestination
from graphc.codegen.recipes.nest.emitter import NestEmitter
from graphc.codegen.recipes.nest.problem import Domain, NestProblem, loop_nest
from graphc.codegen.recipes.nest.rows import RowsPlan
from graphc.codegen.target import Target
from graphc.errors import LoweringError
from graphc.ir.nodes import Graph
from graphc.schedule.box_updates import box_update


def lower_update(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body that changes a box. Raises LoweringError for another body."""
    update = box_update(body)
    if update is None:
        raise LoweringError("a kernel of the recipe update changes no box of its input")
    builder = LoopBuilder(name)
    inputs, (buffer,) = declare_buffers(builder, body)
    if body.type_of(update.new).numel == 0:
        return builder.finish(1)
    box = Graph(body.name, body.nodes, (update.new,), body.aliases)
    destination = StoreDestination(buffer, body.output_types[0].shape, low=update.low)
    evaluator = Evaluator(builder, box, inputs, lanes_for(body, target))
    nest = loop_nest(Domain(NestProblem(box, (destination,), evaluator.lanes)))
    plan = RowsPlan.of(nest)
    if plan is None:
        raise LoweringError("a box has no rows to store it by")
    return plan.lower(NestEmitter(builder, evaluator, (destination,)))
