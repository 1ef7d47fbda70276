"""The recipe `contract`: the choice of the cost model, and the order of loops it asks for.

In: a kernel's body around one contraction and its epilogue, a target. Out: its loops.
docs/contractions.md tells how they come about.
"""

from __future__ import annotations

from graphc.codegen.batch_contraction import BatchContraction
from graphc.codegen.builder import LoopBuilder
from graphc.codegen.contraction import Contraction
from graphc.codegen.contraction_choice import Choice
from graphc.codegen.contraction_model import choose
from graphc.codegen.evaluate import Evaluator
from graphc.codegen.grouped_contraction import GroupedContraction
from graphc.codegen.listed_contraction import ListedContraction
from graphc.codegen.loops import Kernel
from graphc.codegen.nest import declare_buffers, lanes_for
from graphc.codegen.phased_contraction import PhasedContraction
from graphc.codegen.product_contraction import ProductContraction
from graphc.codegen.target import Target
from graphc.codegen.thin_contraction import ThinContraction
from graphc.ir.nodes import Graph


def lower_contract(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one contraction and its epilogue."""
    builder = LoopBuilder(name)
    inputs, outputs = declare_buffers(builder, body)
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    choice = choose(body, evaluator.lanes, target)
    return variant(choice)(builder, evaluator, outputs, choice).build()


def variant(choice: Choice) -> type[Contraction]:
    """The order of loops a choice asks for."""
    if choice.right in ("streamed", "turned"):
        return ThinContraction
    if choice.right == "listed":
        return ListedContraction
    if choice.right == "batch":
        return BatchContraction
    if choice.grouped:
        return GroupedContraction
    if len(choice.view.k) == 1 == len(choice.view.n) and choice.chain_by_chain:
        return ProductContraction
    if choice.interleaved:
        return PhasedContraction
    return Contraction
