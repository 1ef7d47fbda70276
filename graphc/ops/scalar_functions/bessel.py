"""Bessel functions of orders 0 and 1, and the scaled complementary error function.

Computed in f64 whatever the dtype, by Chebyshev series (chebyshev_coefficients.py) near 0 and, far
from it, of what is left once the function's growth and oscillation are divided out. Within 1e-14 of
the greatest magnitude nearby; of the oscillating ones far out, within what sine and cosine of the
argument allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphc.ops import elementwise as e
from graphc.ops.elementwise import elementwise
from graphc.ops.kinds.op import FLOATS, SampleDrawer
from graphc.ops.scalar_functions import chebyshev_coefficients as c

COST = 150


def _one(m: SampleDrawer) -> list[Any]:
    drawn = (m.normal(3, 5), m.normal(), m.normal(0, 3), m.normal(37) * 12)
    return [m(x) for x in drawn]


def _positive(m: SampleDrawer) -> list[Any]:
    drawn = (m.positive(3, 5), m.positive(), m.positive(0), m.positive(37) * 12)
    return [m(x) for x in drawn]


def _series(s: Any, coefficients: Sequence[float], t: Any) -> Any:
    """Σ cₖ·Tₖ(t) for t from -1 to 1, by Clenshaw's recurrence."""
    twice = s.mul(t, s.constant(2, t))
    after, result = s.constant(0, t), s.constant(coefficients[-1], t)
    for coefficient in reversed(coefficients[1:-1]):
        after, result = (
            result,
            s.add(s.sub(s.mul(twice, result), after), s.constant(coefficient, t)),
        )
    return s.add(s.sub(s.mul(t, result), after), s.constant(coefficients[0], t))


def _within(s: Any, x: Any, low: float, high: float) -> Any:
    """x held to an interval, so that a branch that is not taken stays finite."""
    return s.minimum(s.maximum(x, s.constant(low, x)), s.constant(high, x))


def _scaled(s: Any, x: Any, factor: float, shift: float = 0.0) -> Any:
    return s.add(s.mul(x, s.constant(factor, x)), s.constant(shift, x))


def _over(s: Any, number: float, x: Any) -> Any:
    return s.div(s.constant(number, x), x)


# -- modified, of the first kind -----------------------------------------------------------------


def _modified(order: int, scaled: bool) -> Any:
    near, far = ((c.I0_NEAR, c.I0_FAR), (c.I1_NEAR, c.I1_FAR))[order]

    def rule(s: Any, x: Any) -> Any:
        y = s.wide(x)
        size = s.abs(y)
        low = _within(s, size, 0, 8)
        inner = _series(s, near, _scaled(s, low, 0.25, -1))
        inner = s.mul(inner, low) if order else inner
        high = s.maximum(size, s.constant(8, y))
        outer = s.div(_series(s, far, _scaled(s, _over(s, 16, high), 1, -1)), s.sqrt(high))
        result = s.select(s.le(size, s.constant(8, y)), inner, outer)
        if not scaled:  # e^x in two factors: it is infinite before the product is
            half = s.exp(s.mul(size, s.constant(0.5, y)))
            result = s.mul(s.mul(result, half), half)
        result = s.copysign(result, y) if order else result
        result = s.select(s.ne(y, y), y, result)
        return s.narrow(result, x)

    return rule


def _slope_at_0(x: Any, regular: Any, at_0: float) -> Any:
    """`regular`, which divides by x, and its limit where x is 0."""
    zero = x * 0
    return e.where(e.eq(x, zero), zero + at_0, regular)


i0 = elementwise("i0", _modified(0, False), dtypes=FLOATS, cost=COST, ulps=4, samples=_one,
                 vjp=lambda g, out, x: (g * i1(x),))  # fmt: skip
i0e = elementwise("i0e", _modified(0, True), dtypes=FLOATS, cost=COST, ulps=4, samples=_one,
                  vjp=lambda g, out, x: (g * (i1e(x) - e.sign(x) * out),))  # fmt: skip
i1: Any = elementwise(
    "i1", _modified(1, False), dtypes=FLOATS, cost=COST, ulps=4, samples=_one,
    vjp=lambda g, out, x: (g * _slope_at_0(x, i0(x) - out / x, 0.5),),
)  # fmt: skip
i1e: Any = elementwise(
    "i1e", _modified(1, True), dtypes=FLOATS, cost=COST, ulps=4, samples=_one,
    vjp=lambda g, out, x: (g * _slope_at_0(x, i0e(x) - out * (e.sign(x) + 1 / x), 0.5),),
)  # fmt: skip

