"""Reading and adding at data-dependent coordinates. Indices must lie in [0, size): negative ones
are resolved by the frontend, others raise before anything is written."""

from __future__ import annotations

from typing import Any

from graphc.errors import ShapeError
from graphc.ir.handle import lift
from graphc.ir.types import Shape
from graphc.ops.kinds import Elementwise, Gather, ScatterAdd
from graphc.ops.movement import broadcast
from graphc.ops.op import INTEGERS, NUMBERS, Check, Types


def _in_range(types: Types, *, axis: int) -> tuple[Check, ...]:
    message = f"index out of range for axis {axis} of {types[0]}"
    return (Check(1, types[0].shape[axis], message),)


def _check_axis(types: Types, axis: int, op: str) -> None:
    if not 0 <= axis < types[0].rank:
        raise ShapeError(f"{op}: axis {axis} is out of range for {types[0]}")


def _zeros(x: Any) -> Any:
    return broadcast(lift(0, x), shape=x.shape)


check_index = Elementwise(
    "check_index",
    lambda s, x, *, bound, message: x,
    dtypes=INTEGERS,
    checks=lambda types, *, bound, message: (Check(0, bound, message),),
    vjp=None,
    samples=lambda m: [m(m.integers(5, 3, 4), bound=5, message="index out of range")],
)


# -- gather, scatter_add: the index has the operand's rank ---------------------------------------


def _fits(index: Shape, shape: Shape, axis: int) -> bool:
    return len(index) == len(shape) and all(
        a == axis or i <= d for a, (i, d) in enumerate(zip(index, shape, strict=True))
    )


def _gather_shape(types: Types, *, axis: int) -> Shape:
    _check_axis(types, axis, "gather")
    if not _fits(types[1].shape, types[0].shape, axis):
        raise ShapeError(f"gather along axis {axis}: index {types[1]} does not fit {types[0]}")
    return types[1].shape


def _scatter_check(types: Types, *, axis: int) -> None:
    _check_axis(types, axis, "scatter_add")
    if not _fits(types[1].shape, types[0].shape, axis) or types[1].shape != types[2].shape:
        raise ShapeError(f"scatter_add along axis {axis}: index {types[1]}, source {types[2]}"
                         f" and operand {types[0]} do not fit")  # fmt: skip


def _at_axis(index: tuple[Any, ...], axis: int, chosen: Any) -> tuple[Any, ...]:
    return (*index[:axis], chosen, *index[axis + 1 :])


gather = Gather(
    "gather",
    _gather_shape,
    lambda index, types, read, *, axis: _at_axis(index, axis, read(index)),
    checks=_in_range,
    vjp=lambda g, out, x, index, *, axis: (
        lambda: scatter_add(_zeros(x), index, g, axis=axis),
        None,
    ),
    samples=lambda m: [
        m(m.normal(4, 5), m.integers(5, 4, 3), axis=1),
        m(m.normal(4, 5), m.integers(4, 2, 5), axis=0),
        m(m.normal(3, 4, 20), m.integers(4, 3, 2, 18), axis=1),
        m(m.normal(4, 5), m.integers(5, 0, 3), axis=1),
    ],
)

scatter_add: ScatterAdd = ScatterAdd(
    "scatter_add",
    _scatter_check,
    lambda index, types, read, *, axis: _at_axis(index, axis, read(index)),
    dtypes=NUMBERS,
    checks=_in_range,
    vjp=lambda g, out, x, index, source, *, axis: (
        g,
        None,
        lambda: gather(g, index, axis=axis),
    ),
    samples=lambda m: [
        m(m.normal(4, 5), m.integers(5, 4, 3), m.normal(4, 3), axis=1),
        m(m.normal(4, 5), m.integers(4, 6, 5), m.normal(6, 5), axis=0),
        m(m.normal(4, 5), m.integers(5, 4, 0), m.normal(4, 0), axis=1),
    ],
)


# -- take, index_add: whole slices along one axis ------------------------------------------------


def _take_shape(types: Types, *, axis: int) -> Shape:
    _check_axis(types, axis, "take")
    shape = types[0].shape
    return (*shape[:axis], *types[1].shape, *shape[axis + 1 :])


def _take_source(index: Any, types: Types, read: Any, *, axis: int) -> tuple[Any, ...]:
    rank = types[1].rank
    chosen = read(tuple(index[axis : axis + rank]))
    return (*index[:axis], chosen, *index[axis + rank :])


def _index_add_check(types: Types, *, axis: int) -> None:
    _check_axis(types, axis, "index_add")
    expected = _take_shape(types[:2], axis=axis)
    if types[2].shape != expected:
        raise ShapeError(f"index_add along axis {axis}: source {types[2]} is not {list(expected)}")


take = Gather(
    "take",
    _take_shape,
    _take_source,
    checks=_in_range,
    vjp=lambda g, out, x, index, *, axis: (
        lambda: index_add(_zeros(x), index, g, axis=axis),
        None,
    ),
    samples=lambda m: [
        m(m.normal(6, 20), m.integers(6, 2, 3), axis=0),
        m(m.normal(3, 6), m.integers(6, 4), axis=1),
        m(m.normal(6, 2), m.integers(6), axis=0),
        m(m.normal(6, 2), m.integers(6, 0), axis=0),
    ],
)

index_add: ScatterAdd = ScatterAdd(
    "index_add",
    _index_add_check,
    _take_source,
    dtypes=NUMBERS,
    checks=_in_range,
    vjp=lambda g, out, x, index, source, *, axis: (g, None, lambda: take(g, index, axis=axis)),
    samples=lambda m: [
        m(m.normal(6, 20), m.integers(6, 2, 3), m.normal(2, 3, 20), axis=0),
        m(m.normal(3, 6), m.integers(6, 4), m.normal(3, 4), axis=1),
    ],
)
