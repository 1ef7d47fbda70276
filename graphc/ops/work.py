"""How much work an op is, in additions of single elements: what cost models are built on.

in : a graph and one of its nodes
out: about how many additions cost as much as computing it; a multiplication that is summed counts
     one, a place that is looked up or a comparison in a sort a hundred
"""

from __future__ import annotations

import math

from graphc.ir.dims import Extent
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


Terms = tuple[tuple[float, Extent], ...]
"""A sum: factors, and what each is of."""


def additions(graph: Graph, node: Node) -> float:
    """About how many additions a node is. Infinite for branches and loops, which are not taken for
    something that could be done twice."""
    return float(sum([factor * typical(count) for factor, count in terms(graph, node)]))


def terms(graph: Graph, node: Node) -> Terms:
    """The same as a sum in the sizes of the graph."""
    if node.op in (INPUT, CONSTANT):
        return ()
    op = lookup(node.op)
    operands = tuple(graph.type_of(value) for value in node.operands)
    if isinstance(op, Region):
        return ((math.inf, 1),)
    if isinstance(op, Contract):
        space = op.space(operands, **dict(node.attributes))
        return ((1.0, math.prod((*space.batch, *space.m, *space.n, *space.k))),)
    if isinstance(op, Composite):
        definition = op.definition(operands, dict(node.attributes))
        return tuple([term for inner in definition.nodes for term in terms(definition, inner)])
    if op.kind == "movement":
        return ()
    if op.kind in ("gather", "scatter"):
        moved = node.types[0] if op.kind == "gather" else operands[2]
        return ((SINGLE_ELEMENT, operands[1].numel), (LOOKED_UP, moved.numel))
    counts = [type.numel for type in (*operands, *node.types)]
    elements = max(counts, key=typical, default=0)
    if op.kind == "sort" and node.op == "argsort":
        return ((math.log2(max(typical(elements), 2)) * SINGLE_ELEMENT, elements),)
    if op.kind in ("scan", "argreduce", "sort"):
        return ((SINGLE_ELEMENT, elements),)
    return ((float(getattr(op, "cost", 1)), elements),)


def total(graph: Graph) -> float:
    """The work of all nodes of a graph."""
    return sum(additions(graph, node) for node in graph.nodes)
