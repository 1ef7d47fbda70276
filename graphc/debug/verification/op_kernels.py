"""A graph computed op by op, each by the kernel that the compiler makes for it alone.

in : a graph and its arrays
out: its values

Whatever is fused, moved or cut into threads at level *exact*, it keeps these bits
(docs/arithmetic.md), so this is what all levels are compared with. It takes no pass but the
expansion of composites, no fusion, no plan of memory. Movements are NumPy's views: they compute
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value, exact
from graphc.ir.registry import lookup, parameters
from graphc.ir.types import TensorType
from graphc.records import replace

Array = np.ndarray[Any, Any]
Seen = Callable[[int, Node, tuple[Array, ...], tuple[Array, ...]], None]
"""Called with a node's number, the node, its operands and its results."""


class OpKernels:
    """Computes graphs; kernels are made once. `target`: what they are made for."""

    def __init__(self, target: str | None = None):
        self._target = target
        self._known: dict[Any, Callable[[list[Any]], tuple[Array, ...]]] = {}

    def outputs(
        self, graph: Graph, arrays: Sequence[Array], seen: Seen | None = None
    ) -> list[Array]:
        """The graph's outputs. Values are forgotten where nothing reads them any more."""
        left = Counter(value for node in graph.nodes for value in node.operands)
        left.update(graph.outputs)
        values: dict[Value, Array] = {}
        for number, node, operands, results in self._steps(graph, arrays, values):
            if seen is not None:
                seen(number, node, operands, results)
            for value in node.operands:
                left[value] -= 1
                if not left[value]:
                    values.pop(value, None)
        return [values[output] for output in graph.outputs]

    def values(self, graph: Graph, arrays: Sequence[Array]) -> dict[Value, Array]:
        """All values of the graph."""
        values: dict[Value, Array] = {}
        for _ in self._steps(graph, arrays, values):
            pass
        return values

    def _steps(self, graph: Graph, arrays: Sequence[Array], values: dict[Value, Array]) -> Any:
        inputs = iter(arrays)
        for number, node in enumerate(graph.nodes):
            if node.op in (INPUT, CONSTANT):
                array = next(inputs) if node.op == INPUT else node.attribute("value").array
                values[Value(number)] = array
                continue
            operands = tuple(values[value] for value in node.operands)
            results = self._computed(node, operands)
            for index, result in enumerate(results):
                values[Value(number, index)] = result
            yield number, node, operands, results

    def _computed(self, node: Node, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        op = lookup(node.op)
        if op.kind == "movement":
            return tuple(op.compute(operands, parameters(node)))
        types = tuple(TensorType.of(array) for array in operands)
        key = (node.op, types, exact(node.attributes), node.regions)
        if key not in self._known:
            self._known[key] = self._made(node, types)
        return self._known[key]([np.require(a, requirements=("C", "A")) for a in operands])

    def _made(self, node: Node, types: tuple[TensorType, ...]) -> Any:
        from graphc.runtime.compile import compile

        graph = graph_of(node, types)
        return compile(graph, "none", target=self._target, threads=1).run


def graph_of(node: Node, types: Sequence[TensorType]) -> Graph:
    """The graph of a node alone: its operands are the inputs."""
    inputs = [
        Node(INPUT, (), (("name", f"x{number}"),), (type,)) for number, type in enumerate(types)
    ]
    alone = replace(node, operands=tuple(Value(i) for i in range(len(inputs))), location=None)
    outputs = tuple(Value(len(inputs), index) for index in range(len(node.types)))
    return Graph(node.op, (*inputs, alone), outputs)
