"""A graph of ours as a graph of ONNX.

in : a graph whose composites were expanded where they have no operator, names for its inputs
out: nodes, initializers and the names of its outputs, collected by a `GraphWriter`

Sizes that are open are read off the inputs once (`Shape`), and polynomials of them computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.onnx.exporting.ops import rule_of
from frontend.onnx.exporting.sizes import size_value
from frontend.onnx.importing.errors import OnnxNotHere
from frontend.onnx.importing.files import onnx_package
from graphc.ir.dims import Dim, Extent
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.types import DType, TensorType

ELEMENT_TYPES = {
    DType.f32: 1, DType.u8: 2, DType.i8: 3, DType.u16: 4, DType.i16: 5, DType.i32: 6, DType.i64: 7,
    DType.bool: 9, DType.f16: 10, DType.f64: 11, DType.u32: 12, DType.u64: 13, DType.bf16: 16,
}  # fmt: skip


def element_type(dtype: DType) -> int:
    """ONNX's number of a dtype. Raises OnnxNotHere for one that has none."""
    if dtype not in ELEMENT_TYPES:
        raise OnnxNotHere(f"dtype {dtype} cannot be exported", hint="convert it with .to(dtype)")
    return ELEMENT_TYPES[dtype]


class GraphWriter:
    """A graph of ONNX under construction. `around` is that of the node that holds this one, whose
    values it reads by name; `sizes` are the names of int64[1] of open sizes by their text."""

    def __init__(self, opset: int, around: GraphWriter | None = None):
        self.opset = opset
        self.helper = onnx_package().helper
        self.from_array = onnx_package().numpy_helper.from_array
        self.nodes: list[Any] = []
        self.root: GraphWriter = around.root if around is not None else self
        self.sizes: dict[str, str] = dict(around.sizes) if around is not None else {}
        self.values: dict[Value, str] = {}
        self.initializers: list[Any] = []
        self.taken: set[str] = set()
        self._constants: dict[Any, str] = {}
        self.graph: Graph | None = None

    def inner(self) -> GraphWriter:
        """A writer of a graph that a node of this one holds."""
        return GraphWriter(self.opset, self)

    def value_info(self, name: str, type: TensorType) -> Any:
        """A typed name; open sizes have theirs."""
        shape = [size if isinstance(size, int) else str(size) for size in type.shape]
        return self.helper.make_tensor_value_info(name, element_type(type.dtype), shape)

    # -- names and nodes ---------------------------------------------------------------------

    def name(self, wish: str) -> str:
        """A name that nothing has yet."""
        taken, name, count = self.root.taken, wish, 0
        while name in taken:
            count += 1
            name = f"{wish}_{count}"
        taken.add(name)
        return name

    def add(self, operator: str, inputs: Sequence[str], results: int = 1, **attributes: Any) -> Any:
        """A node; the name of its result, or a list of several."""
        names = [self.name(operator.lower()) for _ in range(results)]
        name = self.name(f"n_{operator.lower()}")
        node = self.helper.make_node(operator, list(inputs), names, name=name, **attributes)
        self.nodes.append(node)
        return names[0] if results == 1 else names

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """A constant in a node of its own, the same for the same values."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = self.name("c")
            tensor = self.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            self.nodes.append(self.helper.make_node("Constant", [], [name], value=tensor))
            self._constants[key] = name
        return self._constants[key]

    def scalar(self, value: float, dtype: DType) -> str:
        """A 0-d constant of a dtype."""
        return self.constant(value, dtype.numpy)

    # -- shapes ------------------------------------------------------------------------------

    def size(self, extent: Extent) -> str:
        """An extent as int64[1]."""
        return size_value(self, extent)

    def shape(self, extents: Sequence[Extent]) -> str:
        """A shape as int64[rank]."""
        if not any(isinstance(extent, Dim) for extent in extents):
            return self.constant(list(extents))
        return self.add("Concat", [self.size(extent) for extent in extents], axis=0)

    def cast(self, value: str, dtype: DType) -> str:
        return self.add("Cast", [value], to=element_type(dtype))

    def reshaped(self, value: str, shape: Sequence[Extent]) -> str:
        sizes: list[Any] = list(shape)
        open_axes = [i for i, size in enumerate(sizes) if isinstance(size, Dim)]
        # One open size may be told by all others, unless these are 0.
        if len(open_axes) == 1 and all(size != 0 for size in sizes if not isinstance(size, Dim)):
            sizes[open_axes[0]] = -1
        allows_zero = {"allowzero": 1} if self.opset >= 14 and 0 in sizes else {}
        return self.add("Reshape", [value, self.shape(sizes)], **allows_zero)

    # -- a graph -----------------------------------------------------------------------------

    def type_of(self, value: Value) -> TensorType:
        assert self.graph is not None
        return self.graph.nodes[value.node].types[value.index]

    def write(self, graph: Graph, inputs: Sequence[str]) -> list[str]:
        """All nodes of a graph, its inputs having these names; the names of its outputs."""
        self.graph, names = graph, iter(inputs)
        live = _live(graph)
        for identity, node in enumerate(graph.nodes):
            if node.op == INPUT:
                self.values[Value(identity)] = next(names)
            elif identity in live:
                results = self._node(node)
                for index, name in enumerate(results):
                    if name is not None:
                        self.values[Value(identity, index)] = name
        return [self.values[value] for value in graph.outputs]

    def _node(self, node: Node) -> list[str]:
        attributes: dict[str, Any] = dict(node.attributes)
        if node.op == CONSTANT:
            element_type(node.types[0].dtype)
            array = attributes["value"].array
            return [self.constant(array, array.dtype)]
        rule = rule_of(node.op, self.opset)
        if rule is None:
            raise OnnxNotHere(
                f"op {node.op} has no operator of ONNX in operator set {self.opset}",
                hint="docs/onnx.md lists what can be exported",
                location=node.location,
            )
        operands = [self.values[value] for value in node.operands]
        try:
            result = rule(self, node, *operands, **attributes)
        except OnnxNotHere as error:
            if error.location is None:
                raise OnnxNotHere(f"op {node.op}: {error}", location=node.location) from None
            raise
        return list(result) if isinstance(result, list | tuple) else [result]


def _live(graph: Graph) -> set[int]:
    """The nodes that outputs need."""
    live: set[int] = set()
    stack = [value.node for value in graph.outputs]
    while stack:
        identity = stack.pop()
        if identity not in live:
            live.add(identity)
            stack += [value.node for value in graph.nodes[identity].operands]
    return live