# -- of the first and second kind ----------------------------------------------------------------

_SERIES = (
    (c.J0_NEAR, c.Y0_NEAR, c.P0, c.Q0), (c.J1_NEAR, c.Y1_NEAR, c.P1, c.Q1),
)  # fmt: skip


def _near(s: Any, order: int, size: Any, second: bool) -> Any:
    """J or Y up to 8."""
    low = _within(s, size, 0, 8)
    t = _scaled(s, s.mul(low, low), 1 / 32, -1)
    first = _series(s, _SERIES[order][0], t)
    first = s.mul(first, low) if order else first
    if not second:
        return first
    regular = _series(s, _SERIES[order][1], t)
    regular = s.mul(regular, low) if order else regular
    singular = s.mul(s.log(low), first)
    singular = s.sub(singular, _over(s, 1, low)) if order else singular
    return s.add(regular, s.mul(singular, s.constant(2 / math.pi, low)))


def _far(s: Any, order: int, size: Any, second: bool) -> Any:
    """J or Y beyond 8, as √(2/πx) times P and Q by cosine and sine of x - (order/2 + 1/4)·π. Both
    are a sum and a difference of sin x and cos x over √2."""
    high = s.maximum(size, s.constant(8, size))
    u = _over(s, 8, high)
    t = _scaled(s, s.mul(u, u), 2, -1)
    p, q = _series(s, _SERIES[order][2], t), s.mul(_series(s, _SERIES[order][3], t), u)
    sine, cosine = s.sin(high), s.cos(high)
    total, apart = s.add(cosine, sine), s.sub(sine, cosine)
    # cos(x - π/4), sin(x - π/4) are total, apart over √2; a quarter turn further apart, -total.
    cos_, sin_ = (total, apart) if order == 0 else (apart, s.neg(total))
    if second:
        wave = s.add(s.mul(p, sin_), s.mul(q, cos_))
    else:
        wave = s.sub(s.mul(p, cos_), s.mul(q, sin_))
    amplitude = s.sqrt(_over(s, 1 / math.pi, high))
    return s.mul(amplitude, wave)


def _bessel(order: int, second: bool) -> Any:
    def rule(s: Any, x: Any) -> Any:
        y = s.wide(x)
        size = s.abs(y)
        inner, outer = _near(s, order, size, second), _far(s, order, size, second)
        result = s.select(s.le(size, s.constant(8, y)), inner, outer)
        zero = s.constant(0, y)
        if second:
            result = s.select(s.lt(y, zero), s.constant(math.nan, y), result)
            result = s.select(s.eq(y, zero), s.constant(-math.inf, y), result)
        elif order:
            result = s.select(s.lt(y, zero), s.neg(result), result)
        return s.narrow(s.select(s.ne(y, y), y, result), x)

    return rule


bessel_j0 = elementwise("bessel_j0", _bessel(0, False), dtypes=FLOATS, cost=COST, ulps=4,
                        samples=_one, vjp=lambda g, out, x: (-(g * bessel_j1(x)),))  # fmt: skip
bessel_j1: Any = elementwise(
    "bessel_j1", _bessel(1, False), dtypes=FLOATS, cost=COST, ulps=4, samples=_one,
    vjp=lambda g, out, x: (g * _slope_at_0(x, bessel_j0(x) - out / x, 0.5),),
)  # fmt: skip
bessel_y0 = elementwise("bessel_y0", _bessel(0, True), dtypes=FLOATS, cost=COST, ulps=4,
                        samples=_positive,
                        vjp=lambda g, out, x: (-(g * bessel_y1(x)),))  # fmt: skip
bessel_y1: Any = elementwise(
    "bessel_y1", _bessel(1, True), dtypes=FLOATS, cost=COST, ulps=4, samples=_positive,
    vjp=lambda g, out, x: (g * (bessel_y0(x) - out / x),),
)  # fmt: skip

# -- modified, of the second kind ----------------------------------------------------------------


