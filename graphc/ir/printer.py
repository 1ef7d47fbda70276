"""Graph → text. The grammar is in docs/ir.md; `graphc.parse` reads it back to an equal graph."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from graphc.ir.nodes import CONSTANT, INPUT, Attribute, Constant, Graph, Node, Value
from graphc.ir.symbols import symbols_of
from graphc.ir.types import DType

# Longer constants are printed as base64 of their bytes.
LIST_LIMIT = 16


def print_graph(graph: Graph, *, locations: bool = True, indent: str = "") -> str:
    """The text of a graph, one node a line, the user's source line as a comment."""
    inputs = ", ".join(f"%{node.attribute('name')}: {node.types[0]}" for node in graph.inputs)
    lines = [f"graph {graph.name}({inputs}){_sizes_text(graph)} {{"]
    for identity, node in enumerate(graph.nodes):
        if node.op == INPUT:
            continue
        text = _print_node(graph, identity, node, locations, indent + "  ")
        comment = f"  // {node.location}" if locations and node.location else ""
        lines.append(f"  {text}{comment}")
    targets = dict(graph.aliases)
    names = graph.input_names
    outputs = [
        value_text(graph, value) + (f" -> %{names[targets[i]]}" if i in targets else "")
        for i, value in enumerate(graph.outputs)
    ]
    lines.append("  return" + (" " + ", ".join(outputs) if outputs else ""))
    lines.append("}")
    return ("\n" + indent).join(lines)


def _sizes_text(graph: Graph) -> str:
    """` where 0 <= n, 1 <= m <= 8`: the sizes known only at run time, with their bounds."""
    sizes = [
        f"{s.least} <= {s.name}" + ("" if s.most is None else f" <= {s.most}")
        for s in symbols_of(graph)
    ]
    return f" where {', '.join(sizes)}" if sizes else ""


def value_text(graph: Graph, value: Value) -> str:
    """`%x` for an input, `%7` for the first result of node 7, `%7.1` for its second."""
    node = graph.nodes[value.node]
    if node.op == INPUT:
        return f"%{node.attribute('name')}"
    return f"%{value.node}" + (f".{value.index}" if value.index else "")


def _print_node(graph: Graph, identity: int, node: Node, locations: bool, indent: str) -> str:
    types = ", ".join([type.text for type in node.types])
    if node.op == CONSTANT:
        return f"%{identity} = constant {attribute_text(node.attribute('value'))}"
    operands = ", ".join([value_text(graph, operand) for operand in node.operands])
    attributes = "".join([f" {name}={attribute_text(value)}" for name, value in node.attributes])
    regions = "".join(
        [f" {print_graph(region, locations=locations, indent=indent)}" for region in node.regions]
    )
    return f"%{identity} = {node.op}({operands}){attributes}{regions} : {types}"


def attribute_text(value: Attribute) -> str:
    """The text of an attribute: numbers, true/false, none, "strings", [lists], dtypes, tensors."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case DType():
            return str(value.value)
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'"{escaped}"'
        case Constant():
            return _constant_text(value)
        case tuple():
            return "[" + ", ".join(attribute_text(item) for item in value) + "]"
        case float():
            return repr(value)
        case _:
            return str(value)


def _constant_text(constant: Constant) -> str:
    array, type = constant.array, constant.type
    if type.dtype.is_float and _has_odd_nan(array):
        return _base64_text(constant)
    if array.size > 1 and constant.scalar is not None:
        return f"{type} splat {_number_text(array.flat[0])}"
    if array.size > LIST_LIMIT:
        return _base64_text(constant)
    return f"{type} [{', '.join(_number_text(item) for item in array.flat)}]"


def _has_odd_nan(array: np.ndarray[Any, Any]) -> bool:
    """Whether there is a NaN other than the plain one, which alone is spelt `nan`."""
    with np.errstate(invalid="ignore"):  # ml_dtypes lets the processor complain of signalling NaNs
        is_nan = np.isnan(array)
    plain = np.asarray(np.nan, array.dtype).tobytes()
    return any(item.tobytes() != plain for item in array[is_nan])


def _base64_text(constant: Constant) -> str:
    little = constant.array.astype(constant.array.dtype.newbyteorder("<"))
    return f'{constant.type} base64 "{base64.b64encode(little.tobytes()).decode()}"'


def _number_text(item: np.generic) -> str:
    if isinstance(item, np.bool_):
        return "true" if item else "false"
    if item.dtype == DType.bf16.numpy and np.isfinite(item):
        return _shortest(item)
    # str of a NumPy float is the shortest text that reads back to the same bits.
    return str(item)


def _shortest(item: np.generic) -> str:
    """The fewest digits that read back to the same bits; `str` of a bf16 has six."""
    texts = (f"{float(item):.{digits}g}" for digits in range(1, 7))
    return repr(float(next(text for text in texts if item.dtype.type(text) == item)))
