"""What a kernel is made of: the nodes computed in it, what it reads, its body.

in : a graph, the nodes that one kernel computes, and all nodes kept in memory
out: the body, a small graph of its own, and the recipe that makes loops of it
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from graphc.ir.copying import copy_nodes
from graphc.ir.draft import Draft, Values
from graphc.ir.graph_queries import ancestors, postorder
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.schedule.access import REDUCTIONS
from graphc.schedule.groups import FusionGroup

BODY_NAME = "kernel"
"""The name of every kernel's body: those of equal text are one kernel."""


def used_results(graph: Graph) -> list[list[int]]:
    """Of each node the results that are used, at least one: of several only a composite's (the
    schedule splits other nodes with several)."""
    used: dict[int, set[int]] = {}
    for value in (*graph.outputs, *(v for node in graph.nodes for v in node.operands)):
        if len(graph.nodes[value.node].types) > 1:
            used.setdefault(value.node, set()).add(value.index)
    return [sorted(used.get(identity, (0,))) for identity in range(len(graph.nodes))]


def is_source(graph: Graph, value: Value) -> bool:
    return graph.nodes[value.node].op in (INPUT, CONSTANT)


def body_nodes(graph: Graph, nodes: list[int], kept: Container[int]) -> set[int]:
    """The nodes a kernel of these kept nodes is made of: they and those computed again in it."""
    own = set(nodes)
    return ancestors(
        graph.nodes, map(Value, nodes), lambda v: v.node not in own and in_memory(graph, v, kept)
    )


def read_by(graph: Graph, order: Iterable[int], inside: Container[int]) -> list[Value]:
    """The operands of nodes, taken in an order, that are made outside: what lies in memory."""
    operands = (operand for identity in order for operand in graph.nodes[identity].operands)
    return list(dict.fromkeys(operand for operand in operands if operand.node not in inside))


def in_memory(graph: Graph, value: Value, kept: Container[int]) -> bool:
    """Whether a value lies in memory between kernels."""
    node = graph.nodes[value.node]
    if node.op == CONSTANT:
        # A uniform constant is written into the code; others are passed by pointer.
        return node.attribute("value").scalar is None
    return node.op == INPUT or value.node in kept


def kernel_body(
    graph: Graph, nodes: list[int], writes: list[Value], kept: Container[int]
) -> tuple[Graph, list[int], list[Value]]:
    """A kernel of these kept nodes as a graph of its own: they and the nodes computed again inside
    it; inputs are what it reads from memory, in order of first use, so that equal layers have equal
    kernels; outputs are `writes`. Also the nodes that its own stand for, behind its inputs, and the
    values read, in input order."""
    needed = body_nodes(graph, nodes, kept)
    # As the kept nodes come to need them: where the same work was written in another order, as
    # gradients of equal layers may be, it is the same kernel.
    order = postorder(graph.nodes, sorted(nodes), needed)
    inputs = read_by(graph, order, needed)
    draft = Draft()
    values: dict[Value, Value] = {}
    for number, value in enumerate(inputs):
        name = (("name", f"x{number}"),)
        (values[value],) = draft.add(Node(INPUT, (), name, (graph.type_of(value),)))

    def place(node: Node, operands: Values) -> Values:
        return draft.add(Node(node.op, operands, node.attributes, node.types, node.regions))

    copy_nodes(graph.nodes, order, values, place)
    return draft.graph(BODY_NAME, [values[value] for value in writes]), order, inputs


def main_node(graph: Graph, group: FusionGroup) -> int:
    """The node a kernel is best known by: its anchor, else its last reduction, else its last."""
    if group.anchor is not None:
        return group.anchor
    kinds = {node: lookup(graph.nodes[node].op).kind for node in group.nodes}
    reductions = [node for node, kind in kinds.items() if kind in REDUCTIONS]
    return max(reductions or group.nodes)


def recipe_of(graph: Graph, anchor: int | None) -> str:
    """The name of the recipe that makes loops around an anchor (None: of a nest), or `region`."""
    if anchor is None:
        return "nest"
    op = lookup(graph.nodes[anchor].op)
    return str(op.recipe if op.kind == "composite" else op.kind)
