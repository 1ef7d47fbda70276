"""How much work an op is, in additions of single elements: what cost models are built on.

in : a graph and one of its nodes
out: about how many additions cost as much as computing it; a multiplication that is summed counts
     one, a place that is looked up or a comparison in a sort a hundred
"""

from __future__ import annotations

import math

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node
from graphc.ir.registry import lookup
from graphc.ir.size_guards import typical
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.contract import Contract
from graphc.ops.kinds.region import Region

SINGLE_ELEMENT = 100.0
"""Additions in the time of one element that is read by itself."""
LOOKED_UP = 10.0
"""Additions in the time of one element of those that are read from a place that was looked up."""


def additions(graph: Graph, node: Node) -> float:
    """About how many additions a node is. Infinite for branches and loops, which are not taken for
    something that could be done twice."""
    if node.op in (INPUT, CONSTANT):
        return 0.0
    op = lookup(node.op)
    operands = tuple(graph.type_of(value) for value in node.operands)
    if isinstance(op, Region):
        return math.inf
    if isinstance(op, Contract):
        space = op.space(operands, **dict(node.attributes))
        extents = (*space.batch, *space.m, *space.n, *space.k)
        return float(math.prod(map(typical, extents)))
    if isinstance(op, Composite):
        return total(op.definition(operands, dict(node.attributes)))
    if op.kind == "movement":
        return 0.0
    if op.kind in ("gather", "scatter"):
        moved = node.types[0] if op.kind == "gather" else operands[2]
        return typical(operands[1].numel) * SINGLE_ELEMENT + typical(moved.numel) * LOOKED_UP
    elements = max((typical(type.numel) for type in (*operands, *node.types)), default=0)
    if op.kind == "sort":
        return elements * math.log2(max(elements, 2)) * SINGLE_ELEMENT
    if op.kind in ("scan", "argreduce"):
        return elements * SINGLE_ELEMENT
    return float(getattr(op, "cost", 1)) * elements


def total(graph: Graph) -> float:
    """The work of all nodes of a graph."""
    return sum(additions(graph, node) for node in graph.nodes)
