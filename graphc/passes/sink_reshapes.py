"""Reshapes and transposes of what products give, moved behind the elementwise work on it.

in : a graph without composites but those with a recipe
out: the graph in which elementwise work on a product's results has the product's shape

A layer on [batch, time, channels] multiplies [batch · time, channels] and reshapes the result. An
activation or a residual behind that reshape has another shape than the product, so it could not be
computed where the product's results still lie in registers. Elementwise work has no shape of its
own: it moves ahead of the reshape. It stays where something else than elementwise work reads the
reshaped value, as a normalisation does, whose sums would then run over another shape than the rest
of it.

A convolution of bytes is a product whose rows are positions, transposed to have its channels first.
What is computed from it moves ahead of the transpose too, where a product reads it in the end: that
product's rows are positions again, and then nothing is transposed in memory.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.ir.copying import replayed
from graphc.ir.dims import exact_quotient
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.kinds.contract import Contract
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.index_expr import FINEST
from graphc.records import record, replace


def sink_reshapes(graph: Graph) -> Graph:
    """Move elementwise work ahead of the reshapes and transposes of products, also inside regions.

    %3 = matmul(%x, %w) : f32[6,4]              %3 = matmul(%x, %w) : f32[6,4]
    %4 = reshape(%3) : f32[2,3,4]               %4 = reshape(%r) : f32[6,4]
    %5 = add(%4, %r) : f32[2,3,4]          =>   %5 = add(%3, %4) : f32[6,4]
    %6 = relu(%5) : f32[2,3,4]                  %6 = relu(%5) : f32[6,4]
                                                %7 = reshape(%6) : f32[2,3,4]
    """
    return _Sinking(graph).run()


@record
class _Moves:
    """What leads from a value to another with the same elements: shapes of reshapes, permutations
    of transposes, each with the shape ahead of it."""

    source: Value
    steps: tuple[tuple[str, Shape, Shape], ...]

    @property
    def keep_order(self) -> bool:
        return all(op == "reshape" for op, _, _ in self.steps)


class _Sinking:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.draft = Draft()
        self.users = graph.users()
        self.outputs = set(graph.outputs)
        self.behind_products: set[int] = set()
        """Nodes of the draft: products, and elementwise work on their results."""
        self.read_by_products: set[Value] | None = None

    def run(self) -> Graph:
        return replayed(self.graph, self.draft, self._visit)

    def _visit(self, node: Node, operands: Values) -> Values:
        if node.regions:
            node = replace(node, regions=tuple(map(sink_reshapes, node.regions)))
        op = None if node.op == CONSTANT else lookup(node.op)
        moves = self._sunk(node, operands) if isinstance(op, Elementwise) else None
        if moves is None:
            results = self.draft.add(moved(node, operands))
            self._note(op, operands, results[0])
            return results
        inner = tuple(self._undone(value, moves) for value in operands)
        (result,) = self.draft.add(self.draft.make(node.op, *inner, **dict(node.attributes)))
        self.behind_products.add(result.node)
        for kind, _, after in moves.steps:
            (result,) = self.draft.add(self._step(kind, result, after))
        return (result,)

    def _note(self, op: Any, operands: Values, result: Value) -> None:
        behind = any(value.node in self.behind_products for value in operands)
        if isinstance(op, Contract) or (isinstance(op, Elementwise) and behind):
            self.behind_products.add(result.node)

    def _sunk(self, node: Node, operands: Values) -> _Moves | None:
        """What stands between a product's results and the elementwise node that reads them."""
        for old, value in zip(node.operands, operands, strict=True):
            moves = self._moves(value)
            if not moves.steps or moves.source.node not in self.behind_products:
                continue
            if self._read_elementwise(old) and (moves.keep_order or old in self._rows()):
                return moves
        return None

    def _moves(self, value: Value) -> _Moves:
        """The reshapes and transposes that a value of the draft is behind."""
        steps: list[tuple[str, Shape, Shape]] = []
        while (node := self.draft.node(value)).op in ("reshape", "transpose"):
            after = node.attribute("shape" if node.op == "reshape" else "permutation")
            (value,) = node.operands
            steps.insert(0, (node.op, self.draft.shape(value), after))
        return _Moves(value, tuple(steps))

    def _read_elementwise(self, value: Value) -> bool:
        """Whether nothing but elementwise work reads a value of the graph."""
        readers = (self.graph.nodes[user].op for user in self.users[value])
        return value not in self.outputs and all(
            op not in (INPUT, CONSTANT) and isinstance(lookup(op), Elementwise) for op in readers
        )

    def _rows(self) -> set[Value]:
        """`_read_by_products`, which most graphs never ask for."""
        if self.read_by_products is None:
            self.read_by_products = self._read_by_products()
        return self.read_by_products

    def _read_by_products(self) -> set[Value]:
        """The values of the graph that products read, as they are or through movements and
        elementwise work: as rows, if they lie so in memory."""
        reached: set[Value] = set()
        for identity in reversed(range(len(self.graph.nodes))):
            node = self.graph.nodes[identity]
            if node.op in (INPUT, CONSTANT):
                continue
            op = lookup(node.op)
            if isinstance(op, Contract):
                types = tuple(self.graph.type_of(operand) for operand in node.operands)
                if len(op.space(types, **dict(node.attributes)).k) == 1:
                    reached.update(node.operands)
            elif Value(identity) in reached and (
                op.kind == "elementwise" or (op.kind == "movement" and self._keeps_rows(node))
            ):
                reached.update(node.operands)
        return reached

    def _keeps_rows(self, node: Node) -> bool:
        """False for windows over so few channels that a copy would gather them one by one."""
        if node.op != "windows" or math.prod(node.attribute("kernel")) == 1:
            return True
        channels = self.graph.type_of(node.operands[0]).shape[
            -2 * len(node.attribute("kernel")) - 1
        ]
        return exact_quotient(channels, FINEST) is not None

    def _undone(self, value: Value, moves: _Moves) -> Value:
        """What the moves would make `value` of."""
        draft, own = self.draft, self._moves(value)
        if own.steps == moves.steps and draft.shape(own.source) == draft.shape(moves.source):
            return own.source
        for kind, before, after in reversed(moves.steps):
            back = before if kind == "reshape" else tuple(map(after.index, range(len(after))))
            if kind == "transpose" or draft.shape(value) != back:
                (value,) = draft.add(self._step(kind, value, back))
        return value

    def _step(self, kind: str, value: Value, after: Shape) -> Node:
        name = "shape" if kind == "reshape" else "permutation"
        return self.draft.make(kind, value, **{name: after})
