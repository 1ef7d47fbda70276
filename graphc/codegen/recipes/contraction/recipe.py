"""The recipe `contract`: the choice of the cost model, and the order of loops it asks for.

In: a kernel's body around one contraction and its epilogue, a target. Out: its loops.
docs/contractions.md tells how they come about.
"""

from __future__ import annotations

from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.recipes.common import declare_buffers, lanes_for
from graphc.codegen.recipes.contraction.blocked import ByBlocks
from graphc.codegen.recipes.contraction.choice import Choice
from graphc.codegen.recipes.contraction.cost_model import choose
from graphc.codegen.recipes.contraction.depthwise_wgrad import ByChannels
from graphc.codegen.recipes.contraction.direct_conv import ByLines
from graphc.codegen.recipes.contraction.gemv import OneRow
from graphc.codegen.recipes.contraction.loop_order import LoopOrder
from graphc.codegen.recipes.contraction.parity_split import ByPhases
from graphc.codegen.recipes.contraction.split_k import ByGroups
from graphc.codegen.recipes.contraction.tap_list_conv import ByTaps
from graphc.codegen.recipes.contraction.unblocked import ByColumns
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
