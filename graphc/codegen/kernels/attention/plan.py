"""The sizes of a kernel of attention: all that follow from its body and a target.

In: a kernel's body around one composite of q, k, v and a mask. Out: an `AttentionPlan`.
"""

from __future__ import annotations

from graphc.codegen.kernels.contraction.cost.tiles import vector_registers
from graphc.codegen.kernels.typical import typical
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, at_most, bounds_of, ceil_div
from graphc.ir.nodes import INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import DType, Shape
from graphc.records import record

TILE_VECTORS = 3


@record
class AttentionPlan:
    """Matrices of `rows` x `depth` meet as many of `columns` x `depth`, and give `rows` x `width`,
    for all `heads`; `block` rows of scores are in scratch at a time, `stride` elements apart."""

    anchor: int
    names: tuple[str, ...]
    operands: tuple[GraphValue, ...]
    """Those of the names, and a mask behind them if there is one."""
    scale: float
    causal: bool
    dtype: DType
    lanes: int
    tile_rows: int
    heads: Shape
    rows: Extent
    depth: int
    columns: Extent
    width: int
    block: int
    stride: Extent

    def operand(self, name: str) -> GraphValue:
        return self.operands[self.names.index(name)]

    @property
    def mask(self) -> GraphValue | None:
        return self.operands[-1] if len(self.operands) > len(self.names) else None

    @property
    def vectors(self) -> Extent:
        """Those of a row of scores."""
        return ceil_div(self.columns, self.lanes)

    @property
    def note(self) -> str:
        return f"blocks of {self.block} rows, tiles {self.tile_rows}x{TILE_VECTORS}x{self.lanes}"

    def padded(self, columns: Extent) -> Extent:
        return _padded(columns, self.lanes)


def attention_plan(
    body: Graph, target: Target, names: tuple[str, ...], block_rows: int, matrices: int
) -> AttentionPlan:
    """The plan of a composite whose operands have these names, q and v among them, where up to
    `block_rows` rows of so many matrices of scores are in scratch."""
    anchor = anchor_of(body)
    node = body.nodes[anchor]
    operands, dtype = node.operands, node.types[0].dtype
    shape = body.type_of(operands[names.index("q")]).shape
    columns, width = body.type_of(operands[names.index("v")]).shape[-2:]
    lanes = target.lanes(dtype)
    # Powers of two rows, so that blocks of rows are whole tiles and chains whole blocks.
    tile_rows = 8 if vector_registers(target) == 32 else 4
    stride = _padded(columns, lanes)
    # Rows a multiple of 1024 bytes apart would share few sets of the cache.
    least, _ = bounds_of(stride * dtype.itemsize % 1024)
    stride += lanes if least == 0 else 0
    size = block_rows
    while size > 16 and size * typical(stride) * dtype.itemsize * matrices > target.l2_bytes // 2:
        size //= 2
    rows, depth = shape[-2:]
    size = at_most(ceil_div(rows, tile_rows) * tile_rows, size)
    return AttentionPlan(
        anchor=anchor, names=names, operands=operands, scale=float(node.attribute("scale")),
        causal=bool(node.attribute("causal")), dtype=dtype, lanes=lanes, tile_rows=tile_rows,
        heads=shape[:-2], rows=rows, depth=depth, columns=columns, width=width,
        block=size, stride=stride,
    )  # fmt: skip


def anchor_of(body: Graph) -> int:
    """The node of the composite."""
    return next(
        i for i, node in enumerate(body.nodes)
        if node.op not in (INPUT, "constant") and lookup(node.op).kind == "composite"
    )  # fmt: skip


def _padded(columns: Extent, lanes: int) -> Extent:
    return ceil_div(columns, lanes) * lanes
