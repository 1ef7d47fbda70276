"""Composites without an operator, in the ops they are made of.

in : a graph as traced
out: the graph in which each composite has a rule in this operator set, or is expanded, recursively,
     inside branches and loops too
"""

from __future__ import annotations

from frontend.onnx.exporting.ops import rule_of
from graphc.ir.copying import inlined, replayed
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.nodes import CONSTANT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.ops.kinds.composite import Composite
from graphc.records import replace

FIRST_RESULT = ("attention",)
"""Composites whose operator gives the first result alone."""


def expanded(graph: Graph, opset: int) -> Graph:
    """The graph, its composites kept or expanded."""
    draft = Draft()
    read = {value for node in graph.nodes for value in node.operands} | set(graph.outputs)
    identities = {id(node): i for i, node in enumerate(graph.nodes)}

    def visit(node: Node, operands: Values) -> Values:
        if node.regions:
            regions = tuple([expanded(region, opset) for region in node.regions])
            return draft.add(moved(replace(node, regions=regions), operands))
        op = None if node.op == CONSTANT else lookup(node.op)
        kept = rule_of(node.op, opset) is not None
        if kept and node.op in FIRST_RESULT:
            kept = Value(identities[id(node)], 1) not in read
        if kept or not isinstance(op, Composite):
            return draft.add(moved(node, operands))
        types = tuple([draft.type(value) for value in operands])
        definition = op.definition(types, dict(node.attributes))
        return inlined(expanded(definition, opset), draft, operands)

    return replayed(graph, draft, visit)
