"""Exponentials and logarithms to other bases, and special functions.

digamma and polygamma are computed in f64 whatever the dtype: shifts and reflections lose digits
that f32 does not have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError
from graphc.ops import elementwise as e
from graphc.ops.elementwise import elementwise
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import FLOATS, SampleDrawer

LN2, LN10 = math.log(2), math.log(10)
SQRT_PI = math.sqrt(math.pi)


def _one(m: SampleDrawer, **attributes: Any) -> list[Any]:
    drawn = (m.normal(3, 5), m.normal(), m.normal(0, 3), m.normal(37))
    return [m(x, **attributes) for x in drawn]


def _positive(m: SampleDrawer, **attributes: Any) -> list[Any]:
    drawn = (m.positive(3, 5), m.positive(), m.positive(0), m.positive(37))
    return [m(x, **attributes) for x in drawn]


def _inside(m: SampleDrawer) -> list[Any]:
    """Between -1 and 1."""
    drawn = (m.normal(3, 5), m.normal(), m.normal(0, 3), m.normal(37))
    return [m(np.tanh(x)) for x in drawn]


def _pairs(m: SampleDrawer) -> list[Any]:
    return [m(m.normal(3, 5), m.positive(3, 5)), m(m.normal(), m.positive()),
            m(m.normal(0, 2), m.normal(0, 2)), m(m.normal(35), m.positive(35))]  # fmt: skip


def polynomial(s: Any, coefficients: Sequence[float], x: Any) -> Any:
    """Horner's scheme, the constant coefficient first."""
    result = s.constant(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = s.add(s.mul(result, x), s.constant(coefficient, x))
    return result


# -- exponentials and logarithms -----------------------------------------------------------------

exp2 = elementwise("exp2", lambda s, x: s.exp2(x), vjp=lambda g, out, x: (g * out * LN2,),
                   dtypes=FLOATS, cost=15, ulps=2, samples=_one)  # fmt: skip
expm1 = elementwise("expm1", lambda s, x: s.expm1(x), vjp=lambda g, out, x: (g * (out + 1),),
                    dtypes=FLOATS, cost=17, ulps=2, samples=_one)  # fmt: skip
log2 = elementwise("log2", lambda s, x: s.log2(x), vjp=lambda g, out, x: (g / (x * LN2),),
                   dtypes=FLOATS, cost=16, ulps=2, samples=_positive)  # fmt: skip
log10 = elementwise("log10", lambda s, x: s.log10(x), vjp=lambda g, out, x: (g / (x * LN10),),
                    dtypes=FLOATS, cost=16, ulps=2, samples=_positive)  # fmt: skip
log1p = elementwise("log1p", lambda s, x: s.log1p(x), vjp=lambda g, out, x: (g / (x + 1),),
                    dtypes=FLOATS, cost=25, ulps=2, samples=_positive)  # fmt: skip


def _xlogy(s: Any, x: Any, y: Any) -> Any:
    zero = s.constant(0, x)
    none = s.select(s.ne(y, y), y, zero)
    return s.select(s.eq(x, zero), none, s.mul(x, s.log(y)))


def _xlogy_vjp(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    def factor() -> Any:
        # log(y), but 0 where x is 0 and log(y) would be infinite or NaN.
        zero = g * 0
        flat = e.logical_and(e.eq(x, zero), e.le(y, zero))
        return e.where(flat, zero, g * e.log(y))

    return factor, lambda: g * x / y


xlogy = elementwise("xlogy", _xlogy, vjp=_xlogy_vjp, dtypes=FLOATS, cost=18, ulps=4,
                    samples=_pairs)  # fmt: skip


def _log_of_sum(exponential: str, unit: float) -> Any:
    """log(b^x + b^y) = max + log(1 + b^-|x - y|), to the base b of `exponential`; `unit` is the
    logarithm of e to that base."""

    def rule(s: Any, x: Any, y: Any) -> Any:
        top = s.maximum(x, y)
        power = getattr(s, exponential)(s.neg(s.abs(s.sub(x, y))))
        total = s.add(top, s.mul(s.log1p_of_fraction(power), s.constant(unit, x)))
        # Equal infinities: their difference is NaN, their sum is not.
        infinite = s.eq(s.abs(top), s.constant(math.inf, x))
        return s.select(s.logical_and(s.eq(x, y), infinite), x, total)

    return rule


logaddexp = elementwise(
    "logaddexp",
    _log_of_sum("exp", 1.0),
    vjp=lambda g, out, x, y: (lambda: g * e.sigmoid(x - y), lambda: g * e.sigmoid(y - x)),
    dtypes=FLOATS,
    cost=45,
    ulps=8,
    samples=_pairs,
)
logaddexp2 = elementwise(
    "logaddexp2",
    _log_of_sum("exp2", 1 / LN2),
    vjp=lambda g, out, x, y: (
        lambda: g * e.sigmoid((x - y) * LN2), lambda: g * e.sigmoid((y - x) * LN2)
    ),
    dtypes=FLOATS,
    cost=45,
    ulps=8,
    samples=_pairs,
)  # fmt: skip


def _logit(x: Any) -> Any:
    return e.log(x / (1 - x))


def _logit_vjp(g: Any, out: Any, x: Any) -> tuple[Any]:
    # Not by parts: at 0 and 1 it is infinite, and outside NaN.
    zero = x * 0
    inside = e.logical_and(e.ge(x, zero), e.le(x, zero + 1))
    return (e.where(inside, g / (x * (1 - x)), zero + math.nan),)


logit = Composite("logit", _logit, vjp=_logit_vjp, samples=lambda m: [
    m(m.positive(3, 5) / 5), m(m.positive() / 5), m(m.positive(0)), m(m.positive(37) / 5),
])  # fmt: skip

# -- error functions -----------------------------------------------------------------------------

erfc = elementwise("erfc", lambda s, x: s.erfc(x), dtypes=FLOATS, cost=30, ulps=4,
                   vjp=lambda g, out, x: (g * e.exp(-(x * x)) * (-2 / SQRT_PI),),
                   samples=_one)  # fmt: skip

# The quantile of the normal distribution as three rational functions: M. J. Wichura, "Algorithm AS
# 241: The percentage points of the normal distribution", Applied Statistics 37 (1988), PPND16.
CENTRE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3),
)  # fmt: skip
FLANK = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip


