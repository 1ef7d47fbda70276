"""Functions of f64 as straight-line loop IR over vectors of any width.

In: a LoopBuilder and values of f64. Out: the value of the function. What rounding loses is carried
along where it would show (`double_pairs`), and no operation is other than IEEE 754's: the bits are
the same on every target. Bounds are those of docs/arithmetic.md; special values are C's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphc.codegen.libm import double_coefficients as c
from graphc.codegen.libm import wide_math
from graphc.codegen.libm.double_pairs import Pair, PairWriter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.types import DType

TINY = 2.0**-54
"""Below it expm1 and log1p of x are x, and far above it sin, tan and so on."""
LIMIT = 1100.0
"""Beyond ±1100 e^x and 2^x are infinite or 0."""
FAR = 2.0**60
"""Its arc tangent is π/2, and asinh and acosh of numbers beyond are log 2x."""


# -- exponentials --------------------------------------------------------------------------------


def _power(w: PairWriter, x: Pair, halvings: int = 0) -> LoopValue:
    """e^x / 2^halvings, for |x| <= 1100."""
    whole, more = w.reduced(x)
    whole = w.b.sub(whole, w.integer(halvings)) if halvings else whole
    return w.scaled(w.one_more(more), whole)


def exp(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    return _power(w, (w.clamp(x, LIMIT), w.number(0.0)))


exp_of_nonpositive = exp


def exp2(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    inside = w.clamp(x, LIMIT)
    whole, count = w.nearest(inside)
    rest = b.sub(inside, count)
    high, low = w.product(rest, w.number(c.LN2[0]))
    more = w.power_less_one((high, b.fma(rest, w.number(c.LN2[1]), low)))
    return w.scaled(w.one_more(more), whole)


def expm1(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """Half of 2^n·(e^r - 1) + (2^n - 1), doubled: 2^1024 is not needed."""
    w = PairWriter(b, x)
    inside = b.maximum(w.number(-40.0), b.minimum(w.number(LIMIT), x))
    whole, (high, low) = w.reduced((inside, w.number(0.0)))
    within = b.select(b.compare("gt", whole, w.integer(1024)), w.integer(1024), whole)
    scale = w.two_to(b.sub(within, w.integer(1)))
    apart, lost = w.total(scale, w.number(-0.5))
    top, rest = w.total(apart, b.mul(high, scale))
    half = b.add(top, b.add(rest, b.fma(low, scale, lost)))
    result = b.add(half, half)
    result = b.select(b.compare("gt", x, w.number(710.0)), w.number(math.inf), result)
    return b.select(b.compare("lt", b.abs(x), w.number(TINY)), x, result)


def sigmoid(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """1 / (1 + e^-x), from e^-|x|: nothing overflows, and far below 0 it is e^x."""
    w = PairWriter(b, x)
    power, one = exp(b, b.neg(b.abs(x))), w.number(1.0)
    negative = b.compare("lt", b.bitcast(x, DType.i64), w.integer(0))
    return b.div(b.select(negative, power, one), b.add(one, power))


def tanh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    size = b.minimum(w.number(22.0), b.abs(x))
    more = expm1(b, b.add(size, size))
    return w.signed(b.div(more, b.add(more, w.number(2.0))), x)


def sinh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    half = _power(w, (b.minimum(w.number(LIMIT), b.abs(x)), w.number(0.0)), halvings=1)
    far = b.sub(half, b.div(w.number(0.25), half))
    near = b.mul(b.abs(x), w.polynomial(c.HYPERBOLIC, b.mul(x, x)))
    return w.signed(b.select(w.at_least(x, 1.0), far, near), x)


def cosh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    half = _power(w, (b.minimum(w.number(LIMIT), b.abs(x)), w.number(0.0)), halvings=1)
    return b.add(half, b.div(w.number(0.25), half))


# -- logarithms ----------------------------------------------------------------------------------


def _ends(w: PairWriter, x: LoopValue, result: LoopValue) -> LoopValue:
    """A logarithm of x: -inf at 0, NaN below, infinity and NaN themselves."""
    b, zero = w.b, w.number(0.0)
    result = b.select(b.compare("lt", x, w.number(math.inf)), result, x)
    result = b.select(b.compare("lt", x, zero), w.number(math.nan), result)
    return b.select(b.compare("eq", x, zero), w.number(-math.inf), result)


def log(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    high, low = w.natural(*w.logarithm_parts((x, w.number(0.0))))
    return _ends(w, x, b.add(high, low))


def _based(unit: tuple[float, float], two: tuple[float, float]) -> Callable[..., LoopValue]:
    """A logarithm to another base; `unit` is the logarithm of e to it, `two` that of 2."""

    def function(b: LoopBuilder, x: LoopValue) -> LoopValue:
        w = PairWriter(b, x)
        count, near = w.logarithm_parts((x, w.number(0.0)))
        high, low = w.with_exponent(count, w.times(near, w.pair(unit)), two)
        return _ends(w, x, b.add(high, low))

    return function


log2 = _based(c.PER_LN2, (1.0, 0.0))
log10 = _based(c.PER_LN10, c.LG_2_PARTS)


def log1p(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    sum = w.total(w.number(1.0), x)
    high, low = w.natural(*w.logarithm_parts(sum))
    result = _ends(w, sum[0], b.add(high, low))
    return b.select(b.compare("lt", b.abs(x), w.number(TINY)), x, result)


log1p_of_fraction = log1p


def _logarithm_of_more(w: PairWriter, x: LoopValue, more: LoopValue) -> LoopValue:
    """log(1 + x + more) for x >= 0, and log 2x for large x."""
    b = w.b
    large = b.compare("gt", x, w.number(FAR))
    high, low = w.total(x, more)
    top, rest = w.total(w.number(1.0), high)
    sum = w.select_pair(large, (x, w.number(0.0)), (top, b.add(rest, low)))
    count, near = w.logarithm_parts(sum)
    count = b.select(large, b.add(count, w.number(1.0)), count)
    high, low = w.natural(count, near)
    return b.select(b.compare("lt", x, w.number(math.inf)), b.add(high, low), x)


def asinh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    size, one, square = b.abs(x), w.number(1.0), b.mul(x, x)
    more = b.div(square, b.add(b.sqrt(b.add(square, one)), one))
    value = _logarithm_of_more(w, size, more)
    return w.signed(b.select(w.at_least(x, TINY), value, size), x)


def acosh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    above = b.sub(x, w.number(1.0))
    root = b.sqrt(b.mul(above, b.add(above, w.number(2.0))))
    value = _logarithm_of_more(w, above, root)
    return b.select(b.compare("lt", x, w.number(1.0)), w.number(math.nan), value)


def atanh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    size = b.abs(x)
    ratio = b.div(b.add(size, size), b.sub(w.number(1.0), size))
    value = b.mul(log1p(b, ratio), w.number(0.5))
    outside = b.compare("gt", size, w.number(1.0))
    return w.signed(b.select(outside, w.number(math.nan), value), x)


def pow(b: LoopBuilder, x: LoopValue, y: LoopValue) -> LoopValue:
    """x^y with C's special cases."""
    w = PairWriter(b, x)
    size, zero, infinity = b.abs(x), w.number(0.0), w.number(math.inf)
    logarithm = w.natural(*w.logarithm_parts((size, zero)))
    # Beyond 2^70 every power but that of 1 is infinite or 0.
    high, low = w.times(logarithm, (w.clamp(y, 2.0**70), zero))
    low = b.select(w.at_least(high, LIMIT), zero, low)
    value = _power(w, (w.clamp(high, LIMIT), low))
    rising = b.compare("gt", y, zero)
    ends = b.select(rising, infinity, zero)
    value = b.select(b.compare("eq", size, infinity), ends, value)
    value = b.select(b.compare("eq", size, zero), b.select(rising, zero, infinity), value)
    nan = b.op("or", b.compare("ne", x, x), b.compare("ne", y, y))
    return wide_math.with_signs_of_power(w, x, y, b.select(nan, w.number(math.nan), value))