def _modified_second(order: int, scaled: bool) -> Any:
    near, far = ((c.K0_NEAR, c.K0_FAR), (c.K1_NEAR, c.K1_FAR))[order]
    first = _modified(order, False)

    def rule(s: Any, x: Any) -> Any:
        y = s.wide(x)
        low = _within(s, y, 0, 2)
        regular = _series(s, near, _scaled(s, s.mul(low, low), 0.5, -1))
        product = s.mul(s.log(low), first(s, low))
        inner = s.add(s.div(regular, low), product) if order else s.sub(regular, product)
        high = s.maximum(y, s.constant(2, y))
        outer = s.div(_series(s, far, _scaled(s, _over(s, 4, high), 1, -1)), s.sqrt(high))
        if scaled:
            inner = s.mul(inner, s.exp(low))
        else:
            outer = s.mul(outer, s.exp(s.neg(high)))
        result = s.select(s.le(y, s.constant(2, y)), inner, outer)
        zero = s.constant(0, y)
        result = s.select(s.lt(y, zero), s.constant(math.nan, y), result)
        result = s.select(s.eq(y, zero), s.constant(math.inf, y), result)
        return s.narrow(s.select(s.ne(y, y), y, result), x)

    return rule


modified_bessel_k0 = elementwise(
    "modified_bessel_k0", _modified_second(0, False), dtypes=FLOATS, cost=2 * COST, ulps=4,
    samples=_positive, vjp=lambda g, out, x: (-(g * modified_bessel_k1(x)),),
)  # fmt: skip
modified_bessel_k1: Any = elementwise(
    "modified_bessel_k1", _modified_second(1, False), dtypes=FLOATS, cost=2 * COST, ulps=4,
    samples=_positive, vjp=lambda g, out, x: (-(g * (modified_bessel_k0(x) + out / x)),),
)  # fmt: skip
scaled_modified_bessel_k0 = elementwise(
    "scaled_modified_bessel_k0", _modified_second(0, True), dtypes=FLOATS, cost=2 * COST, ulps=4,
    samples=_positive, vjp=lambda g, out, x: (g * (out - scaled_modified_bessel_k1(x)),),
)  # fmt: skip
scaled_modified_bessel_k1: Any = elementwise(
    "scaled_modified_bessel_k1", _modified_second(1, True), dtypes=FLOATS, cost=2 * COST, ulps=4,
    samples=_positive,
    vjp=lambda g, out, x: (g * (out - scaled_modified_bessel_k0(x) - out / x),),
)  # fmt: skip

# -- the scaled complementary error function -----------------------------------------------------


def _erfcx(s: Any, x: Any) -> Any:
    """exp(x²)·erfc(x): by a series in (|x| - 4) / (|x| + 4), and 2·exp(x²) - erfcx(-x) below 0."""
    y = s.wide(x)
    size = s.abs(y)
    beyond = s.add(size, s.constant(4, y))
    t = s.sub(s.constant(1, y), _over(s, 8, beyond))
    right = s.div(_series(s, c.ERFCX, t), beyond)
    left = s.sub(s.mul(s.exp(s.mul(y, y)), s.constant(2, y)), right)
    return s.narrow(s.select(s.lt(y, s.constant(0, y)), left, right), x)


erfcx = elementwise(
    "erfcx", _erfcx, dtypes=FLOATS, cost=COST, ulps=4,
    samples=lambda m: [m(m.normal(3, 5)), m(m.normal()), m(m.normal(0, 3)), m(m.normal(37))],
    vjp=lambda g, out, x: (g * (2 * (x * out) - 2 / math.sqrt(math.pi)),),
)  # fmt: skip


def _log_ndtr(s: Any, x: Any) -> Any:
    """log of the normal distribution's share up to x: by erfcx below -1, log(1 - …) above."""
    y = s.wide(x)
    over = s.mul(y, s.constant(-math.sqrt(0.5), y))
    low = s.maximum(over, s.constant(0, y))
    tail = s.log(s.mul(_erfcx(s, low), s.constant(0.5, y)))
    left = s.sub(tail, s.mul(s.mul(y, y), s.constant(0.5, y)))
    right = s.log1p(s.mul(s.erfc(s.neg(over)), s.constant(-0.5, y)))
    return s.narrow(s.select(s.lt(y, s.constant(-1, y)), left, right), x)


def _log_ndtr_vjp(g: Any, out: Any, x: Any) -> tuple[Any]:
    return (g * (math.sqrt(2 / math.pi) / erfcx(x * -math.sqrt(0.5))),)


log_ndtr = elementwise("log_ndtr", _log_ndtr, dtypes=FLOATS, cost=2 * COST, ulps=4, samples=_one,
                       vjp=_log_ndtr_vjp)  # fmt: skip
