"""`ShapeProp`: shapes and dtypes of what each node of a graph of Python calls gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from frontend.engine.tensors.dtypes import contiguous_format
from frontend.engine.tensors.tensor import Tensor
from frontend.fx.interpreter import Interpreter
from frontend.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What `node.meta["tensor_meta"]` says of a tensor. Memory is row-major."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool = False
    qparams: Any = None


class ShapeProp(Interpreter):
    """`ShapeProp(graph_module).propagate(*inputs)` runs the graph, and leaves in the `meta` of each
    node that gives a tensor, or a nest with one, "tensor_meta"; in that of each node "type"."""

    def run_node(self, n: Node) -> Any:
        """What a node gives; its `meta` is filled."""
        result = super().run_node(n)
        metadata = []

        def describe(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            metadata.append(value)
            return TensorMetadata(
                value.shape, value.dtype, value.requires_grad, tuple(value.stride()),
                contiguous_format,
            )  # fmt: skip

        described = map_aggregate(result, describe)
        if metadata:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these inputs; what it returns."""
        return self.run(*args)
