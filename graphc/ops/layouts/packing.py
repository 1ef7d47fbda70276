"""Matrices stored in the order in which a matrix product reads them.

A product's register tile takes some vectors of columns at a time, for one k after the other. A
packed matrix [.., depth, columns] lies as [.., tiles, depth, vectors, lanes]: what a tile reads is
one run of memory. Rows are packed the same way, a matrix [.., rows, depth] being taken by its other
axis. A pass puts these ops in (passes/layouts.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import Shape
from graphc.ops import elementwise, reduce
from graphc.ops.elementwise import cast
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.movement import Case, Movement
from graphc.ops.kinds.op import Types
from graphc.ops.movement import concat, pad, reshape, transpose

ROWS, COLUMNS = 0, 1
"""Which axis of the matrix is cut into tiles."""


def _check(axis: int, **counts: int) -> None:
    if axis not in (ROWS, COLUMNS):
        raise AttributeValueError(f"axis {axis}: {ROWS} for tiles of rows, {COLUMNS} of columns")
    for name, count in counts.items():
        if count < 1:
            raise AttributeValueError(f"{name} must be at least 1, got {count}")


def _unpack_shape(types: Types, *, axis: int, size: int) -> Shape:
    _check(axis)
    if types[0].rank < 4:
        raise ShapeError(f"unpack of {types[0]}: expected [.., tiles, depth, vectors, lanes]")
    *batch, tiles, depth, vectors, lanes = types[0].shape
    if not 0 <= size <= tiles * vectors * lanes:
        raise ShapeError(f"unpack of {types[0]} holds no {size} rows or columns")
    return (*batch, size, depth) if axis == ROWS else (*batch, depth, size)


def _unpack_cases(index: tuple[Any, ...], types: Types, *, axis: int, size: int) -> tuple[Case]:
    vectors, lanes = (max(dim, 1) for dim in types[0].shape[-2:])
    *batch, row, column = index
    along, depth = (row, column) if axis == ROWS else (column, row)
    # By lanes first: a vector of them lies in one tile, whichever it is.
    vector = along // lanes
    return (Case(0, (*batch, vector // vectors, depth, vector % vectors, along % lanes)),)


def _unpack_view(x: np.ndarray[Any, Any], *, axis: int, size: int) -> np.ndarray[Any, Any]:
    *batch, tiles, depth, vectors, lanes = x.shape
    rows = np.moveaxis(x, -3, -1).reshape(*batch, tiles * vectors * lanes, depth)[..., :size, :]
    return rows if axis == ROWS else rows.swapaxes(-1, -2)


# x [.., tiles, depth, vectors, lanes] gives the matrix [.., depth, size], or with tiles of rows
# [.., size, depth]. What a last tile holds beyond `size` is left out.
unpack: Movement = Movement(
    "unpack",
    _unpack_shape,
    _unpack_cases,
    _unpack_view,
    vjp=lambda g, out, x, *, axis, size: (
        pack(g, axis=axis, vectors=x.shape[-2], lanes=x.shape[-1]),
    ),
    samples=lambda m: [
        m(m.normal(2, 3, 2, 4), axis=COLUMNS, size=16), m(m.normal(2, 3, 2, 4), axis=ROWS, size=13),
        m(m.normal(2, 1, 5, 3, 8), axis=COLUMNS, size=20), m(m.normal(0, 3, 1, 4), axis=0, size=0),
        m(m.normal(2, 0, 3, 8), axis=COLUMNS, size=40), m(m.normal(3, 37, 3, 8), axis=1, size=65),
    ],
)  # fmt: skip


def packed_matrix(x: Any, *, axis: int = COLUMNS, vectors: int = 1, lanes: int = 1) -> Any:
    """What `pack` is."""
    _check(axis, vectors=vectors, lanes=lanes)
    if len(x.shape) < 2:
        raise ShapeError(f"pack of {x.tensor_type}: expected a matrix, or several")
    rank = len(x.shape)
    batch = tuple(range(rank - 2))
    if axis == COLUMNS:
        x = transpose(x, permutation=(*batch, rank - 1, rank - 2))
    *outer, size, depth = x.shape
    tiles = -(-size // (vectors * lanes))
    missing = tiles * vectors * lanes - size
    if missing:
        none = (0,) * rank
        x = pad(x, lift(0, x), low=none, high=(*none[2:], missing, 0), interior=none)
    x = reshape(x, shape=(*outer, tiles, vectors, lanes, depth))
    order = (*batch, rank - 2, rank + 1, rank - 1, rank)
    return transpose(x, permutation=order)


# A matrix [.., depth, columns], or with tiles of rows [.., rows, depth], as
# [.., tiles, depth, vectors, lanes]; a last tile that is not full ends in zeros.
pack: Composite = Composite(
    "pack",
    packed_matrix,
    samples=lambda m: [
        m(m.normal(3, 16), vectors=2, lanes=4), m(m.normal(13, 3), axis=ROWS, vectors=2, lanes=4),
        m(m.normal(2, 5, 20), vectors=3, lanes=8), m(m.normal(0, 3), axis=ROWS),
        m(m.normal(0, 40), vectors=3, lanes=8),
    ],
)  # fmt: skip


# -- pairs ---------------------------------------------------------------------------------------


def _unpack_pairs_shape(types: Types, *, depth: int, size: int) -> Shape:
    (x,) = types
    if x.rank != 4 or x.shape[3] % 2:
        raise ShapeError(f"unpack_pairs of {x}: expected [tiles, pairs, vectors, 2 * lanes]")
    tiles, pairs, vectors, elements = x.shape
    if not 0 <= depth <= 2 * pairs or not 0 <= size <= tiles * vectors * elements // 2:
        raise ShapeError(f"unpack_pairs of {x} holds no matrix [{depth}, {size}]")
    return depth, size


def _unpack_pairs_cases(
    index: tuple[Any, ...], types: Types, *, depth: int, size: int
) -> tuple[Case]:
    vectors, elements = (max(dim, 1) for dim in types[0].shape[-2:])
    lanes = max(elements // 2, 1)
    k, column = index
    vector = column // lanes
    lane = column % lanes * 2 + k % 2
    return (Case(0, (vector // vectors, k // 2, vector % vectors, lane)),)


def _unpack_pairs_view(x: np.ndarray[Any, Any], *, depth: int, size: int) -> np.ndarray[Any, Any]:
    tiles, pairs, vectors, elements = x.shape
    apart = x.reshape(tiles, pairs, vectors, elements // 2, 2)
    columns = tiles * vectors * (elements // 2)
    return np.transpose(apart, (1, 4, 0, 2, 3)).reshape(2 * pairs, columns)[:depth, :size]


# x [tiles, pairs, vectors, 2 * lanes] gives the matrix [depth, size], as `pack_pairs` had it; what
# is behind these pairs is left out.
unpack_pairs: Movement = Movement(
    "unpack_pairs",
    _unpack_pairs_shape,
    _unpack_pairs_cases,
    _unpack_pairs_view,
    vjp=lambda g, out, x, *, depth, size: (
        pack_pairs(g, vectors=x.shape[-2], lanes=x.shape[-1] // 2, pairs=x.shape[-3]),
    ),
    samples=lambda m: [
        m(m.normal(2, 3, 2, 8), depth=6, size=16), m(m.normal(2, 3, 2, 8), depth=5, size=13),
        m(m.normal(1, 1, 1, 2), depth=1, size=1), m(m.normal(2, 4, 1, 8), depth=5, size=7),
        m(m.normal(3, 5, 3, 16), depth=10, size=65),
    ],
)  # fmt: skip


def _pack_pairs(x: Any, *, vectors: int = 1, lanes: int = 1, pairs: int = 0) -> Any:
    _check(COLUMNS, vectors=vectors, lanes=lanes)
    if len(x.shape) != 2:
        raise ShapeError(f"pack_pairs of {x.tensor_type}: expected a matrix")
    depth, columns = x.shape
    pairs = max(pairs, -(-depth // 2))
    if 2 * pairs > depth:
        high = (2 * pairs - depth, 0)
        x = pad(x, lift(0, x), low=(0, 0), high=high, interior=(0, 0))
    x = transpose(reshape(x, shape=(pairs, 2, columns)), permutation=(0, 2, 1))
    return packed_matrix(reshape(x, shape=(pairs, 2 * columns)), vectors=vectors, lanes=2 * lanes)


# A matrix [depth, columns] as [tiles, pairs of depth, vectors, 2 * lanes], the two of a pair side
# by side: what instructions for pairs take. An odd depth ends in zeros, and so do more `pairs`.
pack_pairs: Composite = Composite(
    "pack_pairs",
    _pack_pairs,
    samples=lambda m: [
        m(m.normal(4, 16), vectors=2, lanes=4), m(m.normal(5, 13), vectors=3, lanes=2),
        m(m.normal(1, 1)), m(m.normal(7, 70), vectors=3, lanes=8), m(m.normal(3, 5), pairs=4),
    ],
)  # fmt: skip


def _note_pairs(x: Any) -> Any:
    """What is packed, and behind the pairs of each tile the least magnitudes among them."""
    if not x.dtype.is_float:
        raise DTypeError(f"note_pairs of {x.tensor_type}: integers have no exponents")
    wide = cast(x, dtype=x.dtype.computes_as) if x.dtype.is_storage else x
    sizes = elementwise.abs(wide)
    none = broadcast_to(lift(math.inf, sizes), sizes.shape)
    zero = elementwise.eq(sizes, broadcast_to(lift(0, sizes), sizes.shape))
    least = reduce.min(elementwise.where(zero, none, sizes), axes=(1,))
    least = cast(least, dtype=x.dtype) if x.dtype.is_storage else least
    shape = tuple(x.shape)
    return concat(x, reshape(least, shape=(shape[0], 1, *shape[2:])), axis=1)


# [tiles, pairs, vectors, 2 * lanes] as [tiles, pairs + 1, ..]: the last are the least magnitudes of
# all before them that are not zero, infinity where there are none.
note_pairs: Composite = Composite(
    "note_pairs",
    _note_pairs,
    samples=lambda m: [m(m.apart(2, 3, 2, 8)), m(m.apart(1, 1, 1, 2))],
)
