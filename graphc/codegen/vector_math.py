"""Transcendental functions as straight-line loop IR over vectors of any width.

In: a LoopBuilder and a value of f32 or f64. Out: the value of the function, appended to the
builder's current block. f32 is computed with fits of our own (minimised over f32 coefficients,
checked on dense grids against f64); the same operations run in every lane on every target, so a
function has one result per argument, whatever the vector width. f64 calls libm lane by lane, as
do sin and cos: correct and slow.

Worst error in units in the last place against the exact value, over the whole range:

    exp 1.0, exp2 1.1, expm1 1.6, log 0.9, log2 1.3, log10 1.3, log1p 1.7, sigmoid 2.3, tanh 4.8,
    erf 6, rsqrt 1.5, pow 0.51

NaN gives NaN. exp and exp2 overflow to inf and underflow gradually through the denormals, and so
does sigmoid below -87. Logarithms take denormals, give -inf at 0 and NaN below; log2 and exp2 are
exact at powers of two. tanh and erf are odd, keep -0, are within [-1, 1], and reach ±1 at 8.06 and
3.67. Results in the denormal range are within 1 denormal step.

Clamps put the constant first: `minimum(constant, x)` is then one instruction and lets NaN through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphc.codegen.builder import LoopBuilder
from graphc.codegen.loops import Value
from graphc.ir.types import DType

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
# ln 2 in two parts; the first has so few bits that its products with exponents are exact.
LN2_HIGH = 0.693145751953125
LN2_LOW = 1.42860677e-6
# Adding 1.5·2^23 to a float of moderate size leaves its nearest integer in the low bits.
ROUNDING = 12582912.0
EXPONENT_SHIFT = 23
# Twice what a float's exponent is biased by: its half, and the rest, make two biased exponents.
SCALE_BIAS = 254
EXPONENT_BIAS = 127
# 2^n·2^RAISED is normal for -150 <= n <= 0. Odd, so that its sum with the bias is even.
RAISED = 63
MANTISSA_MASK = 0x007FFFFF
SQRT_HALF_BITS = 0x3F3504F3
LEAST_NORMAL = 1.1754943508222875e-38
# Logarithms of e to base 2 and 10, and of 2 to base 10: the nearest f32 and the rest.
PER_LN2 = (1.4426950216293335, 1.9259629911266175e-08)
PER_LN10 = (0.4342944920063019, -1.0103050052231683e-08)
LG_2 = (0.3010300099849701, -1.4320988897559699e-08)

# exp(r) = 1 + r + r²·q(r) on |r| <= ln 2 / 2. Coefficients are low order first, here and below.
EXP_Q = (
    0.4999999403953552,
    0.1666652113199234,
    0.04166838899254799,
    0.00836874544620514,
    0.0013814539415761828,
)
# log(1 + f) = f - f²/2 + f³·q(f) on sqrt(1/2) <= 1 + f <= sqrt(2).
LOG_Q = (
    0.3333333134651184,
    -0.2500081956386566,
    0.20001226663589478,
    -0.16623356938362122,
    0.14201758801937103,
    -0.13160182535648346,
    0.12761574983596802,
    -0.07634492963552475,
)
# tanh(x) = x·P(x²) / Q(x²) for |x| <= 8.
TANH_P = (
    1.0,
    0.13447563350200653,
    0.0035752984695136547,
    2.1958936486043967e-05,
    1.5328936342484667e-08,
)
TANH_Q = (
    1.0,
    0.46780890226364136,
    0.026178356260061264,
    0.0003417474217712879,
    8.560563742321392e-07,
)
# Here the fit is exactly 1, and nowhere before it is more: a clamped argument bounds the result.
TANH_LIMIT = 8.0563
# erf(x) = x·P(x²) / Q(x²) for |x| <= 4.
ERF_P = (
    1.1283791065216064,
    0.19040723145008087,
    0.05274882912635803,
    0.0037656514905393124,
    0.00028488380485214293,
    2.0500851860560942e-06,
)
ERF_Q = (
    1.0,
    0.5020767450332642,
    0.11410943418741226,
    0.01496928557753563,
    0.0011625445749370217,
    3.8091751775937155e-05,
)
ERF_LIMIT = 3.66808  # as TANH_LIMIT


class _Writer:
    """The builder with constants of one vector type at hand."""

    def __init__(self, b: LoopBuilder, x: Value) -> None:
        self.b = b
        self.dtype = x.type.dtype
        self.lanes = x.type.lanes

    def number(self, value: float) -> Value:
        return self.b.const(self.dtype, value, self.lanes)

    def integer(self, value: int) -> Value:
        return self.b.const(DType.i32, value, self.lanes)

    def polynomial(self, coefficients: Sequence[float], x: Value) -> Value:
        """Horner's scheme, one FMA per coefficient."""
        result = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.b.fma(result, x, self.number(coefficient))
        return result

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """NaN stays NaN."""
        return self.b.maximum(self.number(low), self.b.minimum(self.number(high), x))

    def reduced_exp(self, x: Value, bias: int = SCALE_BIAS) -> tuple[Value, Value]:
        """Integers with n + bias in their low bits and p, with exp(x) = 2^n·(1 + p), for
        -128·ln 2·2 < x < 128·ln 2·2. An even bias leaves the rounding of halves to even n."""
        b = self.b
        rounding = self.number(ROUNDING + bias)
        shifted = b.fma(x, self.number(LOG2_E), rounding)
        exponent = b.sub(shifted, rounding)
        rest = b.fma(exponent, self.number(-LN2_HIGH), x)
        rest = b.fma(exponent, self.number(-LN2_LOW), rest)
        return b.bitcast(shifted, DType.i32), self._exp_less_one(rest)

    def reduced_exp2(self, x: Value) -> tuple[Value, Value]:
        """Integers with n + SCALE_BIAS in their low bits and p, with 2^x = 2^n·(1 + p), for
        -256 < x < 256."""
        b = self.b
        rounding = self.number(ROUNDING + SCALE_BIAS)
        shifted = b.add(x, rounding)
        rest = b.sub(x, b.sub(shifted, rounding))
        bits = b.bitcast(shifted, DType.i32)
        return bits, self._exp_less_one(b.mul(rest, self.number(LN2)))

    def _exp_less_one(self, x: Value) -> Value:
        """exp(x) - 1 for |x| <= ln 2 / 2."""
        q = self.polynomial(EXP_Q, x)
        return self.b.fma(self.b.mul(x, x), q, x)

    def scaled(self, bits: Value, p: Value) -> Value:
        """2^n·(1 + p) from n + SCALE_BIAS. Two-step scaling: 2^n as a product of two normal powers,
        for overflow and underflow. Half of n + 254 is an exponent as floats hold it, with 127."""
        b = self.b
        half = b.op("lshr", bits, self.integer(1))
        first, second = self.power_of_two(half), self.power_of_two(b.sub(bits, half))
        return b.mul(b.fma(p, first, first), second)

    def power_of_two(self, bits: Value) -> Value:
        """The float 2^n from n + 127 in the low 8 bits. Bit 8 is 0; what stands above is shifted
        out."""
        return self.b.bitcast(self.b.op("shl", bits, self.integer(EXPONENT_SHIFT)), DType.f32)


