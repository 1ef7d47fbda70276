"""Copies of nodes, graphs and parts of graphs.

in : nodes, the order to take them in, and what is there already for some of their values
out: the nodes in a `GraphBuilder` or a `Draft`, on what stands there for their operands

There is one copier, `copy_nodes`. It only keeps the map from values of the old graph to those of
the new one; `place` puts a node there, and may put others in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence, Set
from typing import TypeVar

from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.draft import Draft, Values
from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import INPUT, Graph, Node, Value
from graphc.ir.recording import NOTES

T = TypeVar("T")
_made = tuple.__new__
"""A named tuple without a call of Python's: while one graph compiles a hundred are copied."""
# What becomes of a node: `visit(node, operands)` adds to a draft and returns the new results.
Visit = Callable[[Node, Values], Values]


def copy_nodes(
    nodes: Sequence[Node],
    order: Iterable[int],
    values: dict[Value, T],
    place: Callable[[Node, tuple[T, ...]], Sequence[T]],
    read: Callable[[Value, int], T] | None = None,
) -> None:
    """Place each node of `order` on what `values` has for its operands, and note its results there.
    A value that is in `values` from the start is replaced: the copies read that one. `read(value,
    reader)` gives what a node reads where that is not the same for all."""
    for identity in order:
        node = nodes[identity]
        if read is None:
            operands = tuple([values[operand] for operand in node.operands])
        else:
            operands = tuple([read(operand, identity) for operand in node.operands])
        results = place(node, operands)
        if len(results) == 1:
            values.setdefault(_made(Value, (identity, 0)), results[0])
            continue
        for index, result in enumerate(results):
            values.setdefault(Value(identity, index), result)
    notes = NOTES.get()
    if notes is not None:
        notes.copied(nodes, values)


def copy_graph(
    graph: Graph,
    operands: Iterable[T],
    place: Callable[[Node, tuple[T, ...]], Sequence[T]],
) -> dict[Value, T]:
    """Place all nodes of `graph`, its inputs being `operands`; what its values became."""
    values = {Value(identity): operand for identity, operand in enumerate(operands)}
    copy_nodes(graph.nodes, range(len(values), len(graph.nodes)), values, place)
    return values


def replayed(graph: Graph, draft: Draft, visit: Visit, live: Container[int] | None = None) -> Graph:
    """`graph` with each node replaced by what `visit` makes of it on the new operands. Inputs stay.
    Of the other nodes only those in `live` are visited (None: all)."""

    def place(node: Node, operands: Values) -> Values:
        if node.op == INPUT:
            return draft.add(node)
        draft.location = node.location
        return visit(node, operands)

    order: Iterable[int] = range(len(graph.nodes))
    if live is not None:
        order = [i for i in order if i in live or graph.nodes[i].op == INPUT]
    values: dict[Value, Value] = {}
    copy_nodes(graph.nodes, order, values, place)
    return draft.graph(graph.name, [values[value] for value in graph.outputs], graph.aliases)


def inlined(graph: Graph, draft: Draft, operands: Values) -> Values:
    """Add `graph`'s nodes to the draft, its inputs being `operands`; the values of its outputs.
    All nodes take the draft's location."""

    def place(node: Node, operands: Values) -> Values:
        return draft.add(
            Node(node.op, operands, node.attributes, node.types, node.regions, draft.location)
        )

    values = copy_graph(graph, operands, place)
    return tuple([values[value] for value in graph.outputs])


def extract(
    graph: Graph, name: str, inputs: list[Value], outputs: list[Value],
    aliases: tuple[tuple[int, int], ...] = (), late: Set[int] | None = None,
) -> Graph:  # fmt: skip
    """The part of `graph` between some of its values and others, as a graph of its own. Inputs
    that are inputs of `graph` keep their names; a value that is listed twice has the first input.
    The nodes that are not `late` (None: all are) stand just before the first that needs them."""
    builder = GraphBuilder(name)
    values: dict[Value, Var] = {}
    names_taken = set(graph.input_names)
    for number, value in enumerate(inputs):
        node = graph.nodes[value.node]
        is_input = node.op == INPUT
        with builder.at(node.location):
            label = str(node.attribute("name")) if is_input else f"saved{number}_{node.op}"
            while not is_input and label in names_taken:  # from an extraction before this one
                label += "_"
            values.setdefault(value, builder.input(label, graph.type_of(value)))
    needed = ancestors(graph.nodes, outputs, values.__contains__)
    order = sorted(needed) if late is None else _in_time(graph, needed, late)
    copy_nodes(graph.nodes, order, values, builder.copied)
    positions = {value.node: number for number, value in enumerate(inputs)}
    renumbered = [(output, positions[target]) for output, target in aliases]
    return builder.finish(*(values[value] for value in outputs), aliases=renumbered)


def _in_time(graph: Graph, needed: set[int], late: Set[int]) -> list[int]:
    """The nodes in order, those that are not `late` just before the first that needs them."""
    order: dict[int, None] = {}

    def there(value: Value) -> bool:
        return value.node in order or value.node not in needed

    for identity in (*sorted(needed & late), *sorted(needed - late)):
        before = ancestors(graph.nodes, [Value(identity)], there)
        order.update(dict.fromkeys(sorted(before)))
    return list(order)
