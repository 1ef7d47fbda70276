"""From a ModelProto to graphs of declared operators.

Functions of the model, and operators that have no declaration but a body of others in ONNX's own
schemas, are replaced by what they are made of. Names, attributes and constants are checked, so that
a model that is damaged raises OnnxError here, and one with what is not here OnnxNotHere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from frontend.onnx.importing.control import CONTROL
from frontend.onnx.importing.declarations import REQUIRED, OnnxOp
from frontend.onnx.importing.element_types import stored
from frontend.onnx.importing.errors import OnnxError, OnnxNotHere
from frontend.onnx.importing.files import onnx_package, read_model
from frontend.onnx.importing.graphs import OnnxGraph, OnnxNode, OnnxPort, dropped
from frontend.onnx.importing.ops import declared

NEWEST = {"": 28, "ai.onnx.ml": 5}
"""The newest versions of operator sets that the declarations were compared with."""
DEEPEST = 8
"""Functions may be made of functions this many times."""


def read_model_graph(source: Any) -> OnnxGraph:
    """The graph of a model: of a path, bytes, an open file or a ModelProto. Raises OnnxError or
    OnnxNotHere, with the node and operator."""
    model = read_model(source)
    opsets = {_domain(each.domain): each.version for each in model.opset_import}
    for domain, version in opsets.items():
        if version > NEWEST.get(domain, version):
            raise OnnxNotHere(
                f"the model is of operator set {version} of {domain or 'ai.onnx'}, newer than "
                f"{NEWEST[domain]}",
                hint="convert it with onnx.version_converter",
            )
    return _GraphReader(opsets).graph(_inlined(model, opsets).graph, frozenset(), {})


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _nodes(graph: Any) -> Iterator[Any]:
    """All nodes of a graph and of those its nodes hold."""
    graphs = [graph]
    while graphs:
        for node in graphs.pop().node:
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    graphs.append(attribute.g)
                graphs += attribute.graphs


def _inlined(model: Any, opsets: dict[str, int]) -> Any:
    onnx = onnx_package()
    from onnx import inliner

    for _ in range(DEEPEST):
        own = {(_domain(f.domain), f.name) for f in model.functions}
        functions = {
            (node.domain, node.op_type)
            for node in _nodes(model.graph)
            if (_domain(node.domain), node.op_type) in own or _is_made(onnx, node, opsets)
        }
        if not functions:
            return model
        try:
            model = inliner.inline_selected_functions(
                model, sorted(functions), exclude=False, inline_schema_functions=True
            )
        except Exception as error:  # of onnx's C++ code
            names = ", ".join(sorted(name for _, name in functions))
            raise OnnxNotHere(
                f"the model's functions ({names}) cannot be expanded: {error}"
            ) from None
    raise OnnxError(f"functions of the model are made of each other more than {DEEPEST} deep")


def _is_made(onnx: Any, node: Any, opsets: dict[str, int]) -> bool:
    """Whether an operator that is not declared has a body in ONNX's schemas."""
    domain = _domain(node.domain)
    opset = opsets.get(domain, 0)
    if node.op_type in CONTROL or declared(domain, node.op_type, opset):
        return False
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