def exp(b: LoopBuilder, x: Value) -> Value:
    """e^x."""
    if x.type.dtype is DType.f64:
        return b.call("exp", x)
    w = _Writer(b, x)
    # exp(89) overflows and exp(-104) is below half the least denormal: both still come out right.
    return w.scaled(*w.reduced_exp(w.clamp(x, -104.0, 89.0)))


def exp_of_nonpositive(b: LoopBuilder, x: Value) -> Value:
    """e^x for x <= 0: the bits of `exp`. Nothing overflows, so one constant factor keeps all powers
    normal, and taking it away again makes the denormals."""
    if x.type.dtype is DType.f64:
        return b.call("exp", x)
    w = _Writer(b, x)
    bits, p = w.reduced_exp(b.maximum(w.number(-104.0), x), EXPONENT_BIAS + RAISED)
    raised = w.power_of_two(bits)
    return b.mul(b.fma(p, raised, raised), w.number(2.0**-RAISED))


def exp2(b: LoopBuilder, x: Value) -> Value:
    """2^x."""
    if x.type.dtype is DType.f64:
        return b.call("exp2", x)
    w = _Writer(b, x)
    return w.scaled(*w.reduced_exp2(w.clamp(x, -151.0, 129.0)))


def expm1(b: LoopBuilder, x: Value) -> Value:
    """e^x - 1, accurate around 0."""
    if x.type.dtype is DType.f64:
        return b.call("expm1", x)
    w = _Writer(b, x)
    # Half the scale (2^n is biased by 127), so that 2^128 is not needed; doubling is exact.
    bits, p = w.reduced_exp(w.clamp(x, -18.0, 89.0), 126)
    scale = w.power_of_two(bits)
    half = b.fma(p, scale, b.sub(scale, w.number(0.5)))
    result = b.add(half, half)
    # Tiny arguments are their own result; halving would lose the last bit of denormals.
    return b.select(b.compare("lt", b.abs(x), w.number(2.0**-25)), x, result)


