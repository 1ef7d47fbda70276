"""A `winograd` in NumPy, its sums by the nest's runner: tiles transformed, products, results.

In: a kernel's body around one `winograd`, its values. Out: both sides of a comparison, by the nest
and as the values are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from graphc.codegen.kernels.contraction.arrays import k_blocks
from graphc.codegen.kernels.winograd.plan import plan_winograd
from graphc.codegen.kernels.winograd.recipe import winograd_nest
from graphc.codegen.nests.runner import Array, Products, run_nest
from graphc.codegen.target import Target
from graphc.ir.dims import evaluate
from graphc.ir.nodes import Graph, Value
from graphc.ir.types import Shape
from graphc.ops.layouts.winograd import PLANES, after, before, both_ways


def winograd_by_nest(
    body: Graph, target: Target, sizes: Mapping[str, int], values: Mapping[Value, Array]
) -> tuple[Array, Array]:
    """What the nest of such a kernel makes of the op's operands, and what the op has."""
    plan = plan_winograd(body, target)
    images, high, groups = (evaluate(extent, sizes) for extent in plan.grid)
    grid, expected = (images, high, groups * plan.group), values[plan.anchor]
    u = values[plan.u]
    sums = run_nest(
        winograd_nest(body, target), winograd_products(values[plan.x], u, plan.padding, grid),
        sizes, parts=2,
    )  # fmt: skip
    high, wide = expected.shape[2:]
    return winograd_results(sums, grid)[:, :, :high, :wide], expected


def winograd_products(x: Array, u: Array, padding: Shape, grid: Shape) -> Products:
    """The products of x [N, C, H, W] and u [16, O, C], for so many images, rows and columns of
    tiles, those that hang over the end computed with zeros: planes are the batch."""
    ends = [
        2 * tiles + 2 - dim - by
        for tiles, dim, by in zip(grid[1:], x.shape[2:], padding, strict=True)
    ]
    whole = np.pad(x, [(0, 0), (0, 0), *zip(padding, ends, strict=True)])
    square = [
        [whole[:, :, i : i + 2 * grid[1] : 2, j : j + 2 * grid[2] : 2] for j in range(4)]
        for i in range(4)
    ]
    with np.errstate(invalid="ignore", over="ignore"):
        planes = np.array(both_ways(before, square)).reshape(PLANES, *square[0][0].shape)
    tiles = planes.transpose(0, 1, 3, 4, 2).reshape(PLANES, math.prod(grid), x.shape[1])
    there = np.ones(u.shape, bool), np.ones(tiles.shape, bool)
    return Products(u, tiles, *there, k_blocks((x.shape[1],)))


def winograd_results(sums: Array, grid: Shape) -> Array:
    """Aᵀ m A of all sums [16, O, tiles]: [N, O, 2·rows, 2·columns]."""
    by_tile = sums.reshape(4, 4, sums.shape[1], *grid)
    with np.errstate(invalid="ignore", over="ignore"):
        pairs = np.array(both_ways(after, list(map(list, by_tile))))
    images, high, wide = grid
    order = pairs.transpose(3, 2, 4, 0, 5, 1)
    return order.reshape(images, sums.shape[1], 2 * high, 2 * wide)
