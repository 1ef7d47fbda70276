"""The reference interpreter: a graph on NumPy arrays, node by node. The oracle of the tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup, parameters
from graphc.ir.types import TensorType

Array = np.ndarray[Any, Any]


def run(graph: Graph, *arrays: Any) -> tuple[Array, ...]:
    """The outputs of `graph` on `arrays`, each op by its declared meaning.

    Arrays must have the inputs' shapes and dtypes (ArgumentError otherwise). Raises
    IndexRangeError where an index is out of range.
    """
    return evaluate(graph, arguments(graph, arrays), reference=True)


def arguments(graph: Graph, arrays: tuple[Any, ...]) -> tuple[Array, ...]:
    """`arrays` as NumPy arrays, checked against the graph's inputs. Raises ArgumentError."""
    types = graph.input_types
    if len(arrays) != len(types):
        raise ArgumentError(f"graph {graph.name!r} takes {len(types)} arrays, not {len(arrays)}")
    result = tuple(np.asarray(array) for array in arrays)
    for name, type, array in zip(graph.input_names, types, result, strict=True):
        if array.dtype != type.dtype.numpy or array.shape != type.shape:
            raise ArgumentError(
                f"graph {graph.name!r}: argument {name!r} is {array.dtype}{list(array.shape)}, "
                f"expected {type}"
            )
    return result


def evaluate(graph: Graph, arrays: tuple[Array, ...], *, reference: bool) -> tuple[Array, ...]:
    """Outputs by the ops' reference, or by their fast NumPy form."""
    values: dict[Value, Array] = {}
    inputs = iter(arrays)
    for identity, node in enumerate(graph.nodes):
        if node.op == INPUT:
            values[Value(identity)] = next(inputs)
            continue
        if node.op == CONSTANT:
            values[Value(identity)] = node.attribute("value").array
            continue
        op = lookup(node.op)
        operands = tuple(values[operand] for operand in node.operands)
        attributes = parameters(node)
        with np.errstate(all="ignore"):
            op.run_checks(operands, attributes)
            results = (op.refer if reference else op.compute)(operands, attributes)
        for index, result in enumerate(results):
            assert TensorType.of(result) == node.types[index], (node, TensorType.of(result))
            values[Value(identity, index)] = result
    return tuple(values[output] for output in graph.outputs)
