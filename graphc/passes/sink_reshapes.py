"""Reshapes of what products give, moved behind the elementwise work on it.

in : a graph without composites but those with a recipe
out: the graph in which elementwise work on a product's results has the product's shape

A layer on [batch, time, channels] multiplies [batch · time, channels] and reshapes the result. An
activation or a residual behind that reshape has another shape than the product, so it could not be
computed where the product's results still lie in registers. Elementwise work has no shape of its
own: it moves ahead of the reshape. It stays where something else than elementwise work reads the
reshaped value, as a normalisation does, whose sums would then run over another shape than the rest
of it.
"""

from __future__ import annotations

from typing import Any

from graphc.ir.copying import replayed
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.kinds.contract import Contract
from graphc.ops.kinds.elementwise import Elementwise
from graphc.records import replace


def sink_reshapes(graph: Graph) -> Graph:
    """Move elementwise work ahead of the reshapes of products, also inside regions.

    %3 = matmul(%x, %w) : f32[6,4]              %3 = matmul(%x, %w) : f32[6,4]
    %4 = reshape(%3) : f32[2,3,4]               %4 = reshape(%r) : f32[6,4]
    %5 = add(%4, %r) : f32[2,3,4]          =>   %5 = add(%3, %4) : f32[6,4]
    %6 = relu(%5) : f32[2,3,4]                  %6 = relu(%5) : f32[6,4]
                                                %7 = reshape(%6) : f32[2,3,4]
    """
    return _Sinking(graph).run()


class _Sinking:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.draft = Draft()
        self.users = graph.users()
        self.outputs = set(graph.outputs)
        self.behind_products: set[int] = set()
        """Nodes of the draft: products, and elementwise work on their results."""

    def run(self) -> Graph:
        return replayed(self.graph, self.draft, self._visit)

    def _visit(self, node: Node, operands: Values) -> Values:
        if node.regions:
            node = replace(node, regions=tuple(map(sink_reshapes, node.regions)))
        op = None if node.op == CONSTANT else lookup(node.op)
        shape = self._sunk_shape(node, operands) if isinstance(op, Elementwise) else None
        if shape is None:
            results = self.draft.add(moved(node, operands))
            self._note(op, operands, results[0])
            return results
        inner = tuple(self._reshaped(value, shape) for value in operands)
        (result,) = self.draft.add(self.draft.make(node.op, *inner, **dict(node.attributes)))
        self.behind_products.add(result.node)
        return self.draft.add(self.draft.make("reshape", result, shape=node.types[0].shape))

    def _note(self, op: Any, operands: Values, result: Value) -> None:
        behind = any(value.node in self.behind_products for value in operands)
        if isinstance(op, Contract) or (isinstance(op, Elementwise) and behind):
            self.behind_products.add(result.node)

    def _sunk_shape(self, node: Node, operands: Values) -> Shape | None:
        """The shape of the product whose reshaped results an elementwise node reads."""
        for old, value in zip(node.operands, operands, strict=True):
            inner = self.draft.made_by(value, "reshape")
            if inner is None or inner.operands[0].node not in self.behind_products:
                continue
            if self._read_elementwise(old):
                return self.draft.shape(inner.operands[0])
        return None

    def _read_elementwise(self, value: Value) -> bool:
        """Whether nothing but elementwise work reads a value of the graph."""
        readers = (self.graph.nodes[user].op for user in self.users[value])
        return value not in self.outputs and all(
            op not in (INPUT, CONSTANT) and isinstance(lookup(op), Elementwise) for op in readers
        )

    def _reshaped(self, value: Value, shape: Shape) -> Value:
        """The same elements in the same order, in another shape."""
        draft, before = self.draft, self.draft.shape(value)
        if before == shape:
            return value
        node = draft.node(value)
        if node.op == "reshape" and draft.shape(node.operands[0]) == shape:
            return node.operands[0]
        if node.op == "broadcast":
            source = draft.shape(node.operands[0])
            # What is repeated along leading axes alone is so in the other shape.
            if not source or _trails(source, before, shape):
                (reshaped,) = draft.add(draft.make("broadcast", node.operands[0], shape=shape))
                return reshaped
        (reshaped,) = draft.add(draft.make("reshape", value, shape=shape))
        return reshaped


def _trails(source: Shape, one: Shape, other: Shape) -> bool:
    """Whether both shapes end in `source`."""
    count = len(source)
    return bool(count) and one[-count:] == source == other[-count:]
