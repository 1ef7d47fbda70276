"""Contractions that strategies are for: of the tests of this folder, and of
benchmarks/machine_code.py."""

from __future__ import annotations

from typing import Any

import graphc
from graphc.codegen.kernels.contraction.strategies.blocked import BlockedPlan
from graphc.codegen.kernels.contraction.strategies.depthwise_wgrad import DepthwiseWgradPlan
from graphc.codegen.kernels.contraction.strategies.direct_conv import DirectConvPlan
from graphc.codegen.kernels.contraction.strategies.gemv import GemvPlan
from graphc.codegen.kernels.contraction.strategies.parity_split import ParitySplitPlan
from graphc.codegen.kernels.contraction.strategies.split_k import SplitKPlan
from graphc.codegen.kernels.contraction.strategies.table import Strategy
from graphc.codegen.kernels.contraction.strategies.tap_list_conv import TapListConvPlan
from graphc.codegen.kernels.contraction.strategies.unblocked import UnblockedPlan
from graphc.ir.dims import Extent, dim
from graphc.ir.types import DType, TensorType
from graphc.ops import contract
from graphc.ops.movement import transpose
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import kernels

Graph = graphc.Graph
Shape = tuple[Extent, ...]


def typed(shape: Shape) -> TensorType:
    return TensorType(DType.f32, shape)  # type: ignore[arg-type]


def product(m: Extent, n: Extent, k: Extent, *, columns_first: bool = False) -> Graph:
    g = graphc.GraphBuilder("product")
    x = g.input("x", typed((m, k)))
    y = g.input("y", typed((n, k) if columns_first else (k, n)))
    return g.finish(contract.matmul(x, transpose(y, permutation=(1, 0)) if columns_first else y))


def swapped(x: Any) -> Any:
    return transpose(x, permutation=(1, 0))


def narrow_product(
    op: Any, dtypes: tuple[str, str], shape: tuple[int, int, int], turned: tuple[bool, bool]
) -> Graph:
    """A product of matrices of these dtypes, (m, k, n), that lie turned or as they are."""
    m, k, n = shape
    g = graphc.GraphBuilder("product")
    x = g.input("x", f"{dtypes[0]}[{k},{m}]" if turned[0] else f"{dtypes[0]}[{m},{k}]")
    y = g.input("y", f"{dtypes[1]}[{n},{k}]" if turned[1] else f"{dtypes[1]}[{k},{n}]")
    return g.finish(op(swapped(x) if turned[0] else x, swapped(y) if turned[1] else y))


def convolution(
    which: str, x: Shape, w: Shape, stride: int = 1, groups: int = 1, channels_last: bool = False
) -> Graph:
    """A convolution with one element of padding, or a gradient of it. `channels_last`: the weight
    is stored with output channels side by side."""
    g = graphc.GraphBuilder("convolution")
    rank = len(x) - 2
    geometry: dict[str, Any] = {"stride": (stride,) * rank, "padding": (1,) * rank,
                                "dilation": (1,) * rank, "groups": groups}  # fmt: skip
    size = tuple((dim + 2 - tap) // stride + 1 for dim, tap in zip(x[2:], w[2:]))
    types = {"x": typed(x), "c": typed((x[0], w[0], *size))}
    if which == "by w":
        operands = [g.input(name, types[name]) for name in ("x", "c")]
        return g.finish(contract.conv_weight_grad(*operands, kernel=w[2:], **geometry))
    operand = g.input("first", types["x" if which == "forward" else "c"])
    weight = g.input("w", typed((*w[1:], w[0]) if channels_last else w))
    if channels_last:
        weight = transpose(weight, permutation=(rank + 1, *range(rank + 1)))
    if which == "forward":
        return g.finish(contract.conv(operand, weight, **geometry))
    return g.finish(contract.conv_input_grad(operand, weight, size=x[2:], **geometry))


PROBLEMS: dict[str, tuple[Graph, Strategy]] = {
    "depthwise by w": (
        convolution("by w", (16, 32, 32, 32), (32, 1, 3, 3), groups=32), DepthwiseWgradPlan
    ),
    "small planes": (convolution("forward", (16, 64, 4, 4), (64, 64, 3, 3)), TapListConvPlan),
    "small planes by x": (convolution("by x", (16, 64, 4, 4), (64, 64, 3, 3)), TapListConvPlan),
    "small planes by w": (convolution("by w", (16, 64, 4, 4), (64, 64, 3, 3)), TapListConvPlan),
    "one image": (
        convolution("forward", (1, 64, 8, 8), (96, 64, 3, 3), channels_last=True), DirectConvPlan
    ),
    "one row": (product(1, 512, 300), GemvPlan),
    "one row, columns first": (product(1, 512, 300, columns_first=True), GemvPlan),
    "large planes by w": (convolution("by w", (16, 64, 32, 32), (64, 64, 3, 3)), SplitKPlan),
    "large product": (product(512, 512, 512), BlockedPlan),
    "deep product": (product(64, 96, 1100), BlockedPlan),
    "stride 2 by x": (
        convolution("by x", (4, 64, 32, 32), (128, 64, 3, 3), stride=2), ParitySplitPlan
    ),
    "small product": (product(5, 7, 3), UnblockedPlan),
    "large planes": (convolution("forward", (4, 64, 16, 16), (64, 64, 3, 3)), UnblockedPlan),
    "stride 2": (convolution("forward", (2, 3, 9, 12), (5, 3, 3, 3), stride=2), UnblockedPlan),
    "volumes": (convolution("forward", (2, 16, 8, 20, 12), (33, 16, 3, 3, 3)), SplitKPlan),
    "one axis": (convolution("forward", (2, 5, 33), (7, 5, 4)), UnblockedPlan),
}  # fmt: skip


N = dim("n", 2)
OPEN_PROBLEMS: dict[str, Graph] = {
    "depthwise by w": convolution("by w", (N, 32, 32, 32), (32, 1, 3, 3), groups=32),
    "small planes": convolution("forward", (N, 64, 4, 4), (64, 64, 3, 3)),
    "small planes by x": convolution("by x", (N, 64, 4, 4), (64, 64, 3, 3)),
    "small planes by w": convolution("by w", (N, 64, 4, 4), (64, 64, 3, 3)),
    "large planes": convolution("forward", (N, 64, 16, 16), (64, 64, 3, 3)),
    "large planes by w": convolution("by w", (N, 64, 32, 32), (64, 64, 3, 3)),
    "stride 2": convolution("forward", (N, 3, 9, 12), (5, 3, 3, 3), stride=2),
    "stride 2 by x": convolution("by x", (N, 64, 32, 32), (128, 64, 3, 3), stride=2),
    "one axis": convolution("forward", (N, 5, 33), (7, 5, 4)),
    "rows": product(N, 512, 300),
    "rows, columns first": product(N, 512, 300, columns_first=True),
    "columns": product(64, N, 300),
    "depth": product(64, 512, N),
    "depth, columns first": product(64, 512, N, columns_first=True),
    "square": product(N, N, N),
    "many": product(dim("n", 64), 512, 512),
}
"""Some with a size left open."""


def body_of(graph: Graph) -> Graph:
    """The body of the kernel around the contraction."""
    return next(each.body for each in kernels(plan_graph(graph)[1]) if each.recipe == "contract")