NEAR = (1.5014094114303589, 0.24664027988910675, -0.004177388269454241, -0.0012527252547442913,
        0.0002183458855142817, -4.973069735569879e-06, -3.4630929803824984e-06,
        4.6826696120660927e-07, 2.326479986436425e-08, -8.94141383156466e-09)  # fmt: skip
FAR = (3.0517570972442627, 1.0049039125442505, 0.005749404896050692, -0.004089795518666506,
       0.002751159481704235, -0.0018702411325648427, 0.0011103134602308273,
       -0.0003734015335794538, -9.809685434447601e-05, 9.912202949635684e-05)  # fmt: skip
"""erfinv(x) / x with w = -log(1 - x²) as polynomials of w - 2.5, where w <= 5, and of √w - FAR_AT,
up to the greatest x below 1 in f32: fitted at Chebyshev's points, to 2e-8."""
FAR_AT = 3.2180339887498949


def _erfinv(s: Any, x: Any) -> Any:
    return _erfinv_single(s, x) if s.width(x) == 32 else _erfinv_double(s, x)


def _erfinv_single(s: Any, x: Any) -> Any:
    magnitude, one = s.abs(x), s.constant(1, x)
    w = s.neg(s.log(s.mul(s.sub(one, magnitude), s.add(one, magnitude))))
    near = polynomial(s, NEAR, s.sub(w, s.constant(2.5, x)))
    far = polynomial(s, FAR, s.sub(s.sqrt(w), s.constant(FAR_AT, x)))
    share = s.select(s.le(w, s.constant(5, x)), near, far)
    share = s.select(s.eq(magnitude, one), s.constant(math.inf, x), share)
    return s.mul(share, x)


def _erfinv_double(s: Any, y: Any) -> Any:
    """The normal quantile of (1 + x) / 2 over √2."""

    def ratio(of: Any, at: Any) -> Any:
        return s.div(polynomial(s, of[0], at), polynomial(s, of[1], at))

    half = s.mul(y, s.constant(0.5, y))
    inner = s.mul(half, ratio(CENTRE, s.sub(s.constant(0.180625, y), s.mul(half, half))))
    magnitude = s.abs(y)
    one = s.constant(1, y)
    left = s.mul(s.sub(one, magnitude), s.constant(0.5, y))
    root = s.sqrt(s.neg(s.log(left)))
    flank = ratio(FLANK, s.sub(root, s.constant(1.6, y)))
    tail = ratio(TAIL, s.sub(root, s.constant(5, y)))
    outer = s.select(s.le(root, s.constant(5, y)), flank, tail)
    outer = s.select(s.eq(magnitude, one), s.constant(math.inf, y), outer)
    signed = s.select(s.lt(y, s.constant(0, y)), s.neg(outer), outer)
    quantile = s.select(s.le(magnitude, s.constant(0.85, y)), inner, signed)
    return s.mul(quantile, s.constant(math.sqrt(0.5), y))


erfinv = elementwise("erfinv", _erfinv, dtypes=FLOATS, cost=60, ulps=4, samples=_inside,
                     vjp=lambda g, out, x: (g * e.exp(out * out) * (SQRT_PI / 2),))  # fmt: skip

# -- gamma functions -----------------------------------------------------------------------------

# The Bernoulli numbers B2, B4, …
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
SHIFT = 10


def _reflected(s: Any, y: Any) -> tuple[Any, Any, Any]:
    """Whether y is below 1/2; the argument, 1 - y there; and cot(πy)."""
    below = s.lt(y, s.constant(0.5, y))
    argument = s.select(below, s.sub(s.constant(1, y), y), y)
    # From the distance to the nearest whole number, so that it is exact near the poles.
    rest = s.mul(s.sub(y, s.round(y)), s.constant(math.pi, y))
    return below, argument, s.div(s.constant(1, y), s.tan(rest))


