"""Reductions made of others, with gradients of their own: standard deviation and log-sum-exp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.ir.handle import filled_like
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.composite import check_float, degrees_of_freedom, mean, var
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer

Axes = tuple[int, ...]


def _axes_samples(m: SampleDrawer) -> list[Any]:
    return [m(m.normal(3, 5), axes=(1,)), m(m.normal(2, 3, 4), axes=(0, 2)),
            m(m.normal(3, 70), axes=(0, 1)), m(m.normal(0, 3), axes=(1,))]  # fmt: skip


# -- standard deviation --------------------------------------------------------------------------


def _std(x: Any, *, axes: Axes, correction: float = 1) -> Any:
    check_float("std", x)
    return e.sqrt(var(x, axes=axes, correction=correction))


def _std_vjp(g: Any, out: Any, x: Any, *, axes: Axes, correction: float) -> tuple[Any]:
    # At 0, where the root has no slope, 0, as PyTorch has it.
    zero = filled_like(0, g)
    degrees = degrees_of_freedom(x, axes, correction)
    slope = e.where(e.eq(out, zero), zero, g / (out * degrees))
    centred = x - r.spread(mean(x, axes=axes), axes, x.shape)
    return (centred * r.spread(slope, axes, x.shape),)


std = Composite("std", _std, vjp=_std_vjp, samples=lambda m: [
    *_axes_samples(m), m(m.normal(3, 5), axes=(1,), correction=0),
    m(np.ones((2, 4)), axes=(1,), differentiable=False),
])  # fmt: skip

# -- log-sum-exp ---------------------------------------------------------------------------------


def _logsumexp(x: Any, *, axes: Axes) -> Any:
    check_float("logsumexp", x)
    top = r.max(x, axes=axes)
    # An infinite shift would make NaN of infinity less infinity.
    finite = e.lt(e.abs(top), filled_like(math.inf, top))
    shift = e.where(finite, top, filled_like(0, top))
    total = r.sum(e.exp(x - r.spread(shift, axes, x.shape)), axes=axes)
    return e.log(total) + shift


def _logsumexp_vjp(g: Any, out: Any, x: Any, *, axes: Axes) -> tuple[Any]:
    weight = e.exp(x - r.spread(out, axes, x.shape))
    return (weight * r.spread(g, axes, x.shape),)


logsumexp = Composite(
    "logsumexp", _logsumexp, vjp=_logsumexp_vjp,
    samples=lambda m: [*_axes_samples(m), m(m.normal(4, 5) * 100, axes=(1,))],
)  # fmt: skip
