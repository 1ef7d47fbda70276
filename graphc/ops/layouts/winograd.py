"""Convolution by Winograd's F(2x2, 3x3), as ops.

Each tile of 2 x 2 results takes 4·4 products a channel where the definition takes 2·2·9 (Winograd,
"Arithmetic complexity of computations", 1980; Lavin and Gray, "Fast algorithms for convolutional
neural networks", 2016). With d the 4 x 4 elements under a tile and g the 3 x 3 weights

    y = Aᵀ [ Σ_c (G g Gᵀ) ⊙ (Bᵀ d B) ] A

where ⊙ multiplies element by element, so that the sum over channels is 16 matrix products. Sums of
the transforms are rounded, hence another rounding than the definition's: docs/contractions.md has
the bound. The ops are put in by a pass at level relaxed (passes/winograd.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.handle import lift
from graphc.ir.types import Shape
from graphc.ops.contract import matmul
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import FLOATS, SampleDrawer
from graphc.ops.movement import concat, pad, reshape, slice_, transpose

PLANES = 16
"""Products of a tile and channel, one for each of the 4 x 4 elements."""

_G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


def weight_matrix(rotated: bool) -> np.ndarray[Any, Any]:
    """[16, 9]: what takes the nine weights of a kernel to G g Gᵀ; `rotated`: of the kernel rotated
    by 180 degrees, as the gradient takes it. Its elements are 0 and ±1, ½, ¼, so its products are
    exact."""
    matrix = np.kron(_G, _G)
    return matrix[:, ::-1] if rotated else matrix


def before(d: Any) -> list[Any]:
    """Bᵀ d for four of anything that adds and subtracts."""
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def after(m: Any) -> list[Any]:
    """Aᵀ m."""
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


def both_ways(change: Any, square: list[list[Any]]) -> list[list[Any]]:
    """`change` of the columns, then of the rows of what comes out."""
    columns = [change([row[j] for row in square]) for j in range(4)]
    return [change([column[i] for column in columns]) for i in range(len(columns[0]))]


def result_shape(x: Shape, u: Shape, padding: Shape) -> Shape:
    """[N, O, H', W'] for x [N, C, H, W] and transformed weights u [16, O, C]."""
    fits = len(x) == 4 and len(u) == 3 and u[0] == PLANES and u[2] == x[1] and len(padding) == 2
    if not fits or min(padding) < 0:
        raise ShapeError(
            f"winograd of {list(x)} with {list(u)}, padding {list(padding)}: "
            "expected [N, C, H, W] and [16, O, C]"
        )
    size = tuple(dim + 2 * by - 2 for dim, by in zip(x[2:], padding, strict=True))
    if min(size) < 1:
        raise ShapeError(f"winograd of {list(x)} padded by {list(padding)}: smaller than 3 x 3")
    return (x[0], u[1], *size)


def _winograd(x: Any, u: Any, *, padding: Shape = (0, 0)) -> Any:
    if x.dtype is not u.dtype or x.dtype not in FLOATS:
        raise DTypeError(f"winograd of {x.tensor_type} and {u.tensor_type}: both f32, or both f64")
    images, outputs, *size = result_shape(x.shape, u.shape, padding)
    channels = x.shape[1]
    tiles = tuple(-(-dim // 2) for dim in size)
    high = (2 * t + 2 - dim - by for t, dim, by in zip(tiles, x.shape[2:], padding, strict=True))
    whole = pad(x, lift(0, x), low=(0, 0, *padding), high=(0, 0, *high), interior=(0,) * 4)
    square = [
        [
            slice_(whole, start=(0, 0, i, j), size=(images, channels, *tiles), step=(1, 1, 2, 2))
            for j in range(4)
        ]
        for i in range(4)
    ]
    count = images * tiles[0] * tiles[1]
    planes = [
        reshape(transpose(plane, permutation=(1, 0, 2, 3)), shape=(1, channels, count))
        for row in both_ways(before, square)
        for plane in row
    ]
    products = matmul(u, concat(*planes, axis=0))
    step = (1, 1, 1)
    sums = [
        reshape(
            slice_(products, start=(plane, 0, 0), size=(1, outputs, count), step=step),
            shape=(outputs, images, tiles[0], 1, tiles[1], 1),
        )
        for plane in range(PLANES)
    ]
    results = both_ways(after, [sums[4 * i : 4 * i + 4] for i in range(4)])
    joined = concat(*(concat(*row, axis=5) for row in results), axis=3)
    shape = (outputs, images, 2 * tiles[0], 2 * tiles[1])
    by_images = transpose(reshape(joined, shape=shape), permutation=(1, 0, 2, 3))
    return slice_(by_images, start=(0,) * 4, size=(images, outputs, *size), step=(1,) * 4)


def _samples(m: SampleDrawer) -> list[Any]:
    return [
        m(m.normal(2, 2, 3, 4), m.normal(16, 1, 2), padding=(1, 1)),
        m(m.normal(1, 1, 5, 3), m.normal(16, 2, 1), padding=(0, 2)),
        m(m.normal(3, 1, 1, 1), m.normal(16, 1, 1), padding=(1, 1)),
        m(m.normal(2, 5, 9, 35), m.normal(16, 9, 5), padding=(1, 0), differentiable=False),
        m(m.normal(1, 0, 4, 4), m.normal(16, 2, 0), padding=(1, 1)),
        m(m.normal(0, 2, 4, 4), m.normal(16, 2, 2), padding=(1, 1)),
    ]


# x [N, C, H, W] and u [16, O, C], the transformed weights (`weight_matrix`), give the convolution
# [N, O, H', W'] of stride 1 with zeros around.
winograd = Composite("winograd", _winograd, samples=_samples, recipe="winograd", epilogue=True)
