"""A graph under construction by a pass.

in : finished nodes, or ops and operands to make nodes of
out: a graph of the nodes added

A pass copies most nodes as they are, so a `Draft` takes finished nodes: types and locations are
handed on and not inferred anew as a `GraphBuilder` would. Only what a pass makes is inferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.ir.nodes import CONSTANT, Constant, Graph, Location, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import TensorType

Values = tuple[Value, ...]
_made = tuple.__new__  # see copying.py


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
            return (_made(Value, (identity, 0)),)
        return tuple(Value(identity, index) for index in range(len(node.types)))

    def add_moved(self, node: Node, operands: Values) -> Values:
        """Append a node of another graph, on operands of this draft; its results."""
        return self.add(moved(node, operands))

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


def moved(node: Node, operands: Values) -> Node:
    """`node` on other operands of the same types."""
    if operands == node.operands:
        return node
    return Node(node.op, operands, node.attributes, node.types, node.regions, node.location)
