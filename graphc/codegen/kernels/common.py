"""What several recipes begin with: a kernel's buffers, and how many lanes its vectors have."""

from __future__ import annotations

from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Access, Buffer
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, bounds_of, is_single
from graphc.ir.nodes import Graph
from graphc.ir.symbols import symbols_of
from graphc.ir.types import DType


def declare_buffers(
    builder: LoopBuilder, body: Graph, output_access: Access = "write"
) -> tuple[list[Buffer], list[Buffer]]:
    """Buffers for the body's inputs and outputs, in the order of the kernel's pointer table."""
    builder.declare_sizes(symbols_of(body))
    inputs = [
        builder.buffer(node.attribute("name"), node.types[0].dtype, node.types[0].numel, "read")
        for node in body.inputs
    ]
    outputs = [
        builder.buffer(f"y{i}", type.dtype, type.numel, output_access)
        for i, type in enumerate(body.output_types)
    ]
    return inputs, outputs


def lanes_for(body: Graph, target: Target) -> int:
    """Lanes of a full vector of the widest float (else integer) the body computes with. Single
    elements are computed once, outside of vectors: an f64 learning rate halves no width."""
    types = [type for node in body.nodes for type in node.types]
    many = [type for type in types if not is_single(type.numel)]
    dtypes = {type.dtype.computes_as for type in many or types}
    floats = [dtype for dtype in dtypes if dtype.is_float]
    numbers = floats or [dtype for dtype in dtypes if dtype.is_integer] or [DType.f32]
    return target.lanes(max(numbers, key=lambda dtype: dtype.itemsize))


def lanes_within(lanes: int, extent: Extent, least: int = 1) -> int:
    """Lanes of a vector along so many elements: half as many where these always do, and are no
    fewer than `least`."""
    fewest = max(least, bounds_of(extent)[1])
    while lanes // 2 >= fewest:
        lanes //= 2
    return lanes