# -- angles --------------------------------------------------------------------------------------


def _tiny(w: PairWriter, x: LoopValue, value: LoopValue) -> LoopValue:
    """x where it is so small that sin, tan, … of it are x."""
    return w.b.select(w.b.compare("lt", w.b.abs(x), w.number(2.0**-27)), x, value)


def sin(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    count, angle = w.quarter_turns(x)
    value = b.select(w.bit(count, 1), w.cosine_of(angle), w.sine_of(angle))
    return _tiny(w, x, b.select(w.bit(count, 2), b.neg(value), value))


def cos(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    count, angle = w.quarter_turns(x)
    odd = w.bit(count, 1)
    value = b.select(odd, w.sine_of(angle), w.cosine_of(angle))
    return b.select(b.op("xor", odd, w.bit(count, 2)), b.neg(value), value)


def tan(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    count, angle = w.quarter_turns(x)
    sine, cosine, odd = w.sine_of(angle), w.cosine_of(angle), w.bit(count, 1)
    return _tiny(w, x, b.div(b.select(odd, b.neg(cosine), sine), b.select(odd, sine, cosine)))


def atan(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    high, low = w.arc_of(b.minimum(w.number(FAR), b.abs(x)), w.number(1.0))
    return w.signed(b.add(high, low), x)


def asin(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    one = w.number(1.0)
    beside = b.sqrt(b.mul(b.sub(one, x), b.add(one, x)))
    high, low = w.arc_of(b.abs(x), beside)
    return w.signed(b.add(high, low), x)


def acos(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    one = w.number(1.0)
    high, low = w.arc_of(b.sqrt(b.sub(one, x)), b.sqrt(b.add(one, x)))
    half = b.add(high, low)
    return b.add(half, half)


def _moderate(
    w: PairWriter, x: LoopValue, y: LoopValue, large: float, shrink: float
) -> tuple[LoopValue, LoopValue, LoopValue]:
    """Two numbers >= 0 times a power of 2, and that: `shrink` where one is above `large`, 2^600
    where both are small."""
    b = w.b
    larger, one = b.maximum(x, y), w.number(1.0)
    scale = b.select(b.compare("gt", larger, w.number(large)), w.number(shrink), one)
    scale = b.select(b.compare("lt", larger, w.number(2.0**-400)), w.number(2.0**600), scale)
    return b.mul(x, scale), b.mul(y, scale), scale


def atan2(b: LoopBuilder, y: LoopValue, x: LoopValue) -> LoopValue:
    """The angle of the point (x, y), with C's values for zeros and infinities."""
    w = PairWriter(b, x)
    up, along = b.abs(y), b.abs(x)
    one, zero, infinity = w.number(1.0), w.number(0.0), w.number(math.inf)
    rise, run, _ = _moderate(w, up, along, 2.0**1000, 2.0**-60)
    # Of two that are equal or infinite, (1, 1); two zeros are at 0.
    for place, other in ((up, along), (along, up)):
        endless = b.op("and", b.compare("eq", place, infinity), b.compare("lt", other, infinity))
        rise, run = (
            b.select(endless, one if place is up else zero, rise),
            b.select(endless, zero if place is up else one, run),
        )
    equal = b.compare("eq", up, along)
    rise, run = b.select(equal, one, rise), b.select(equal, one, run)
    flat = b.compare("eq", up, zero)
    rise, run = b.select(flat, zero, rise), b.select(flat, one, run)
    high, low = w.arc_of(rise, run)
    reflected = w.plus(w.pair(c.PI), (b.neg(high), b.neg(low)))
    left = b.compare("lt", b.bitcast(x, DType.i64), w.integer(0))
    high, low = w.select_pair(left, reflected, (high, low))
    nan = b.op("or", b.compare("ne", x, x), b.compare("ne", y, y))
    return w.signed(b.select(nan, w.number(math.nan), b.add(high, low)), y)


def hypot(b: LoopBuilder, x: LoopValue, y: LoopValue) -> LoopValue:
    """Infinite where one operand is, whatever the other."""
    w = PairWriter(b, x)
    infinity = w.number(math.inf)
    one, other, scale = _moderate(w, b.abs(x), b.abs(y), 2.0**500, 2.0**-600)
    value = b.div(b.sqrt(b.fma(one, one, b.mul(other, other))), scale)
    either = b.op("or", b.compare("eq", b.abs(x), infinity), b.compare("eq", b.abs(y), infinity))
    return b.select(either, infinity, value)


# -- error and gamma functions -------------------------------------------------------------------


def _erf_beside_zero(w: PairWriter, x: LoopValue) -> LoopValue:
    return w.b.mul(x, w.polynomial(c.ERF, w.b.mul(x, x)))


def erfc(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    far = _erfc_beyond_zero(w, x)
    near = b.sub(w.number(1.0), _erf_beside_zero(w, x))
    return b.select(w.at_least(x, 0.5), far, near)


def _erfc_beyond_zero(w: PairWriter, x: LoopValue) -> LoopValue:
    b = w.b
    size = b.minimum(w.number(c.ERFC_LIMIT), b.abs(x))
    middle, one = w.number(c.ERFCX_MIDDLE), w.number(1.0)
    t = b.div(b.sub(size, middle), b.add(size, middle))
    factor = b.div(w.polynomial(c.ERFCX, t), b.add(one, b.add(size, size)))
    high, low = w.product(size, size)
    whole, more = w.reduced((b.neg(high), b.neg(low)))
    value = w.scaled(b.mul(w.one_more(more), factor), whole)
    return b.select(b.compare("lt", x, w.number(0.0)), b.sub(w.number(2.0), value), value)


def erf(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = PairWriter(b, x)
    far = w.signed(b.sub(w.number(1.0), _erfc_beyond_zero(w, b.abs(x))), x)
    return b.select(w.at_least(x, 1.0), far, _erf_beside_zero(w, x))


def lgamma(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """log |Γ(x)|, infinite at 0 and the negative integers: by Stirling's series from 8 on, by a fit
    between 1 and 2 and Γ(x + 1) = x·Γ(x) around it, below -7 by reflection."""
    w = PairWriter(b, x)
    zero, infinity = w.number(0.0), w.number(math.inf)
    size = b.abs(x)
    far = _stirling(w, b.maximum(w.number(8.0), b.select(b.compare("lt", x, zero),
                    b.sub(w.number(1.0), x), x)))  # fmt: skip
    turn = b.mul(b.sub(x, b.op("round", x)), w.number(math.pi))
    sine = b.abs(w.sine_of((turn, zero)))
    mirrored = b.sub(log(b, b.div(w.number(math.pi), sine)), far)
    result = b.select(b.compare("lt", size, w.number(8.0)), _lgamma_beside_one(w, x), far)
    result = b.select(b.compare("lt", x, w.number(-7.0)), mirrored, result)
    whole = b.compare("eq", b.op("floor", x), x)
    pole = b.op("and", whole, b.compare("le", x, zero))
    endless = b.op("or", pole, b.compare("eq", size, infinity))
    return b.select(endless, infinity, b.select(b.compare("ne", x, x), x, result))


def _stirling(w: PairWriter, x: LoopValue) -> LoopValue:
    """log Γ(x) for x >= 8, as (x - 1/2)·(log x - 1) and the rest."""
    b = w.b
    inverse = b.div(w.number(1.0), x)
    rest = b.mul(inverse, w.polynomial(c.STIRLING, b.mul(inverse, inverse)))
    rest = b.add(rest, w.number(math.log(2 * math.pi) / 2 - 0.5))
    slope = b.sub(log(b, x), w.number(1.0))
    return b.add(b.mul(b.sub(x, w.number(0.5)), slope), rest)


def _lgamma_beside_one(w: PairWriter, x: LoopValue) -> LoopValue:
    """log |Γ(x)| for -7 <= x < 8, from that of 1 + d, x plus or less a whole number, and the
    product of what lies between. d is exact where the result is small."""
    b = w.b
    zero, one = w.number(0.0), w.number(1.0)
    low = b.compare("lt", x, one)
    d, product = b.select(low, x, b.sub(x, one)), b.select(low, x, one)
    for _ in range(6):
        over = b.compare("ge", d, one)
        d, product = b.select(over, b.sub(d, one), d), b.select(over, b.mul(product, d), product)
    for _ in range(7):
        under, higher = b.compare("lt", d, zero), b.add(d, one)
        d, product = b.select(under, higher, d), b.select(under, b.mul(product, higher), product)
    near = b.mul(b.mul(d, b.sub(d, one)), w.polynomial(c.LGAMMA, b.sub(d, w.number(0.5))))
    apart = log(b, b.abs(product))
    return b.select(low, b.sub(near, apart), b.add(near, apart))
