"""Reductions. Gradients at ties: equal maxima share the gradient evenly, as PyTorch's amax does."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.ir.handle import broadcast_to
from graphc.ir.types import DType
from graphc.ops.elementwise import cast, eq, ne, where
from graphc.ops.elementwise import logical_and as both
from graphc.ops.elementwise import logical_or as either
from graphc.ops.kinds.op import NUMBERS, SampleDrawer
from graphc.ops.kinds.reduce import ArgReduce, Reduce
from graphc.ops.movement import reshape


def keep_axes(reduced: Any, axes: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """A reduced value with its axes back, each of size 1."""
    return reshape(reduced, shape=tuple(1 if a in axes else d for a, d in enumerate(shape)))


def spread(reduced: Any, axes: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """A reduced value repeated along its axes to `shape`."""
    return broadcast_to(keep_axes(reduced, axes, shape), shape)


def _all_axes(m: SampleDrawer, draw: Any) -> list[Any]:
    return [
        m(draw(3, 5), axes=(1,)),
        m(draw(3, 5), axes=(0,)),
        m(draw(2, 3, 4), axes=(0, 2)),
        m(draw(3, 70), axes=(0, 1)),
        m(draw(2, 150), axes=(1,)),
        m(draw(130, 3), axes=(0,)),
        m(draw(4), axes=()),
        m(draw(), axes=()),
        m(draw(0, 3), axes=(1,)),
    ]


def _samples(m: SampleDrawer) -> list[Any]:
    return [*_all_axes(m, m.normal), m(m.normal(0, 3), axes=(0,))]


def _extremum_vjp(g: Any, out: Any, x: Any, *, axes: tuple[int, ...]) -> tuple[Any]:
    # NaN is the result where there is one, and does not equal itself.
    best = either(eq(x, spread(out, axes, x.shape)), ne(x, x))
    ones = cast(best, dtype=x.dtype)
    share = g / sum(ones, axes=axes)
    return (where(best, spread(share, axes, x.shape), ones * 0),)


def _product_vjp(g: Any, out: Any, x: Any, *, axes: tuple[int, ...]) -> tuple[Any]:
    # out / x where x is not 0; where exactly one element of a row is 0, the product of the others.
    zero = eq(x, x * 0)
    ones = cast(zero, dtype=x.dtype)
    count = sum(ones, axes=axes)
    safe = where(zero, x * 0 + 1, x)
    others = spread(prod(safe, axes=axes), axes, x.shape)
    single = spread(eq(count, count * 0 + 1), axes, x.shape)
    none = spread(eq(count, count * 0), axes, x.shape)
    spread_g = spread(g, axes, x.shape)
    left_out = where(both(zero, single), others, x * 0)
    return (spread_g * where(none, others / safe, left_out),)


def lowest(dtype: DType) -> Any:
    if dtype is DType.bool:
        return False
    return -np.inf if dtype.is_float else np.iinfo(dtype.numpy).min


def highest(dtype: DType) -> Any:
    if dtype is DType.bool:
        return True
    return np.inf if dtype.is_float else np.iinfo(dtype.numpy).max


def _distinct(m: SampleDrawer) -> list[Any]:
    return _all_axes(m, m.apart)


def _with_ties(m: SampleDrawer) -> list[Any]:
    return [*_distinct(m), m(m.integers(3, 4, 9).astype(float), axes=(1,), differentiable=False)]


def _any_all(m: SampleDrawer) -> list[Any]:
    return [m(m.bools(3, 5), axes=(1,)), m(m.bools(3, 70), axes=(0, 1)), m(m.bools(0), axes=(0,))]


sum = Reduce(
    "sum",
    lambda s, a, b: s.add(a, b),
    identity=lambda dtype: 0,
    numpy=np.sum,
    dtypes=NUMBERS,
    vjp=lambda g, out, x, *, axes: (spread(g, axes, x.shape),),
    samples=_samples,
)
prod = Reduce(
    "prod",
    lambda s, a, b: s.mul(a, b),
    identity=lambda dtype: 1,
    numpy=np.prod,
    dtypes=NUMBERS,
    vjp=_product_vjp,
    samples=lambda m: [m(m.positive(3, 5), axes=(1,)), m(m.positive(70, 2), axes=(0,)),
                       m(np.array([[2.0, 0, 3], [0, 0, 1], [1, 2, 3]]), axes=(1,))],
)  # fmt: skip
max = Reduce("max", lambda s, a, b: s.maximum(a, b), identity=lowest, numpy=np.max,
             dtypes=NUMBERS, needs_elements=True, vjp=_extremum_vjp,
             samples=_with_ties)  # fmt: skip
min = Reduce("min", lambda s, a, b: s.minimum(a, b), identity=highest, numpy=np.min,
             dtypes=NUMBERS, needs_elements=True, vjp=_extremum_vjp,
             samples=_with_ties)  # fmt: skip
any = Reduce("any", lambda s, a, b: s.logical_or(a, b), identity=lambda dtype: False,
             numpy=np.any, dtypes=(DType.bool,), vjp=None, samples=_any_all)  # fmt: skip
all = Reduce("all", lambda s, a, b: s.logical_and(a, b), identity=lambda dtype: True,
             numpy=np.all, dtypes=(DType.bool,), vjp=None, samples=_any_all)  # fmt: skip


def _positions(m: SampleDrawer) -> list[Any]:
    ties = m.integers(3, 4, 90).astype(float)
    nans = m.normal(2, 7)
    nans[0, 3] = nans[0, 5] = np.nan
    return [m(m.apart(3, 5), axes=(1,)), m(m.apart(5, 3), axes=(0,)), m(ties, axes=(1,)),
            m(nans, axes=(1,)), m(m.apart(2, 130, 3), axes=(1,))]  # fmt: skip


argmax = ArgReduce("argmax", lambda s, a, b: s.gt(a, b), np.argmax, dtypes=NUMBERS, vjp=None,
                   samples=_positions)  # fmt: skip
argmin = ArgReduce("argmin", lambda s, a, b: s.lt(a, b), np.argmin, dtypes=NUMBERS, vjp=None,
                   samples=_positions)  # fmt: skip
