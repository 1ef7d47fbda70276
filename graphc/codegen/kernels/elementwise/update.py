"""The recipe `update`: a box of a tensor is computed and stored where the tensor lies.

In: a body whose output is an input with a box of it changed; both are the same memory. Out: a nest
over the box, and its loops.
"""

from __future__ import annotations

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.common import declare_buffers, lanes_for
from graphc.codegen.kernels.elementwise.destinations import StoreDestination
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.kernels.elementwise.problem import Domain, NestProblem, loop_nest
from graphc.codegen.kernels.elementwise.rows import RowsPlan
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.nests.writer import write_nest
from graphc.codegen.target import Target
from graphc.errors import LoweringError
from graphc.ir.nodes import Graph
from graphc.schedule.box_updates import box_update


def lower_update(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body that changes a box. Raises LoweringError for another body."""
    builder = LoopBuilder(name)
    planned = _planned(builder, body, target)
    if planned is None:
        return builder.finish(1)
    plan, emit = planned
    return write_nest(plan.nest(), emit)


def plan_update(body: Graph, target: Target) -> RowsPlan | None:
    """The plan of such a kernel; None where the box is empty."""
    planned = _planned(LoopBuilder("update"), body, target)
    return None if planned is None else planned[0]


def _planned(
    builder: LoopBuilder, body: Graph, target: Target
) -> tuple[RowsPlan, NestEmitter] | None:
    """The plan over the box, and what its loops are written with."""
    update = box_update(body)
    if update is None:
        raise LoweringError("a kernel of the recipe update changes no box of its input")
    inputs, (buffer,) = declare_buffers(builder, body)
    if body.type_of(update.new).numel == 0:
        return None
    box = Graph(body.name, body.nodes, (update.new,), body.aliases)
    destination = StoreDestination(buffer, body.output_types[0].shape, low=update.low)
    evaluator = Evaluator(builder, box, inputs, lanes_for(body, target))
    over = loop_nest(Domain(NestProblem(box, (destination,), evaluator.lanes)))
    return RowsPlan.of(over), NestEmitter(builder, evaluator, (destination,))
