"""Which operands of a product are computed where they are read: each element is read once.

in : a graph and a matrix product of one row
out: the nodes that make a matrix of another one element by element, as a cast does: storing it
     would move more memory than the product itself
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.ir.dims import always_le
from graphc.ir.nodes import CONSTANT, Graph, Value
from graphc.schedule.merging import cost_of

LIMIT = 4
"""Operations for an element that are done while memory is waited for."""
PRODUCTS = ("matmul", "paired_matmul")


def read_once(
    graph: Graph, identity: int, kinds: Sequence[str], users: Mapping[Value, Sequence[int]]
) -> set[int]:
    """The elementwise nodes behind the matrix that a product of one row reads; none where others
    read them too, or where they read more than one element of memory."""
    node = graph.nodes[identity]
    if node.op not in PRODUCTS or not always_le(graph.type_of(node.operands[0]).shape[-2], 1):
        return set()
    inlined: set[int] = set()
    value, reader, work = node.operands[1], identity, 0
    while set(users[value]) == {reader}:
        source, kind = graph.nodes[value.node], kinds[value.node]
        varying = [each for each in source.operands if not _is_uniform(graph, each)]
        if kind not in ("movement", "elementwise") or len(varying) != 1:
            break
        if kind == "elementwise":
            work += cost_of(graph, value.node)
            if work > LIMIT:
                break
            inlined.add(value.node)
        reader, (value,) = value.node, varying
    return inlined


def _is_uniform(graph: Graph, value: Value) -> bool:
    """Whether all elements are one constant."""
    node = graph.nodes[value.node]
    if node.op == "broadcast":
        return _is_uniform(graph, node.operands[0])
    return node.op == CONSTANT and node.attribute("value").scalar is not None
