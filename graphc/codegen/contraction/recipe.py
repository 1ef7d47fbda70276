"""The recipe `contract`: the choice of the cost model, and the order of loops it asks for.

In: a kernel's body around one contraction and its epilogue, a target. Out: its loops.
docs/contractions.md tells how they come about.
"""

from __future__ import annotations

from graphc.codegen.builder import LoopBuilder
from graphc.codegen.contraction.by_blocks import ByBlocks
from graphc.codegen.contraction.by_channels import ByChannels
from graphc.codegen.contraction.by_columns import ByColumns
from graphc.codegen.contraction.by_groups import ByGroups
from graphc.codegen.contraction.by_lines import ByLines
from graphc.codegen.contraction.by_phases import ByPhases
from graphc.codegen.contraction.by_taps import ByTaps
from graphc.codegen.contraction.choice import Choice
from graphc.codegen.contraction.model import choose
from graphc.codegen.contraction.one_row import OneRow
from graphc.codegen.contraction.order import LoopOrder
from graphc.codegen.evaluate import Evaluator
from graphc.codegen.loops import Kernel
from graphc.codegen.nest.rows import declare_buffers, lanes_for
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph


def lower_contract(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one contraction and its epilogue."""
    builder = LoopBuilder(name)
    inputs, outputs = declare_buffers(builder, body)
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    choice = choose(body, evaluator.lanes, target)
    return variant(choice)(builder, evaluator, outputs, choice).build()


def variant(choice: Choice) -> type[LoopOrder]:
    """The order of loops a choice asks for."""
    if choice.right in ("streamed", "turned"):
        return OneRow
    if choice.right == "listed":
        return ByTaps
    if choice.right == "lines":
        return ByLines
    if choice.right == "batch":
        return ByChannels
    if choice.grouped:
        return ByGroups
    if len(choice.view.k) == 1 == len(choice.view.n) and choice.chain_by_chain:
        return ByBlocks
    if choice.interleaved:
        return ByPhases
    return ByColumns
