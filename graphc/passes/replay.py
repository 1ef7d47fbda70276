"""Replaying a graph node by node: what every pass is made of.

in : a graph, and a visitor that says what becomes of each node
out: a new graph with the same name, inputs, aliases and, in the same places, outputs

A pass copies most nodes as they are, so a `Draft` takes finished nodes: types and locations are
handed on and not inferred anew as a `GraphBuilder` would. Only what a pass makes is inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from graphc.ir.nodes import CONSTANT, INPUT, Constant, Graph, Location, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import TensorType

Values = tuple[Value, ...]


class Draft:
    """The nodes of a graph under construction. Nodes made here carry `location`."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.location: Location | None = None

    def add(self, node: Node) -> Values:
        """Append a node whose operands are values of this draft; its results."""
        self.nodes.append(node)
        identity = len(self.nodes) - 1
        if len(node.types) == 1:
            return (Value(identity),)
        return tuple(Value(identity, index) for index in range(len(node.types)))

    def node(self, value: Value) -> Node:
        """The node that makes `value`."""
        return self.nodes[value.node]

    def type(self, value: Value) -> TensorType:
        return self.nodes[value.node].types[value.index]

    def shape(self, value: Value) -> tuple[int, ...]:
        return self.type(value).shape

    def made_by(self, value: Value, op: str) -> Node | None:
        """The node that makes `value` if it is an `op`."""
        node = self.nodes[value.node]
        return node if node.op == op else None

    def make(self, name: str, *operands: Value, **attributes: Any) -> Node:
        """A node with inferred types, not yet part of the draft."""
        op = lookup(name)
        canonical = op.canonical(attributes)
        types = op.infer(tuple(self.type(operand) for operand in operands), canonical)
        ordered = tuple(sorted(canonical.items()))
        return Node(name, operands, ordered, types, location=self.location)

    def make_constant(self, array: Any) -> Node:
        """A constant node, not yet part of the draft."""
        value = array if isinstance(array, Constant) else Constant(np.asarray(array))
        return Node(CONSTANT, (), (("value", value),), (value.type,), location=self.location)

    def graph(
        self, name: str, outputs: Sequence[Value], aliases: tuple[tuple[int, int], ...] = ()
    ) -> Graph:
        return Graph(name, tuple(self.nodes), tuple(outputs), aliases)


# What becomes of a node: `visit(node, operands)` adds to the draft and returns the new results.
Visit = Callable[[Node, Values], Values]


def replayed(graph: Graph, draft: Draft, visit: Visit, live: Container[int] | None = None) -> Graph:
    """`graph` with each node replaced by what `visit` makes of it on the new operands. Inputs stay.
    Of the other nodes only those in `live` are visited (None: all)."""
    results: list[Values] = []
    for identity, node in enumerate(graph.nodes):
        if node.op == INPUT:
            results.append(draft.add(node))
        elif live is None or identity in live:
            draft.location = node.location
            results.append(visit(node, _mapped(node.operands, results)))
        else:
            results.append(())
    return draft.graph(graph.name, _mapped(graph.outputs, results), graph.aliases)


def inlined(graph: Graph, draft: Draft, operands: Values) -> Values:
    """Add `graph`'s nodes to the draft, its inputs being `operands`; the values of its outputs.
    All nodes take the draft's location."""
    results: list[Values] = []
    operands_left = iter(operands)
    for node in graph.nodes:
        if node.op == INPUT:
            results.append((next(operands_left),))
        else:
            values = _mapped(node.operands, results)
            results.append(draft.add(
                Node(node.op, values, node.attributes, node.types, node.regions, draft.location)
            ))  # fmt: skip
    return _mapped(graph.outputs, results)


def moved(node: Node, operands: Values) -> Node:
    """`node` on other operands of the same types."""
    if operands == node.operands:
        return node
    return Node(node.op, operands, node.attributes, node.types, node.regions, node.location)


def _mapped(values: Values, results: list[Values]) -> Values:
    return tuple([results[value.node][value.index] for value in values])
