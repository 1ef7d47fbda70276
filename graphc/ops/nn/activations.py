"""Activations as elementwise ops. Values and gradients at kinks, at NaN and at infinities are
PyTorch's; the formulas neither overflow nor cancel where the result is representable."""

from __future__ import annotations

from typing import Any

from graphc.ir.handle import filled_like
from graphc.ops import elementwise as e
from graphc.ops.elementwise import elementwise
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import FLOATS, NUMBERS, SampleDrawer


def _one(m: SampleDrawer, **attributes: Any) -> list[Any]:
    return [m(m.normal(3, 5), **attributes), m(m.normal(), **attributes),
            m(m.normal(0, 3), **attributes), m(m.normal(37) * 6, **attributes)]  # fmt: skip


def _kinked(m: SampleDrawer, **attributes: Any) -> list[Any]:
    steps = m.integers(5, 3, 9, low=-4) * 1.0
    return [m(m.apart(3, 5) * 2, **attributes), m(m.apart(), **attributes),
            m(m.apart(0, 3), **attributes), m(m.apart(37) * 2, **attributes),
            m(steps, differentiable=False, **attributes)]  # fmt: skip


def _zeros(x: Any) -> Any:
    return filled_like(0, x)


# -- smooth --------------------------------------------------------------------------------------


def _log1p_of_exp(s: Any, x: Any) -> Any:
    """log(1 + exp(-|x|))."""
    return s.log1p_of_fraction(s.exp_of_nonpositive(s.neg(s.abs(x))))


