"""Matrices of i8 stored as instructions for four products take them.

A matrix [depth, columns] lies as [tiles, quads of depth + 1, vectors, 4 * lanes]: the four of a
quad side by side, and behind each tile's quads an i32 for each column, as four bytes: -128 times
its sum. An operand of i8 is multiplied as u8, 128 more than it is; with that it comes right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType, Shape
from graphc.ops import reduce
from graphc.ops.elementwise import cast
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.movement import Case, Movement
from graphc.ops.kinds.op import Types
from graphc.ops.layouts.packing import packed_matrix
from graphc.ops.movement import concat, pad, reshape, transpose
from graphc.ops.scalar_functions.bitwise import shift_right

QUAD = 4
OFFSET = 128
"""What an i8 is more as a u8."""


def _unpack_shape(types: Types, *, depth: int, size: int) -> Shape:
    (x,) = types
    if x.rank != 4 or x.shape[1] < 1 or x.shape[3] % QUAD:
        raise ShapeError(f"unpack_quads of {x}: expected [tiles, quads + 1, vectors, 4 * lanes]")
    tiles, quads, vectors, elements = x.shape
    if not 0 <= depth <= QUAD * (quads - 1) or not 0 <= size <= tiles * vectors * elements // QUAD:
        raise ShapeError(f"unpack_quads of {x} holds no matrix [{depth}, {size}]")
    return depth, size


def _unpack_cases(index: tuple[Any, ...], types: Types, *, depth: int, size: int) -> tuple[Case]:
    vectors, elements = (max(dim, 1) for dim in types[0].shape[-2:])
    lanes = max(elements // QUAD, 1)
    k, column = index
    vector = column // lanes
    lane = column % lanes * QUAD + k % QUAD
    return (Case(0, (vector // vectors, k // QUAD, vector % vectors, lane)),)


def _unpack_view(x: np.ndarray[Any, Any], *, depth: int, size: int) -> np.ndarray[Any, Any]:
    tiles, quads, vectors, elements = x.shape
    apart = x.reshape(tiles, quads, vectors, elements // QUAD, QUAD)
    columns = tiles * vectors * (elements // QUAD)
    return np.transpose(apart, (1, 4, 0, 2, 3)).reshape(QUAD * quads, columns)[:depth, :size]


# x [tiles, quads + 1, vectors, 4 * lanes] gives the matrix [depth, size], as `pack_quads` had it.
unpack_quads: Movement = Movement(
    "unpack_quads", _unpack_shape, _unpack_cases, _unpack_view, vjp=None,
    samples=lambda m: [
        m(m.bytes(2, 3, 2, 16), depth=8, size=16),
        m(m.bytes(2, 3, 2, 16), depth=5, size=13),
        m(m.bytes(1, 2, 1, 4), depth=1, size=1),
        m(m.bytes(3, 5, 3, 32), depth=15, size=65),
    ],
)  # fmt: skip


def _pack_quads(x: Any, *, vectors: int = 1, lanes: int = 1) -> Any:
    if len(x.shape) != 2:
        raise ShapeError(f"pack_quads of {x.tensor_type}: expected a matrix")
    depth, columns = x.shape
    quads = -(-depth // QUAD)
    rows = _bytes(reduce.sum(cast(x, dtype=DType.i32), axes=(0,)) * -OFFSET)
    if depth % QUAD:
        high = (QUAD * quads - depth, 0)
        x = pad(x, lift(0, x), low=(0, 0), high=high, interior=(0, 0))
    x = concat(x, rows, axis=0)
    x = transpose(reshape(x, shape=(quads + 1, QUAD, columns)), permutation=(0, 2, 1))
    x = reshape(x, shape=(quads + 1, QUAD * columns))
    return packed_matrix(x, vectors=vectors, lanes=QUAD * lanes)


def _bytes(x: Any) -> Any:
    """i32 [n] as the four rows of i8 that its bytes are, the low ones first."""
    rows = []
    for byte in range(QUAD):
        moved = shift_right(x, broadcast_to(lift(8 * byte, x), x.shape))
        rows.append(reshape(cast(moved, dtype=DType.i8), shape=(1, *x.shape)))
    return concat(*rows, axis=0)


# A matrix of i8 [depth, columns] as [tiles, quads of depth + 1, vectors, 4 * lanes]; a depth that
# is no multiple of four ends in zeros.
pack_quads: Composite = Composite(
    "pack_quads", _pack_quads, differentiable=False, dtypes=(DType.i8,),
    samples=lambda m: [
        m(m.bytes(8, 16), vectors=2, lanes=4), m(m.bytes(1, 1)),
        m(m.bytes(7, 70), vectors=3, lanes=8),
    ],
)  # fmt: skip
