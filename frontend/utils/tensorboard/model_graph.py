"""A model's graph as TensorBoard draws it: the graph that compiling traces, by modules."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import (
    TensorShapeProto,
)
from tensorboard.compat.proto.versions_pb2 import VersionDef

from frontend.engine.compiled.tracers import trace
from frontend.engine.tensors.state import no_grad

PRODUCER = 22
"""The version of TensorFlow's graphs that these are of."""


def model_graph(model: Any, inputs: Any, verbose: bool) -> Any:
    """The graph of a Module or function on inputs like these: a node for each op, below the names
    of the modules it is in, and for each parameter and input. Raises TraceError where it cannot be
    traced."""
    arguments = inputs if isinstance(inputs, tuple | list) else (inputs,)
    with no_grad():
        graph = trace(model, *arguments)
    if verbose:
        print(graph)
    root = type(model).__name__
    names: list[str] = []
    protos = []
    for number, node in enumerate(graph.nodes):
        module = node.location.module if node.location is not None else ""
        path = "/".join([root, *filter(None, module.split("."))])
        if node.op == "input":
            name = str(node.attribute("name"))
            names.append(f"{path}/{name}" if module else name)
        else:
            names.append(f"{path}/{node.op}_{number}")
        protos.append(NodeDef(
            name=names[-1], op="IO Node" if node.op == "input" else node.op,
            input=[names[value.node] for value in node.operands], attr=_attributes(node),
        ))  # fmt: skip
    for position, value in enumerate(graph.outputs):
        name = f"output/output.{position + 1}"
        protos.append(NodeDef(name=name, op="IO Node", input=[names[value.node]]))
    return GraphDef(node=protos, versions=VersionDef(producer=PRODUCER))


def _attributes(node: Any) -> dict[str, Any]:
    """The shapes of a node's results, and what it is told."""
    shapes = [
        TensorShapeProto(dim=[TensorShapeProto.Dim(size=int(size)) for size in each.shape])
        for each in node.types
    ]
    text = ", ".join(f"{name}={value}" for name, value in node.attributes)
    return {
        "_output_shapes": AttrValue(list=AttrValue.ListValue(shape=shapes)),
        "attr": AttrValue(s=text.encode("utf-8")),
    }
