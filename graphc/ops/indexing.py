"""Reading and writing at data-dependent coordinates. Indices must lie in [0, size): negative ones
are resolved by the frontend, others raise before anything is written. Where several elements go to
one place, they are taken in row-major order of the source: they add up in it, or the last stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import FailedAssertionError, ShapeError
from graphc.ir.dims import Extent
from graphc.ir.handle import lift
from graphc.ir.types import DType, Shape
from graphc.ops.elementwise import cast, eq, logical_and, where
from graphc.ops.generate import iota_like
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.index import Gather, Scatter, put_last
from graphc.ops.kinds.op import EVERY, INTEGERS, NUMBERS, ContentCheck, SampleDrawer, Types
from graphc.ops.movement import broadcast, reshape


def _in_range(types: Types, *, axis: int) -> tuple[ContentCheck, ...]:
    message = f"index {{}} is out of bounds for dimension {axis} with size {types[0].shape[axis]}"
    return (ContentCheck(1, types[0].shape[axis], message),)


def _check_axis(types: Types, axis: int, op: str) -> None:
    if not 0 <= axis < types[0].rank:
        raise ShapeError(f"{op}: axis {axis} is out of range for {types[0]}")


def _zeros(x: Any) -> Any:
    return broadcast(lift(0, x), shape=x.shape)


def _or_zero(held: Any, x: Any) -> Any:
    """`x` where `held`, else 0. Storage types are selected in the type they compute in."""
    if not x.dtype.is_storage:
        return where(held, x, _zeros(x))
    wide = cast(x, dtype=x.dtype.computes_as)
    return cast(where(held, wide, _zeros(wide)), dtype=x.dtype)


def _checked_index(s: Any, x: Any, *, bound: Extent, message: str) -> Any:
    return x


check_index = Elementwise(
    "check_index",
    _checked_index,
    dtypes=INTEGERS,
    checks=lambda types, *, bound, message: (ContentCheck(0, bound, message),),
    vjp=None,
    samples=lambda m: [m(m.integers(5, 3, 4), bound=5, message="index out of range")],
)

check_all = Elementwise(
    "check_all",
    lambda s, x, *, message: x,
    dtypes=(DType.bool,),
    checks=lambda types, *, message: (ContentCheck(0, None, message),),
    vjp=None,
    samples=lambda m: [m(m.bools(3, 4) | True, message="not all are true")],
)

check_assertion = Elementwise(
    "check_assertion",
    lambda s, x, *, message: x,
    dtypes=(DType.bool,),
    checks=lambda types, *, message: (ContentCheck(0, None, message, FailedAssertionError),),
    vjp=None,
    samples=lambda m: [m(m.bools(2) | True, message="the sum is too large")],
)


# -- gather, scatter_…: the index has the operand's rank -----------------------------------------


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
    _check_axis(types, axis, "scatter")
    if not _fits(types[1].shape, types[0].shape, axis) or types[1].shape != types[2].shape:
        raise ShapeError(f"scatter along axis {axis}: index {types[1]}, source {types[2]}"
                         f" and operand {types[0]} do not fit")  # fmt: skip


def _at_axis(index: tuple[Any, ...], axis: int, chosen: Any) -> tuple[Any, ...]:
    return (*index[:axis], chosen, *index[axis + 1 :])


def _scattering(name: str, combine: Any, put: Any, **declaration: Any) -> Scatter:
    """A scatter along one axis: out[i][index[i][j]] takes source[i][j] for axis 1."""
    return Scatter(
        name,
        _scatter_check,
        lambda index, types, read, *, axis: _at_axis(index, axis, read(index)),
        combine,
        put,
        checks=_in_range,
        **declaration,
    )


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


def _scatter_samples(draw: Any) -> Any:
    return lambda m: [
        m(draw(m, 4, 5), m.integers(5, 4, 3), draw(m, 4, 3) * 1.01, axis=1),
        m(draw(m, 4, 5), m.integers(4, 6, 5), draw(m, 6, 5) * 1.01, axis=0),
        m(draw(m, 3, 4, 20), m.integers(4, 3, 6, 18), draw(m, 3, 6, 18) * 1.01, axis=1),
        m(draw(m, 4, 5), m.integers(5, 4, 0), draw(m, 4, 0), axis=1),
    ]


_normal = _scatter_samples(lambda m, *shape: m.normal(*shape))

scatter_add: Scatter = _scattering(
    "scatter_add",
    lambda s, old, new: s.add(old, new),
    np.add.at,
    dtypes=NUMBERS,
    vjp=lambda g, out, x, index, source, *, axis: (
        g,
        None,
        lambda: gather(g, index, axis=axis),
    ),
    samples=_normal,
)


def _set_vjp(g: Any, out: Any, x: Any, index: Any, source: Any, *, axis: int) -> Any:
    def kept() -> Any:
        return scatter_set(g, index, _zeros(source), axis=axis)

    def used() -> Any:
        # Of the elements that go to one place, the last is what stands there.
        order = reshape(iota_like(g, (source.tensor_type.numel,), 0), shape=source.shape)
        none = broadcast(lift(0, order), shape=x.shape)
        last = gather(scatter_set(none, index, order, axis=axis), index, axis=axis)
        return _or_zero(eq(last, order), gather(g, index, axis=axis))

    return kept, None, used


scatter_set: Scatter = _scattering(
    "scatter_set", None, put_last, dtypes=EVERY, vjp=_set_vjp, samples=_normal
)


def _mul_vjp(g: Any, out: Any, x: Any, index: Any, source: Any, *, axis: int) -> Any:
    def scale() -> Any:
        ones = broadcast(lift(1, x), shape=x.shape)
        return g * scatter_mul(ones, index, source, axis=axis)

    def others() -> Any:
        # As of prod: the product of the others, where at most this one is 0.
        zero = eq(source, _zeros(source))
        count = gather(
            scatter_add(_zeros(x), index, cast(zero, dtype=x.dtype), axis=axis), index, axis=axis
        )
        safe = where(zero, _zeros(source) + 1, source)
        rest = gather(g * scatter_mul(x, index, safe, axis=axis), index, axis=axis)
        single = logical_and(zero, eq(count, _zeros(source) + 1))
        none = eq(count, _zeros(source))
        return where(none, rest / safe, where(single, rest, _zeros(source)))

    return scale, None, others


scatter_mul: Scatter = _scattering(
    "scatter_mul",
    lambda s, old, new: s.mul(old, new),
    np.multiply.at,
    dtypes=NUMBERS,
    vjp=_mul_vjp,
    samples=lambda m: [
        *_scatter_samples(lambda m, *shape: m.apart(*shape))(m),
        m(m.normal(2, 2), np.array([[0, 0, 0, 1, 1]] * 2),
          np.array([[2.0, 0, 3, 4, 5], [0, 2, 0, 0, 3]]), axis=1),
    ],
)  # fmt: skip


def _extremum_vjp(g: Any, out: Any, x: Any, index: Any, source: Any, *, axis: int) -> Any:
    # All that equal the result share the gradient evenly, as in max over axes.
    chosen = eq(source, gather(out, index, axis=axis))
    stays = eq(x, out)

    def share() -> Any:
        count = scatter_add(
            cast(stays, dtype=x.dtype), index, cast(chosen, dtype=x.dtype), axis=axis
        )
        return g / count

    return (
        lambda: where(stays, share(), _zeros(x)),
        None,
        lambda: where(chosen, gather(share(), index, axis=axis), _zeros(source)),
    )


def _extreme_samples(m: SampleDrawer) -> list[Any]:
    ties = m(m.integers(3, 2, 3) * 1.0, m.integers(3, 2, 9), m.integers(3, 2, 9) * 1.0, axis=1,
             differentiable=False)  # fmt: skip
    return [*_scatter_samples(lambda m, *shape: m.apart(*shape))(m), ties]


scatter_max: Scatter = _scattering(
    "scatter_max", lambda s, old, new: s.maximum(old, new), np.maximum.at, dtypes=NUMBERS,
    vjp=_extremum_vjp, samples=_extreme_samples,
)  # fmt: skip
scatter_min: Scatter = _scattering(
    "scatter_min", lambda s, old, new: s.minimum(old, new), np.minimum.at, dtypes=NUMBERS,
    vjp=_extremum_vjp, samples=_extreme_samples,
)  # fmt: skip


# -- take, index_…: whole slices along one axis --------------------------------------------------


def _take_shape(types: Types, *, axis: int) -> Shape:
    _check_axis(types, axis, "take")
    shape = types[0].shape
    return (*shape[:axis], *types[1].shape, *shape[axis + 1 :])


def _take_source(index: Any, types: Types, read: Any, *, axis: int) -> tuple[Any, ...]:
    rank = types[1].rank
    chosen = read(tuple(index[axis : axis + rank]))
    return (*index[:axis], chosen, *index[axis + rank :])


def _slices_check(op: str) -> Any:
    def check(types: Types, *, axis: int) -> None:
        _check_axis(types, axis, op)
        expected = _take_shape(types[:2], axis=axis)
        if types[2].shape != expected:
            raise ShapeError(f"{op} along axis {axis}: source {types[2]} is not {list(expected)}")

    return check


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


def _slices_samples(m: SampleDrawer) -> list[Any]:
    return [
        m(m.normal(6, 20), m.integers(6, 2, 3), m.normal(2, 3, 20), axis=0),
        m(m.normal(3, 6), m.integers(6, 4), m.normal(3, 4), axis=1),
        m(m.normal(3, 6), m.integers(6), m.normal(3), axis=1),
        m(m.normal(2, 6, 3), m.integers(6, 0), m.normal(2, 0, 3), axis=1),
    ]


index_add: Scatter = Scatter(
    "index_add",
    _slices_check("index_add"),
    _take_source,
    lambda s, old, new: s.add(old, new),
    np.add.at,
    dtypes=NUMBERS,
    checks=_in_range,
    vjp=lambda g, out, x, index, source, *, axis: (g, None, lambda: take(g, index, axis=axis)),
    samples=_slices_samples,
)


def _index_set_vjp(g: Any, out: Any, x: Any, index: Any, source: Any, *, axis: int) -> Any:
    def kept() -> Any:
        return index_set(g, index, _zeros(source), axis=axis)

    def used() -> Any:
        order = reshape(iota_like(g, (index.tensor_type.numel,), 0), shape=index.shape)
        none = broadcast(lift(0, order), shape=(x.shape[axis],))
        last = take(index_set(none, index, order, axis=0), index, axis=0)
        after = (1,) * (len(x.shape) - axis - 1)
        stands = reshape(eq(last, order), shape=(*index.shape, *after))
        taken = take(g, index, axis=axis)
        return _or_zero(broadcast(stands, shape=source.shape), taken)

    return kept, None, used


index_set: Scatter = Scatter(
    "index_set", _slices_check("index_set"), _take_source, None, put_last,
    dtypes=EVERY, checks=_in_range, vjp=_index_set_vjp, samples=_slices_samples,
)  # fmt: skip
