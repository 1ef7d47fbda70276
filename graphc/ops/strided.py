"""Movements whose elements lie at a stride of their own: diagonals, and windows that overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import Shape
from graphc.ops.kinds.movement import Case, Movement
from graphc.ops.kinds.op import Array, Types
from graphc.ops.movement import inverse_permutation, rest_of, transpose
from graphc.ops.windows import unwindows
from graphc.system import IMPORTING

Index = tuple[Any, ...]


# -- diagonals -----------------------------------------------------------------------------------


def _length(rows: int, columns: int, offset: int) -> int:
    return max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)


def _check_axes(op: str, axis1: int, axis2: int, rank: int, type: Any) -> None:
    whole = isinstance(axis1, int) and isinstance(axis2, int)
    if not whole or axis1 == axis2 or not (0 <= axis1 < rank and 0 <= axis2 < rank):
        raise ShapeError(f"{op} of {type}: axes {axis1} and {axis2}")


def _others(items: tuple[Any, ...], axis1: int, axis2: int) -> tuple[Any, ...]:
    return tuple(item for axis, item in enumerate(items) if axis not in (axis1, axis2))


def _placed(others: tuple[Any, ...], axis1: int, first: Any, axis2: int, second: Any) -> Any:
    """`others` with `first` put in at axis1 and `second` at axis2 of the result."""
    rest = iter(others)
    there = {axis1: first, axis2: second}
    return tuple(there[a] if a in there else next(rest) for a in range(len(others) + 2))


def _diagonal_shape(types: Types, *, offset: int, axis1: int, axis2: int) -> Shape:
    (x,) = types
    _check_axes("diagonal", axis1, axis2, x.rank, x)
    length = _length(x.shape[axis1], x.shape[axis2], offset)
    return (*_others(x.shape, axis1, axis2), length)


def _diagonal_cases(
    index: Index, types: Types, *, offset: int, axis1: int, axis2: int
) -> tuple[Case]:
    *others, i = index
    row, column = i + max(-offset, 0), i + max(offset, 0)
    return (Case(0, _placed(tuple(others), axis1, row, axis2, column)),)


def _diagonal_view(x: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    view = np.diagonal(x, offset, axis1, axis2)
    # NumPy marks it read-only for programs that took it for a copy.
    if x.flags.writeable:
        view.flags.writeable = True
    return view


def _diagonal_vjp(g: Any, out: Any, x: Any, *, offset: int, axis1: int, axis2: int) -> tuple[Any]:
    sizes = {"rows": x.shape[axis1], "columns": x.shape[axis2]}
    return (diagonal_embed(g, lift(0, g), offset=offset, axis1=axis1, axis2=axis2, **sizes),)


diagonal = Movement(
    "diagonal",
    _diagonal_shape,
    _diagonal_cases,
    _diagonal_view,
    vjp=_diagonal_vjp,
    samples=lambda m: [
        m(m.normal(5, 5), offset=0, axis1=0, axis2=1),
        m(m.normal(3, 7), offset=2, axis1=0, axis2=1),
        m(m.normal(20, 2, 21), offset=-3, axis1=2, axis2=0),
        m(m.normal(3, 3), offset=4, axis1=0, axis2=1),
    ],
)


def _embed_shape(
    types: Types, *, rows: int, columns: int, offset: int, axis1: int, axis2: int
) -> Shape:
    x, fill = types
    if not x.shape or fill.shape != ():
        raise ShapeError(f"diagonal_embed of {x} with {fill}: a vector or more, and a 0-d fill")
    _check_axes("diagonal_embed", axis1, axis2, x.rank + 1, x)
    if x.shape[-1] != _length(rows, columns, offset):
        raise ShapeError(f"diagonal_embed of {x} on diagonal {offset} of {rows} by {columns}")
    return tuple(_placed(x.shape[:-1], axis1, rows, axis2, columns))


def _embed_cases(
    index: Index, types: Types, *, rows: int, columns: int, offset: int, axis1: int, axis2: int
) -> tuple[Case, Case]:
    row, column = index[axis1], index[axis2]
    i = row - max(-offset, 0)
    guards = ((column - row - offset, 0, 1), (i, 0, types[0].shape[-1]))
    return Case(0, (*_others(index, axis1, axis2), i), guards), Case(1, ())


def _embed_view(
    x: Array, fill: Array, *, rows: int, columns: int, offset: int, axis1: int, axis2: int
) -> Array:
    out = np.full(_placed(x.shape[:-1], axis1, rows, axis2, columns), fill, x.dtype)
    _diagonal_view(out, offset=offset, axis1=axis1, axis2=axis2)[...] = x
    return out


def _embed_vjp(
    g: Any, out: Any, x: Any, fill: Any, *, rows: int, columns: int, offset: int, axis1: int,
    axis2: int,
) -> tuple[Any, Any]:  # fmt: skip
    inner = diagonal(g, offset=offset, axis1=axis1, axis2=axis2)
    return inner, lambda: rest_of(g, inner)


diagonal_embed: Movement = Movement(
    "diagonal_embed",
    _embed_shape,
    _embed_cases,
    _embed_view,
    arity=2,
    vjp=_embed_vjp,
    samples=lambda m: [
        m(m.normal(5), m.normal(), rows=5, columns=5, offset=0, axis1=0, axis2=1),
        m(m.normal(2, 3), m.normal(), rows=5, columns=21, offset=-2, axis1=2, axis2=0),
        m(m.normal(3, 18), m.normal(), rows=18, columns=20, offset=2, axis1=0, axis2=2),
        m(m.normal(0), m.normal(), rows=2, columns=2, offset=3, axis1=0, axis2=1),
    ],
)


# -- overlapping windows -------------------------------------------------------------------------


def _slide_shape(types: Types, *, axis: int, size: int, step: int) -> Shape:
    (x,) = types
    if not 0 <= axis < x.rank:
        raise ShapeError(f"slide: axis {axis} is out of range for {x}")
    if size < 0 or step < 1 or size > x.shape[axis]:
        raise AttributeValueError(f"slide of {x} along axis {axis}: size {size}, step {step}")
    return (*x.shape[:axis], (x.shape[axis] - size) // step + 1, *x.shape[axis + 1 :], size)


def _slide_cases(index: Index, types: Types, *, axis: int, size: int, step: int) -> tuple[Case]:
    *lead, tap = index
    return (Case(0, (*lead[:axis], lead[axis] * step + tap, *lead[axis + 1 :])),)


def _slide_view(x: Array, *, axis: int, size: int, step: int) -> Array:
    shape = (*x.shape[:axis], (x.shape[axis] - size) // step + 1, *x.shape[axis + 1 :], size)
    strides = (*x.strides[:axis], x.strides[axis] * step, *x.strides[axis + 1 :], x.strides[axis])
    return np.lib.stride_tricks.as_strided(x, shape, strides)


def _slide_vjp(g: Any, out: Any, x: Any, *, axis: int, size: int, step: int) -> tuple[Any]:
    with IMPORTING:
        from graphc.ops.reduce import sum

    if not size:
        return (broadcast_to(lift(0, g), x.shape),)
    # The axis next to its taps, as `unwindows` wants them; what overlaps is added up.
    rank = len(x.shape)
    order = (*(a for a in range(rank) if a != axis), axis)
    apart = unwindows(
        transpose(g, permutation=(*order, rank)), lift(0, g), size=(x.shape[axis],),
        kernel=(size,), stride=(step,), padding=(0,), dilation=(1,),
    )  # fmt: skip
    return (transpose(sum(apart, axes=(rank,)), permutation=inverse_permutation(order)),)


slide = Movement(
    "slide",
    _slide_shape,
    _slide_cases,
    _slide_view,
    vjp=_slide_vjp,
    samples=lambda m: [
        m(m.normal(9), axis=0, size=3, step=1), m(m.normal(2, 9, 3), axis=1, size=4, step=2),
        m(m.normal(30, 3), axis=0, size=2, step=5), m(m.normal(4, 40), axis=1, size=17, step=1),
        m(m.normal(4), axis=0, size=4, step=3), m(m.normal(4), axis=0, size=0, step=1),
    ],
)  # fmt: skip