def log(b: LoopBuilder, x: Value) -> Value:
    """The natural logarithm."""
    return _logarithm(b, x, "log", _log_sum)


def log2(b: LoopBuilder, x: Value) -> Value:
    """The logarithm to base 2."""
    return _logarithm(b, x, "log2", lambda w, n, f: _based_sum(w, n, f, (1.0, 0.0), PER_LN2))


def log10(b: LoopBuilder, x: Value) -> Value:
    """The logarithm to base 10."""
    return _logarithm(b, x, "log10", lambda w, n, f: _based_sum(w, n, f, LG_2, PER_LN10))


def _logarithm(b: LoopBuilder, x: Value, name: str, combine: Callable[..., Value]) -> Value:
    """x = 2^n·(1 + f), and `combine(writer, n, f)` of that; libm's `name` for f64."""
    if x.type.dtype is DType.f64:
        return b.call(name, x)
    w = _Writer(b, x)
    tiny = b.compare("lt", x, w.number(LEAST_NORMAL))
    scaled = b.select(tiny, b.mul(x, w.number(2.0**EXPONENT_SHIFT)), x)
    # Splitting at sqrt(1/2) keeps 1 + f around 1.
    offset = b.sub(b.bitcast(scaled, DType.i32), w.integer(SQRT_HALF_BITS))
    exponent = b.convert(b.op("ashr", offset, w.integer(EXPONENT_SHIFT)), DType.f32)
    lowered = b.sub(exponent, w.number(float(EXPONENT_SHIFT)))
    exponent = b.select(tiny, lowered, exponent)
    mantissa = b.add(b.op("and", offset, w.integer(MANTISSA_MASK)), w.integer(SQRT_HALF_BITS))
    f = b.sub(b.bitcast(mantissa, DType.f32), w.number(1.0))
    result = combine(w, exponent, f)
    # inf and NaN are their own logarithms.
    result = b.select(b.compare("lt", x, w.number(math.inf)), result, x)
    zero = w.number(0.0)
    result = b.select(b.compare("lt", x, zero), w.number(math.nan), result)
    return b.select(b.compare("eq", x, zero), w.number(-math.inf), result)


def _curve(w: _Writer, f: Value) -> tuple[Value, Value]:
    """f² and f³·q(f), with log(1 + f) = f - f²/2 + f³·q(f)."""
    square = w.b.mul(f, f)
    return square, w.b.mul(w.b.mul(square, f), w.polynomial(LOG_Q, f))


def _log_sum(w: _Writer, exponent: Value, f: Value) -> Value:
    """exponent·ln 2 + log(1 + f), small parts first."""
    b = w.b
    square, cubic = _curve(w, f)
    small = b.fma(exponent, w.number(LN2_LOW), cubic)
    small = b.fma(square, w.number(-0.5), small)
    return b.fma(exponent, w.number(LN2_HIGH), b.add(f, small))


def _based_sum(
    w: _Writer, exponent: Value, f: Value, two: tuple[float, float], unit: tuple[float, float]
) -> Value:
    """exponent·two + log(1 + f)·unit, small parts first. `two` is the logarithm of 2 and `unit`
    that of e, in two parts each."""
    b = w.b
    square, cubic = _curve(w, f)
    bend = b.fma(square, w.number(-0.5), cubic)
    small = b.fma(exponent, w.number(two[1]), b.mul(f, w.number(unit[1])))
    small = b.fma(bend, w.number(unit[0]), small)
    return b.fma(exponent, w.number(two[0]), b.fma(f, w.number(unit[0]), small))


