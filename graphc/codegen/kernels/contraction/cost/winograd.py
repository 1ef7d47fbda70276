"""What a convolution by Winograd's F(2x2, 3x3) costs, in the unit of the other models.

In: the shape of the result, channels, lanes, a target. Out: how many tiles lie along a vector, the
register tile, and a `WinogradCost`.
"""

from __future__ import annotations

import math

from graphc.codegen.kernels.contraction.cost.tiles import (
    FMA_IN_FLIGHT,
    Tile,
    choose_tile,
    vector_registers,
)
from graphc.codegen.target import Target
from graphc.ir.types import Shape
from graphc.ops.layouts.winograd import PLANES
from graphc.records import record

# Measured on AVX2 and AVX-512, which agree in this unit: what moves are vectors.
BEFORE = 170.0  # Bt d B, per group of tiles and channel of x
AFTER = 40.0  # At m A, per group of tiles and channel of the result
WEIGHT = 45.0  # G g Gt, per pair of channels, and reading it back
FAR_WEIGHT = 80.0  # the same where all of them are more than FAR_BYTES
FAR_BYTES = 8 << 20
FAR = 20.0  # per pair of channels and block but the first, where weights are so many
OVER = 40.0  # per pair of channels and block, where its planes are more than 3/5 of L2
CHUNK_ROWS = 64
"""Rows whose products are kept before they are transformed back."""


@record
class WinogradCost:
    """`weights`: their transform, of which a call whose weights are known ahead has nothing."""

    products: float
    transforms: float
    weights: float


def group_size(wide: int, lanes: int) -> int:
    """Tiles along a vector, of `wide` in a row of tiles: half a vector for a group costs little,
    tiles that do not exist cost products."""
    group = lanes
    while group > 2 and -(-wide // (group // 2)) * (group // 2) < -(-wide // group) * group:
        group //= 2
    return group


def winograd_tile(rows: int, vectors: int, target: Target) -> tuple[Tile, float]:
    """The register tile of so many output channels and vectors of tiles, and its efficiency."""
    return choose_tile(rows, vectors, vector_registers(target))


def tile_grid(result: Shape, lanes: int) -> Shape:
    """Of a result [N, O, H', W'] images, rows of tiles, groups in each."""
    images, _, *places = result
    high, wide = (-(-place // 2) for place in places)
    group = group_size(wide, lanes)
    return images, high, -(-wide // group)


def winograd_cost(result: Shape, channels: int, lanes: int, target: Target) -> WinogradCost:
    """Of a result whose extents are numbers, not 0."""
    groups = math.prod(tile_grid(result, lanes))
    rows, group = result[1], group_size(-(-result[3] // 2), lanes)
    vectors = -(-groups * group // lanes)
    tile, efficiency = winograd_tile(rows, vectors, target)
    pairs, blocks = rows * channels, -(-vectors // tile.vectors)
    # Of a single sum none is under way beside another.
    products = PLANES * pairs * vectors / max(efficiency, 1 / FMA_IN_FLIGHT)
    size = target.vector_bytes // lanes
    is_far = size * PLANES * pairs > FAR_BYTES
    kept = PLANES * (channels + min(CHUNK_ROWS, rows)) * tile.vectors * target.vector_bytes
    products += FAR * is_far * pairs * (blocks - 1)
    products += OVER * (5 * kept > 3 * target.l2_bytes) * pairs * blocks
    return WinogradCost(
        products, groups * (BEFORE * channels + AFTER * rows),
        (FAR_WEIGHT if is_far else WEIGHT) * pairs,
    )  # fmt: skip
