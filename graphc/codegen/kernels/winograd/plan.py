"""How a `winograd` is cut into blocks of tiles and chunks of rows.

In: a kernel's body around one `winograd`, and a target. Out: a `WinogradPlan`.
"""

from __future__ import annotations

import math

from graphc.codegen.kernels.contraction.cost.tiles import Tile
from graphc.codegen.kernels.contraction.cost.winograd import (
    CHUNK_ROWS,
    group_size,
    tile_grid,
    winograd_cost,
    winograd_tile,
)
from graphc.codegen.kernels.typical import IMAGES, typical
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, ceil_div
from graphc.ir.nodes import Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.types import DType, Shape
from graphc.records import record, replace


@record(eq=False)
class WinogradPlan:
    """One `winograd` of a body, cut into blocks: `lanes` of a full vector, `group` of them for the
    tiles of a group, a register tile, and so many rows (`chunk`) at a time."""

    body: Graph
    anchor: GraphValue
    lanes: int
    group: int
    tile: Tile
    chunk: int
    reason: str = ""

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
        return tile_grid(self.body.type_of(self.anchor).shape, self.lanes)

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


def plan_winograd(body: Graph, target: Target) -> WinogradPlan:
    """How the one `winograd` of a body is cut."""
    anchor = next(GraphValue(i) for i, node in enumerate(body.nodes) if node.op == "winograd")
    shape = body.type_of(anchor).shape
    lanes = target.lanes(body.type_of(anchor).dtype)
    group = group_size(-(-shape[3] // 2), lanes)
    groups = math.prod(tile_grid(shape, lanes))
    vectors = typical(ceil_div(groups * group, lanes), IMAGES)
    tile, _ = winograd_tile(shape[1], vectors, target)
    chunk = min(max(CHUNK_ROWS // tile.rows, 1) * tile.rows, shape[1])
    plan = WinogradPlan(body, anchor, lanes, group, tile, chunk)
    return replace(plan, reason=_reason(plan, target))


def _reason(plan: WinogradPlan, target: Target) -> str:
    tile = f"{plan.tile.rows}x{plan.tile.vectors}x{plan.lanes}"
    shape = tuple(typical(extent, IMAGES) for extent in plan.body.type_of(plan.anchor).shape)
    text = (
        f"winograd F(2x2, 3x3): {plan.groups} groups of {plan.group} tiles, tile {tile}, "
        f"{plan.blocks} blocks, {plan.chunk} rows at a time"
    )
    if 0 in (*shape, plan.channels):
        return text
    cost = winograd_cost(shape, plan.channels, plan.lanes, target)
    total = cost.products + cost.transforms
    return (
        f"{text}, cost {total:.3g} (products {cost.products:.3g}, transforms {cost.transforms:.3g})"
    )
