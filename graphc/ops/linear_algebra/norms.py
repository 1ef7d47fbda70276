"""The p-norm, with PyTorch's subgradients: 0 where the norm is 0, shared among equal greatest
magnitudes for infinite p."""

from __future__ import annotations

import math
from typing import Any

from graphc.ir.handle import aligned, filled_like
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.composite import check_float
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer

Axes = tuple[int, ...]


def _norm(x: Any, *, p: float = 2.0, axes: Axes) -> Any:
    check_float("norm", x)
    if p == 2:
        return e.sqrt(r.sum(x * x, axes=axes))
    size = e.abs(x)
    if p == 0:
        return r.sum(e.cast(e.ne(x, filled_like(0, x)), dtype=x.dtype), axes=axes)
    if p == 1:
        return r.sum(size, axes=axes)
    if math.isinf(p):
        return (r.max if p > 0 else r.min)(size, axes=axes)
    return e.pow(*aligned(r.sum(e.pow(*aligned(size, p)), axes=axes), 1 / p))


def _norm_vjp(g: Any, out: Any, x: Any, *, p: float, axes: Axes) -> tuple[Any]:
    if p == 0:
        return (filled_like(0, x),)
    if p == 1:
        return (r.spread(g, axes, x.shape) * e.sign(x),)
    if math.isinf(p):
        best = e.cast(e.eq(e.abs(x), r.spread(out, axes, x.shape)), dtype=x.dtype)
        share = g / r.sum(best, axes=axes)
        return (e.sign(x) * best * r.spread(share, axes, x.shape),)
    # d|x|/dx = sign(x) |x|^(p-1) / |out|^(p-1), neither power taken at 0.
    none = e.eq(out, filled_like(0, out))
    safe = e.where(none, filled_like(1, out), out)
    scale = e.where(none, filled_like(0, out), g / (safe if p == 2 else _power(safe, p - 1)))
    if p == 2:
        return (x * r.spread(scale, axes, x.shape),)
    zero = e.eq(x, filled_like(0, x))
    size = e.where(zero, filled_like(1, x), e.abs(x))
    slope = e.where(zero, filled_like(0, x), e.sign(x) * _power(size, p - 1))
    return (slope * r.spread(scale, axes, x.shape),)


def _power(x: Any, exponent: float) -> Any:
    return e.pow(x, filled_like(exponent, x))


def _samples(m: SampleDrawer) -> list[Any]:
    samples = [m(m.apart(3, 5), p=p, axes=(1,)) for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)]
    samples += [m(m.apart(4, 5), p=p, axes=(0, 1)) for p in (math.inf, -math.inf)]
    return [*samples, m(m.normal(3, 70), axes=(1,)), m(m.normal(3, 0), axes=(1,)),
            m(m.normal(0, 3) * 0, axes=(1,)), m(m.normal(2) * 0, axes=(0,),
            differentiable=False)]  # fmt: skip


norm = Composite("norm", _norm, vjp=_norm_vjp, samples=_samples)
