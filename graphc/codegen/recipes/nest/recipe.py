"""The recipe `nest`: which loops compute a body of elementwise ops, index maps and reductions.

In: a kernel body without anchor, and a target. Out: its loops, by the first form that fits: blocks
transposed in registers, sums of columns, phases, else rows, in stages where chains are long.
"""

from __future__ import annotations

from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.recipes.common import declare_buffers, lanes_for
from graphc.codegen.recipes.nest.columns import ColumnNest
from graphc.codegen.recipes.nest.destinations import by_parts
from graphc.codegen.recipes.nest.phases import PhasedNest
from graphc.codegen.recipes.nest.rows import Nest
from graphc.codegen.recipes.nest.stages import StagedNest
from graphc.codegen.recipes.nest.transposed import TransposedNest
from graphc.codegen.recipes.nest.widths import registers
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph


def lower_nest(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body without anchor. Buffers: the body's inputs, then its outputs."""
    builder = LoopBuilder(name)
    inputs, buffers = declare_buffers(builder, body)
    if all(type.numel == 0 for type in body.output_types):
        return builder.finish(1)  # what loops that never run read may not exist either
    body, outputs = by_parts(body, buffers)
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    nest = Nest(builder, evaluator, body, outputs)
    for special in (TransposedNest, ColumnNest):
        if special.fits(nest):
            return special(builder, evaluator, body, outputs).build()
    phased = PhasedNest.instead_of(nest)
    if phased is not None:
        return phased.build()
    wide = registers(nest)
    nest.lanes *= wide
    staged = StagedNest.instead_of(nest) if wide > 1 else None
    return (staged or nest).build()
