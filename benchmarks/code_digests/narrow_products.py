"""Products and convolutions of narrow elements, which strategies for groups along k are for: of
bf16, and of bytes with i8, in all orientations, packed, computed, with rows left open."""

from __future__ import annotations

from typing import Any

import graphc
from graphc.ir.dims import Extent, dim
from graphc.ir.types import DType, TensorType
from graphc.ops import contract
from graphc.ops.elementwise import cast, neg
from graphc.ops.layouts.packing import unpack_pairs
from graphc.ops.layouts.quads import unpack_quads
from graphc.ops.movement import transpose
from graphc.ops.paired_convolution import paired_conv

Graph = graphc.Graph
Shape = tuple[Extent, ...]
N = dim("n", 2)


def narrow_product(
    dtype: str, shape: tuple[Extent, int, int], turned: tuple[bool, bool] = (False, False),
    batch: tuple[int, ...] = (), negated: bool = False,
) -> Graph:  # fmt: skip
    """A product of bf16, or of bytes with i8: (rows, depth, columns)."""
    m, k, n = shape
    g = graphc.GraphBuilder("narrow")
    rank = len(batch)
    swap = (*range(rank), rank + 1, rank)

    def operand(name: str, dtype: str, shape: Shape, turned: bool) -> Any:
        shape = shape[::-1] if turned else shape
        x = g.input(name, TensorType(DType(dtype), (*batch, *shape)))  # type: ignore[arg-type]
        x = cast(neg(cast(x, dtype=DType.f32)), dtype=DType.bf16) if negated else x
        return transpose(x, permutation=swap) if turned else x

    x = operand("x", dtype, (m, k), turned[0])
    y = operand("y", "bf16" if dtype == "bf16" else "i8", (k, n), turned[1])
    return g.finish((contract.paired_matmul if dtype == "bf16" else contract.int_matmul)(x, y))


def packed_product(dtype: str, shape: tuple[Extent, int, int], lanes: int, noted: bool) -> Graph:
    """The same, the second operand packed; of bf16 `noted`, with the least magnitudes or not."""
    m, k, n = shape
    g = graphc.GraphBuilder("packed")
    x = g.input("x", TensorType(DType(dtype), (m, k)))  # type: ignore[arg-type]
    size = 2 if dtype == "bf16" else 4
    tiles, groups = -(-n // (3 * lanes)), -(-k // size) + noted
    of_y = DType.bf16 if dtype == "bf16" else DType.i8
    y = g.input("y", TensorType(of_y, (tiles, groups, 3, size * lanes)))
    unpack = unpack_pairs if dtype == "bf16" else unpack_quads
    product = contract.paired_matmul if dtype == "bf16" else contract.int_matmul
    return g.finish(product(x, unpack(y, depth=k, size=n)))


def narrow_problems() -> dict[str, Graph]:
    """Products and convolutions that instructions for groups of narrow elements are for."""
    graphs = {}
    for dtype in ("bf16", "u8", "i8"):
        for shape in ((17, 33, 50), (5, 600, 3), (64, 512, 96), (2, 1, 2), (1, 301, 50)):
            for turned in ((False, False), (False, True), (True, False), (True, True)):
                graphs[f"{dtype} {shape} {turned}"] = narrow_product(dtype, shape, turned)
        for lanes in (4, 8, 16):
            for shape in ((N, 301, 70), (20, 300, 96)):
                for noted in (False, True) if dtype == "bf16" else (True,):
                    name = f"{dtype} {shape} packed {lanes} {noted}"
                    graphs[name] = packed_product(dtype, shape, lanes, noted)
        graphs[f"{dtype} rows"] = narrow_product(dtype, (N, 35, 33))
        graphs[f"{dtype} rows, columns first"] = narrow_product(dtype, (N, 35, 33), (False, True))
        graphs[f"{dtype} batch"] = narrow_product(dtype, (70, 130, 90), batch=(3,))
    graphs["negated"] = narrow_product("bf16", (17, 33, 50), negated=True)
    for stride, depth in ((1, 16), (2, 8), (1, 64)):
        types = [TensorType(DType.bf16, s) for s in ((2, depth, 12, 12), (24, depth, 3, 3))]
        g = graphc.GraphBuilder("convolution")
        x, w = (g.input(name, type) for name, type in zip("xw", types))
        geometry = {name: (size, size) for name, size in
                    (("stride", stride), ("padding", 1), ("dilation", 1))}  # fmt: skip
        graphs[f"conv {stride} {depth}"] = g.finish(paired_conv(x, w, groups=1, **geometry))
    return graphs