def _digamma(s: Any, x: Any) -> Any:
    """ψ(y) = ψ(y + 10) - Σ 1/(y + k), with the asymptotic series at y + 10; below 1/2
    ψ(y) = ψ(1 - y) - π cot(πy)."""
    y = s.wide(x)
    below, argument, cotangent = _reflected(s, y)
    one = s.constant(1, y)
    lost = s.div(one, argument)
    for k in range(1, SHIFT):
        lost = s.add(lost, s.div(one, s.add(argument, s.constant(k, y))))
    far = s.add(argument, s.constant(SHIFT, y))
    inverse = s.div(one, far)
    square = s.mul(inverse, inverse)
    series = [number / (2 * k) for k, number in enumerate(BERNOULLI, 1)]
    bend = s.mul(square, polynomial(s, series, square))
    near = s.sub(s.log(far), s.add(s.mul(inverse, s.constant(0.5, y)), bend))
    result = s.sub(near, lost)
    mirrored = s.sub(result, s.mul(cotangent, s.constant(math.pi, y)))
    result = s.select(below, mirrored, result)
    # A pole has no side, but for 0, which has a sign.
    zero = s.constant(0, y)
    pole = s.logical_and(s.lt(y, zero), s.eq(y, s.floor(y)))
    result = s.select(pole, s.constant(math.nan, y), result)
    return s.narrow(s.select(s.eq(y, zero), s.div(s.constant(-1, y), y), result), x)


def _cotangent_derivative(order: int) -> list[float]:
    """The coefficients of Pₙ with dⁿ/dxⁿ cot(x) = Pₙ(cot(x)): Pₙ₊₁(c) = -(1 + c²)·Pₙ'(c)."""
    coefficients = [0.0, 1.0]
    for _ in range(order):
        slope = [k * c for k, c in enumerate(coefficients)][1:]
        coefficients = [0.0] * (len(slope) + 2)
        for k, c in enumerate(slope):
            coefficients[k] -= c
            coefficients[k + 2] -= c
    return coefficients


def _polygamma(s: Any, x: Any, *, order: int) -> Any:
    """ψₙ(y) = (-1)ⁿ⁺¹ n! Σ (y + k)⁻ⁿ⁻¹, the sum by Euler and Maclaurin's formula from k = 10; below
    1/2 ψₙ(y) = (-1)ⁿ ψₙ(1 - y) - π dⁿ/dyⁿ cot(πy)."""
    if order < 1:
        raise AttributeValueError(f"polygamma: order {order} is below 1", hint="digamma is order 0")
    y = s.wide(x)
    below, argument, cotangent = _reflected(s, y)
    one, power = s.constant(1, y), order + 1

    def inverse_power(base: Any, exponent: int = power) -> Any:
        raised = base
        for _ in range(exponent - 1):
            raised = s.mul(raised, base)
        return s.div(one, raised)

    total = inverse_power(argument)
    for k in range(1, SHIFT):
        total = s.add(total, inverse_power(s.add(argument, s.constant(k, y))))
    far = s.add(argument, s.constant(SHIFT, y))
    series, factor = [], float(power)
    for k, number in enumerate(BERNOULLI, 1):
        series.append(number * factor / math.factorial(2 * k))
        factor *= (power + 2 * k - 1) * (power + 2 * k)
    inverse = s.div(one, far)
    bend = s.mul(inverse, polynomial(s, series, s.mul(inverse, inverse)))
    rest = s.mul(inverse, s.add(s.constant(0.5, y), bend))
    rest = s.mul(s.add(rest, s.constant(1 / order, y)), inverse_power(far, order))
    scale = (-1.0) ** power * math.factorial(order)
    result = s.mul(s.add(total, rest), s.constant(scale, y))
    slope = s.mul(
        polynomial(s, _cotangent_derivative(order), cotangent),
        s.constant(-(math.pi**power), y),
    )
    mirrored = s.add(s.mul(result, s.constant((-1.0) ** order, y)), slope)
    return s.narrow(s.select(below, mirrored, result), x)


digamma = elementwise("digamma", _digamma, dtypes=FLOATS, cost=120, ulps=8, samples=_positive,
                      vjp=lambda g, out, x: (g * polygamma(x, order=1),))  # fmt: skip
polygamma: Any = elementwise(
    "polygamma",
    _polygamma,
    vjp=lambda g, out, x, *, order: (g * polygamma(x, order=order + 1),),
    dtypes=FLOATS,
    cost=150,
    ulps=16,
    samples=lambda m: [*_positive(m, order=1), m(m.normal(17), order=1), m(m.normal(9), order=2),
                       m(m.positive(9), order=3)],
)  # fmt: skip
lgamma = elementwise("lgamma", lambda s, x: s.lgamma(x), dtypes=FLOATS, cost=40, ulps=8,
                     vjp=lambda g, out, x: (g * digamma(x),), samples=_positive)  # fmt: skip