class _GraphReader:
    def __init__(self, opsets: dict[str, int]):
        self.onnx = onnx_package()
        self.opsets = opsets

    def graph(self, proto: Any, outside: frozenset[str], types: dict[str, int]) -> OnnxGraph:
        """A graph, in which the names `outside` are known, of these element types."""
        initializers: dict[str, Any] = {each.name: self.array(each, f"initializer {each.name!r}")
                        for each in proto.initializer}  # fmt: skip
        for sparse in proto.sparse_initializer:
            initializers[sparse.values.name] = self.dense(sparse)
        types = dict(types)
        for info in (*proto.input, *proto.value_info, *proto.output):
            types[info.name] = info.type.tensor_type.elem_type
        types.update((each.name, each.data_type) for each in proto.initializer)
        inputs = tuple([self.port(each) for each in proto.input if each.name not in initializers])
        known = set(outside) | initializers.keys() | {port.name for port in inputs}
        nodes: list[OnnxNode] = []
        constants: dict[str, Any] = {}
        for node in proto.node:
            missing = [name for name in node.input if name and name not in known]
            if missing:
                raise OnnxError(
                    f"node {node.name or list(node.output)!r} ({node.op_type}): no node before it "
                    f"gives {missing[0]!r}",
                    hint="check the file with onnx.checker.check_model",
                )
            if node.op_type == "Constant" and not _domain(node.domain):
                constants.update(self.constant(node))
            else:
                nodes.append(self.node(node, frozenset(known), types))
            known |= set(node.output) - {""}
        outputs = tuple([each.name for each in proto.output])
        missing = [name for name in outputs if name not in known]
        if missing:
            raise OnnxError(f"graph {proto.name!r}: no node gives its output {missing[0]!r}")
        last = dropped(tuple(nodes), outputs)
        return OnnxGraph(proto.name, inputs, outputs, tuple(nodes), last, initializers, constants)

    def constant(self, proto: Any) -> dict[str, Any]:
        where = f"node {proto.name or list(proto.output)!r} (Constant)"
        if len(proto.attribute) != 1 or len(proto.output) != 1:
            raise OnnxError(f"{where}: it has {len(proto.attribute)} values, not one")
        value = self.attribute(proto.attribute[0], where, frozenset(), {})
        if isinstance(value, str) or (
            isinstance(value, list) and value and isinstance(value[0], str)
        ):
            raise OnnxNotHere(f"{where} is of strings", hint="encode texts outside the model")
        if not isinstance(value, np.ndarray):
            kind = (
                np.float32
                if proto.attribute[0].name in ("value_float", "value_floats")
                else np.int64
            )
            value = np.array(value, kind)
        return {proto.output[0]: value}

    def port(self, info: Any) -> OnnxPort:
        if not info.type.HasField("tensor_type") and info.type.WhichOneof("value") is not None:
            raise OnnxNotHere(
                f"input {info.name!r} is a {info.type.WhichOneof('value').removesuffix('_type')}",
                hint="a model of tensors alone",
            )
        tensor = info.type.tensor_type
        if tensor.elem_type == self.onnx.TensorProto.STRING:
            raise OnnxNotHere(f"input {info.name!r} is of strings", hint="encode texts outside")
        if not tensor.HasField("shape"):
            return OnnxPort(info.name, tensor.elem_type, None)
        shape = tuple(
            [
                axis.dim_value
                if axis.HasField("dim_value") and axis.dim_value >= 0  # some write -1 for unknown
                else axis.dim_param or None
                for axis in tensor.shape.dim
            ]
        )
        return OnnxPort(info.name, tensor.elem_type, shape)

    def node(self, proto: Any, known: frozenset[str], types: dict[str, int]) -> OnnxNode:
        domain = _domain(proto.domain)
        opset = self.opsets.get(domain, 0)
        where = f"node {proto.name or list(proto.output)!r} ({proto.op_type})"
        attributes = {
            each.name: self.attribute(each, where, known, types) for each in proto.attribute
        }
        declaration = None
        if proto.op_type not in CONTROL:
            declaration = declared(domain, proto.op_type, opset)
            if declaration is None:
                of = f" of {domain}" if domain else ""
                raise OnnxNotHere(
                    f"{where}: there is no operator {proto.op_type}{of} here (operator set "
                    f"{opset})",
                    hint="docs/onnx.md lists what there is; another opset may be exported",
                )
            attributes = _checked(where, declaration, attributes, len(proto.input))
        return OnnxNode(
            proto.op_type, domain, proto.name, tuple(proto.input), tuple(proto.output), attributes,
            tuple([types.get(name, 0) for name in proto.input]), opset, declaration,
        )  # fmt: skip

    def attribute(self, proto: Any, where: str, known: frozenset[str], types: Any) -> Any:
        kinds = self.onnx.AttributeProto
        match proto.type:
            case kinds.FLOAT:
                return float(proto.f)
            case kinds.INT:
                return int(proto.i)
            case kinds.STRING:
                return _text(proto.s)
            case kinds.FLOATS:
                return [float(each) for each in proto.floats]
            case kinds.INTS:
                return [int(each) for each in proto.ints]
            case kinds.STRINGS:
                return [_text(each) for each in proto.strings]
            case kinds.TENSOR:
                return self.array(proto.t, where)
            case kinds.SPARSE_TENSOR:
                return self.dense(proto.sparse_tensor)
            case kinds.GRAPH:
                return self.graph(proto.g, known, types)
        raise OnnxNotHere(
            f"{where}: attribute {proto.name} is of a type that is not here",
            hint="a model of tensors alone",
        )

    def array(self, proto: Any, where: str) -> np.ndarray[Any, Any]:
        if proto.data_type == self.onnx.TensorProto.STRING:
            raise OnnxNotHere(f"{where} is of strings", hint="encode texts outside the model")
        try:
            return stored(self.onnx.numpy_helper.to_array(proto))
        except Exception as error:  # ValueError, TypeError, KeyError of damaged fields
            raise OnnxError(f"{where}: its data is damaged: {error}") from None

    def dense(self, proto: Any) -> np.ndarray[Any, Any]:
        """A sparse constant with its zeros."""
        where = f"sparse tensor {proto.values.name!r}"
        values, indices = self.array(proto.values, where), self.array(proto.indices, where)
        result = np.zeros(tuple(proto.dims), values.dtype)
        try:
            if indices.ndim == 2:
                result[tuple(indices.T)] = values
            else:
                result.reshape(-1)[indices] = values
        except IndexError as error:
            raise OnnxError(f"{where}: {error}") from None
        return result


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _checked(
    where: str, declaration: OnnxOp, attributes: dict[str, Any], inputs: int
) -> dict[str, Any]:
    """Attributes that the declaration takes; an input of a later version may come as one."""
    names = {each.name for each in declaration.inputs}
    for name in attributes:
        if name not in declaration.attributes and name not in names:
            raise OnnxNotHere(f"{where}: attribute {name} is not here", hint="see docs/onnx.md")
    for name, default in declaration.attributes.items():
        if default is REQUIRED and name not in attributes:
            raise OnnxError(f"{where}: attribute {name} is missing")
    if declaration.variadic is None and inputs > len(declaration.inputs):
        raise OnnxError(f"{where}: {inputs} inputs, of {len(declaration.inputs)} that there are")
    return attributes