def _softplus(s: Any, x: Any, *, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = s.mul(x, s.constant(beta, x))
    soft = s.add(s.maximum(scaled, s.constant(0, x)), _log1p_of_exp(s, scaled))
    over = s.gt(scaled, s.constant(threshold, x))
    return s.select(over, x, s.div(soft, s.constant(beta, x)))


def _softplus_vjp(g: Any, out: Any, x: Any, *, beta: float, threshold: float) -> tuple[Any]:
    scaled = x * beta
    return (e.where(scaled > threshold, g, g * e.sigmoid(scaled)),)


softplus = elementwise(
    "softplus", _softplus, vjp=_softplus_vjp, dtypes=FLOATS, cost=50, ulps=8,
    samples=lambda m: [*_one(m), *_one(m, beta=2.0, threshold=4.0)],
)  # fmt: skip

log_sigmoid = elementwise(
    "log_sigmoid",
    lambda s, x: s.sub(s.minimum(x, s.constant(0, x)), _log1p_of_exp(s, x)),
    vjp=lambda g, out, x: (g * e.sigmoid(-x),),
    dtypes=FLOATS, cost=48, ulps=8, samples=_one,
)  # fmt: skip


def _decayed(s: Any, x: Any) -> tuple[Any, Any, Any]:
    """x where it is positive, else x e^x; e^-|x|; x > 0. Half the exponent twice: e^x alone would
    underflow before x e^x does."""
    half = s.exp_of_nonpositive(s.mul(s.abs(x), s.constant(-0.5, x)))
    positive = s.gt(x, s.constant(0, x))
    return s.select(positive, x, s.mul(s.mul(x, half), half)), s.mul(half, half), positive


def _silu(s: Any, x: Any) -> Any:
    lead, decay, _ = _decayed(s, x)
    return s.div(lead, s.add(s.constant(1, x), decay))


def _silu_vjp(g: Any, out: Any, x: Any) -> tuple[Any]:
    gate = e.sigmoid(x)
    return (g * (gate * (1 + x * (1 - gate))),)


silu = elementwise("silu", _silu, vjp=_silu_vjp, dtypes=FLOATS, cost=27, ulps=8,
                   samples=_one)  # fmt: skip


def _mish(s: Any, x: Any) -> Any:
    # tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); both sides of the fraction over e^2x
    # where x is positive, so that nothing overflows.
    lead, decay, positive = _decayed(s, x)
    one, two = s.constant(1, x), s.constant(2, x)
    twice, square = s.mul(two, decay), s.mul(decay, decay)
    top = s.select(positive, s.add(one, twice), s.add(decay, two))
    rest = s.select(positive, s.add(top, s.mul(two, square)), s.add(s.add(square, twice), two))
    return s.div(s.mul(lead, top), rest)


def _mish_vjp(g: Any, out: Any, x: Any) -> tuple[Any]:
    gate = e.tanh(softplus(x))
    return (g * (gate + x * e.sigmoid(x) * (1 - gate * gate)),)


mish = elementwise("mish", _mish, vjp=_mish_vjp, dtypes=FLOATS, cost=34, ulps=10,
                   samples=_one)  # fmt: skip


def _elu(s: Any, x: Any, *, alpha: float = 1.0, scale: float = 1.0, rate: float = 1.0) -> Any:
    below = s.expm1(s.mul(s.minimum(x, s.constant(0, x)), s.constant(rate, x)))
    positive = s.gt(x, s.constant(0, x))
    return s.select(
        positive, s.mul(x, s.constant(scale, x)), s.mul(below, s.constant(alpha * scale, x))
    )


def _elu_vjp(g: Any, out: Any, x: Any, *, alpha: float, scale: float, rate: float) -> tuple[Any]:
    # Not from `out`, which cancels far below 0.
    below = e.exp(e.minimum(x, _zeros(x)) * rate) * (alpha * scale * rate)
    return (g * e.where(x > 0, filled_like(scale, x), below),)


elu = elementwise(
    "elu", _elu, vjp=_elu_vjp, dtypes=FLOATS, cost=20, ulps=6,
    samples=lambda m: [*_kinked(m), *_kinked(m, alpha=1.7, scale=1.05, rate=0.5)],
)  # fmt: skip


def _tanhshrink(x: Any) -> Any:
    return x - e.tanh(x)


def _tanhshrink_vjp(g: Any, out: Any, x: Any) -> tuple[Any]:
    # Not 1 - (1 - tanh²), which cancels near 0.
    bend = e.tanh(x)
    return (g * (bend * bend),)


tanhshrink = Composite("tanhshrink", _tanhshrink, vjp=_tanhshrink_vjp, samples=_one)

# -- piecewise -----------------------------------------------------------------------------------


def _between(s: Any, x: Any, low: float, high: float) -> Any:
    return s.minimum(s.maximum(x, s.constant(low, x)), s.constant(high, x))


def _inside(x: Any, low: float, high: float, g: Any) -> Any:
    """g where low < x < high, else 0; 0 at the bounds and where x is NaN."""
    return e.where(e.logical_and(x > low, x < high), g, _zeros(g))


hardtanh = elementwise(
    "hardtanh",
    lambda s, x, *, low=-1.0, high=1.0: _between(s, x, low, high),
    vjp=lambda g, out, x, *, low, high: (_inside(x, low, high, g),),
    dtypes=NUMBERS, cost=2, samples=lambda m: [*_kinked(m), *_kinked(m, low=-0.7, high=2.3)],
)  # fmt: skip

hardsigmoid = elementwise(
    "hardsigmoid",
    lambda s, x: s.div(_between(s, s.add(x, s.constant(3, x)), 0, 6), s.constant(6, x)),
    vjp=lambda g, out, x: (_inside(x, -3, 3, g / 6),),
    dtypes=FLOATS, cost=11, ulps=4, samples=_kinked,
)  # fmt: skip


def _hardswish(s: Any, x: Any) -> Any:
    gate = _between(s, s.add(x, s.constant(3, x)), 0, 6)
    return s.div(s.mul(x, gate), s.constant(6, x))


def _hardswish_vjp(g: Any, out: Any, x: Any) -> tuple[Any]:
    slope = g * (x / 3 + 0.5)
    return (e.where(x <= -3, _zeros(g), e.where(x >= 3, g, slope)),)


hardswish = elementwise("hardswish", _hardswish, vjp=_hardswish_vjp, dtypes=FLOATS, cost=12,
                        ulps=4, samples=_kinked)  # fmt: skip


def _leaky_relu(s: Any, x: Any, *, slope: float = 0.01) -> Any:
    return s.select(s.gt(x, s.constant(0, x)), x, s.mul(x, s.constant(slope, x)))


leaky_relu = elementwise(
    "leaky_relu", _leaky_relu,
    vjp=lambda g, out, x, *, slope: (e.where(x > 0, g, g * slope),),
    dtypes=FLOATS, cost=3, ulps=1, samples=lambda m: [*_kinked(m), *_kinked(m, slope=-0.5)],
)  # fmt: skip

prelu = elementwise(
    "prelu",
    lambda s, x, slope: s.select(s.gt(x, s.constant(0, x)), x, s.mul(x, slope)),
    vjp=lambda g, out, x, slope: (
        lambda: e.where(x > 0, g, g * slope), lambda: e.where(x > 0, _zeros(g), g * x)
    ),
    dtypes=FLOATS, cost=3,
    samples=lambda m: [m(m.apart(3, 5), m.normal(3, 5)), m(m.apart(), m.normal())],
)  # fmt: skip


def _softshrink(s: Any, x: Any, *, level: float = 0.5) -> Any:
    bound = s.constant(level, x)
    low = s.select(s.lt(x, s.neg(bound)), s.add(x, bound), s.mul(x, s.constant(0, x)))
    return s.select(s.gt(x, bound), s.sub(x, bound), low)


def _outside(x: Any, level: float, g: Any) -> Any:
    return e.where(e.logical_or(x > level, x < -level), g, _zeros(g))


softshrink = elementwise(
    "softshrink", _softshrink,
    vjp=lambda g, out, x, *, level: (_outside(x, level, g),),
    dtypes=FLOATS, cost=5, samples=lambda m: [*_kinked(m), *_kinked(m, level=1.0)],
)  # fmt: skip


def _hardshrink(s: Any, x: Any, *, level: float = 0.5) -> Any:
    bound = s.constant(level, x)
    small = s.logical_and(s.ge(x, s.neg(bound)), s.le(x, bound))
    return s.select(small, s.constant(0, x), x)


hardshrink = elementwise(
    "hardshrink", _hardshrink,
    vjp=lambda g, out, x, *, level: (_outside(x, level, g),),
    dtypes=FLOATS, cost=4, samples=lambda m: [*_kinked(m), *_kinked(m, level=1.0)],
)  # fmt: skip