def log1p(b: LoopBuilder, x: Value) -> Value:
    """log(1 + x), accurate around 0: what rounding 1 + x loses is added back to first order."""
    if x.type.dtype is DType.f64:
        return b.call("log1p", x)
    w = _Writer(b, x)
    one = w.number(1.0)
    u = b.add(x, one)
    big = b.compare("gt", x, one)
    # Exact where it matters: x - (u - 1), or 1 - (u - x) when x is the larger.
    lost = b.select(big, b.sub(one, b.sub(u, x)), b.sub(x, b.sub(u, one)))
    logarithm = log(b, u)
    corrected = b.add(logarithm, b.div(lost, u))
    # Where u is 1 the quotient is x itself; at inf and -1 the correction would be NaN.
    result = b.select(b.compare("eq", u, one), x, corrected)
    inside = b.op("and", b.compare("gt", u, w.number(0.0)), b.compare("lt", u, w.number(math.inf)))
    return b.select(inside, result, logarithm)


def sigmoid(b: LoopBuilder, x: Value) -> Value:
    """1 / (1 + e^-x), from e^-|x|: nothing overflows, and far below 0 it is e^x."""
    w = _Writer(b, x)
    one = w.number(1.0)
    power = exp_of_nonpositive(b, b.neg(b.abs(x)))
    # By its sign bit: at 0 both numerators are 1, and the bit itself selects.
    return b.div(b.select(signbit(b, x), power, one), b.add(one, power))


def tanh(b: LoopBuilder, x: Value) -> Value:
    """The hyperbolic tangent."""
    if x.type.dtype is DType.f64:
        return b.call("tanh", x)
    return _odd_rational(b, x, TANH_P, TANH_Q, TANH_LIMIT)


def erf(b: LoopBuilder, x: Value) -> Value:
    """The error function."""
    if x.type.dtype is DType.f64:
        return b.call("erf", x)
    return _odd_rational(b, x, ERF_P, ERF_Q, ERF_LIMIT)


def _odd_rational(
    b: LoopBuilder, x: Value, upper: Sequence[float], lower: Sequence[float], limit: float
) -> Value:
    """x·upper(x²) / lower(x²), with x clamped to ±limit."""
    w = _Writer(b, x)
    inside = w.clamp(x, -limit, limit)
    square = b.mul(inside, inside)
    numerator = b.mul(inside, w.polynomial(upper, square))
    return b.div(numerator, w.polynomial(lower, square))


def rsqrt(b: LoopBuilder, x: Value) -> Value:
    """1 / sqrt(x), both rounded."""
    return b.div(_Writer(b, x).number(1.0), b.sqrt(x))


def pow(b: LoopBuilder, x: Value, y: Value) -> Value:
    """x^y with C's special cases; f32 goes through f64, whose rounding f32 does not see."""
    if x.type.dtype is DType.f64:
        return b.call("pow", x, y)
    wide = b.call("pow", b.convert(x, DType.f64), b.convert(y, DType.f64))
    return b.convert(wide, DType.f32)


def integer_pow(b: LoopBuilder, x: Value, y: Value) -> Value:
    """x^y of integers that wrap, by squaring; 1 / x^-y rounded towards 0 where y is negative, and 0
    where x is 0."""
    dtype, lanes = x.type.dtype, max(x.type.lanes, y.type.lanes)
    zero, one = b.const(dtype, 0, lanes), b.const(dtype, 1, lanes)
    # Not unrolled: a call of this in every lane of a large kernel would take long to compile.
    with b.loop(0, 8 * dtype.itemsize - 1, carried=(one, b.add(x, zero), b.add(y, zero))) as loop:
        power, square, rest = loop.carried
        odd = b.compare("ne", b.op("and", rest, one), zero)
        power = b.select(odd, b.mul(power, square), power)
        loop.yield_(power, b.mul(square, square), b.op("ashr", rest, one))
    power, _, _ = loop.results
    odd = b.compare("ne", b.op("and", y, one), zero)
    minus = b.const(dtype, -1, lanes)
    sign = b.select(odd, minus, one)
    flipped = b.select(b.compare("eq", x, minus), sign, zero)
    below = b.select(b.compare("eq", x, one), one, flipped)
    return b.select(b.compare("lt", y, zero), below, power)


def sin(b: LoopBuilder, x: Value) -> Value:
    """The sine, by libm."""
    return b.call("sin", x)


def cos(b: LoopBuilder, x: Value) -> Value:
    """The cosine, by libm."""
    return b.call("cos", x)


def signbit(b: LoopBuilder, x: Value) -> Value:
    """Whether the sign bit is set, also that of -0 and NaN."""
    integer = DType.i32 if x.type.dtype is DType.f32 else DType.i64
    return b.compare("lt", b.bitcast(x, integer), b.const(integer, 0, x.type.lanes))
