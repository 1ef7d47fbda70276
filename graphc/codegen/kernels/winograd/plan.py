"""How a `winograd` is cut into blocks of tiles and chunks of rows.

In: a kernel's body around one `winograd`, and a target. Out: a `WinogradPlan`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphc.codegen.kernels.contraction.cost.tiles import Tile, choose_tile, vector_registers
from graphc.codegen.kernels.typical import IMAGES, typical
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, ceil_div
from graphc.ir.nodes import Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.types import DType, Shape
from graphc.ops.layouts.winograd import predicted_gain

CHUNK_ROWS = 64
"""Rows whose products are kept before they are transformed back."""


@dataclass(frozen=True, slots=True, eq=False)
class WinogradPlan:
    """One `winograd` of a body, cut into blocks: `lanes` of a full vector, `group` of them for the
    tiles of a group, a register tile, and so many rows (`chunk`) at a time."""

    body: Graph
    anchor: GraphValue
    lanes: int
    group: int
    tile: Tile
    chunk: int

    @property
    def x(self) -> GraphValue:
        return self.body.nodes[self.anchor.node].operands[0]

    @property
    def u(self) -> GraphValue:
        """The transformed weights."""
        return self.body.nodes[self.anchor.node].operands[1]

    @property
    def padding(self) -> Shape:
        padding: Shape = self.body.nodes[self.anchor.node].attribute("padding")
        return padding

    @property
    def dtype(self) -> DType:
        return self.body.type_of(self.anchor).dtype

    @property
    def channels(self) -> int:
        return self.body.type_of(self.x).shape[1]

    @property
    def size(self) -> Shape:
        return self.body.type_of(self.x).shape[2:]

    @property
    def rows(self) -> int:
        """Output channels."""
        return self.body.type_of(self.anchor).shape[1]

    @property
    def places(self) -> Shape:
        return self.body.type_of(self.anchor).shape[2:]

    @property
    def grid(self) -> Shape:
        """Images, rows of tiles, groups in each."""
        images, _, *places = self.body.type_of(self.anchor).shape
        high, wide = (-(-place // 2) for place in places)
        return images, high, -(-wide // self.group)

    @property
    def groups(self) -> Extent:
        return math.prod(self.grid)

    @property
    def chunk_tiles(self) -> int:
        """Register tiles of a chunk's rows."""
        return max(-(-self.chunk // self.tile.rows), 1)

    @property
    def width(self) -> int:
        """Tiles of a block."""
        return self.tile.vectors * self.lanes

    @property
    def groups_per_block(self) -> int:
        return self.width // self.group

    @property
    def blocks(self) -> Extent:
        return ceil_div(self.groups, self.groups_per_block)

    @property
    def reason(self) -> str:
        tile = f"{self.tile.rows}x{self.tile.vectors}x{self.lanes}"
        shape = tuple(typical(extent, IMAGES) for extent in self.body.type_of(self.anchor).shape)
        gain = predicted_gain(shape, self.channels, padding=self.padding)
        return (
            f"winograd F(2x2, 3x3): {self.groups} groups of {self.group} tiles, tile {tile}, "
            f"{self.blocks} blocks, {self.chunk} rows at a time, expected {gain:.2f} times as fast "
            "as the direct kernel with its weights' transform"
        )


def plan_winograd(body: Graph, target: Target) -> WinogradPlan:
    """How the one `winograd` of a body is cut."""
    anchor = next(GraphValue(i) for i, node in enumerate(body.nodes) if node.op == "winograd")
    images, rows, *places = body.type_of(anchor).shape
    high, wide = (-(-place // 2) for place in places)
    lanes = target.lanes(body.type_of(anchor).dtype)
    # Half a vector for a group costs little, tiles that do not exist cost products.
    group = lanes
    while group > 2 and -(-wide // (group // 2)) * (group // 2) < -(-wide // group) * group:
        group //= 2
    groups = images * high * -(-wide // group)
    tile, _ = choose_tile(
        rows, typical(ceil_div(groups * group, lanes), IMAGES), vector_registers(target)
    )
    chunk = min(max(CHUNK_ROWS // tile.rows, 1) * tile.rows, rows)
    return WinogradPlan(body, anchor, lanes, group, tile, chunk)
