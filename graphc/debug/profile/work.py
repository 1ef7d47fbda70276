"""What a kernel has to do: products that are summed, other work in additions, bytes.

in : the body of a kernel
out: `KernelWork`, the least that any code for it would have to do
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.contract import Contract
from graphc.ops.work import additions
from graphc.records import record


@record
class KernelWork:
    """`products` are multiplications that are summed; `wide` says that they are of float64;
    `additions` is all other work; `reads` and `writes` are bytes, by input and output of the body.
    """

    products: float
    wide: bool
    additions: float
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(self.reads) + sum(self.writes)


def work_of_body(body: Graph) -> KernelWork:
    """The work of one run of a kernel."""
    products, others = _split(body)
    contracts = [node for node in body.nodes if _multiplies(node)]
    return KernelWork(
        products, any(node.types[0].dtype == DType.f64 for node in contracts), others,
        _read_bytes(body), tuple(type.nbytes for type in body.output_types),
    )  # fmt: skip


def _multiplies(node: Node) -> bool:
    return node.op not in (INPUT, CONSTANT) and isinstance(lookup(node.op), Contract | Composite)


def _split(graph: Graph) -> tuple[float, float]:
    """Products and other work of a graph, each node once."""
    products = others = 0.0
    for node in graph.nodes:
        if node.op in (INPUT, CONSTANT):
            continue
        op = lookup(node.op)
        if isinstance(op, Contract):
            products += additions(graph, node) * _met(graph, node)
        elif isinstance(op, Composite):
            types = tuple(graph.type_of(value) for value in node.operands)
            more, rest = _split(op.definition(types, dict(node.attributes)))
            seen = 0.5 if dict(node.attributes).get("causal") else 1.0
            products, others = products + seen * more, others + seen * rest
        else:
            others += _least_additions(graph, node)
    return products, others


def _met(graph: Graph, node: Node) -> float:
    """Which part of a convolution's products meets an element of the image: the others, in the
    padding or between strides, need not be computed. 1 for other ops."""
    name = node.op.removeprefix("paired_")
    if not name.startswith("conv"):
        return 1.0
    x, y = (graph.type_of(value).shape[2:] for value in node.operands)
    result = node.types[0].shape[2:]
    if name == "conv":
        image, kernel, positions, over = x, y, result, result
    elif name == "conv_input_grad":
        image, kernel, positions, over = result, y, x, result
    else:
        image, kernel, positions, over = x, result, y, y
    geometry: dict[str, Any] = dict(node.attributes)
    steps = (geometry["stride"], geometry["padding"], geometry["dilation"])
    met = [_meeting(*sizes) for sizes in zip(image, kernel, positions, *steps, strict=True)]
    return math.prod(met) / max(math.prod((*over, *kernel)), 1)


def _meeting(size: int, taps: int, positions: int, stride: int, padding: int, dilation: int) -> int:
    """Pairs of a position and a tap, along one axis, that lie on the image."""
    first = np.arange(positions)[:, None] * stride - padding
    at = first + np.arange(taps) * dilation
    return int(np.count_nonzero((at >= 0) & (at < size)))


def _least_additions(graph: Graph, node: Node) -> float:
    """What a node takes at the least. Where the scheduler's estimate counts elements that are taken
    one by one, here they are additions like others: there may be a way to take more at once."""
    kind = lookup(node.op).kind
    if kind not in ("gather", "scatter", "scan", "argreduce", "sort"):
        return additions(graph, node)
    operands = [graph.type_of(value) for value in node.operands]
    moved = [*node.types, *(operands[2:] if kind == "scatter" else operands[:0])]
    read = operands if kind in ("scan", "argreduce", "sort") else []
    return float(max((type.numel for type in (*moved, *read)), default=0))


def _read_bytes(body: Graph) -> tuple[int, ...]:
    """Bytes of each input that are read: of what slices and look-ups alone read, what they take."""
    wanted = [0] * len(body.nodes)
    for output in body.outputs:
        wanted[output.node] = _bytes(body.nodes[output.node])
    for number, node in reversed(list(enumerate(body.nodes))):
        for position, value in enumerate(node.operands):
            whole = _bytes(body.nodes[value.node])
            taken = wanted[number] if _takes(node, position) else whole
            wanted[value.node] = min(whole, wanted[value.node] + taken)
    return tuple(wanted[: len(body.inputs)])


def _takes(node: Node, position: int) -> bool:
    """Whether a node reads no more of this operand than there is in its result."""
    if node.op in ("reshape", "transpose", "slice"):
        return True
    return lookup(node.op).kind == "gather" and position == 0


def _bytes(node: Node) -> int:
    return sum(type.nbytes for type in node.types)
