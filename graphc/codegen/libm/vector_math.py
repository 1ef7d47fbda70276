"""Transcendental functions of f32 as straight-line loop IR over vectors of any width.

In: a LoopBuilder and a value of f32. Out: the value of the function, appended to the builder's
current block. Computed with fits of our own (minimised over f32 coefficients, checked on dense
grids against f64); the same operations run in every lane on every target, so a function has one
result per argument, whatever the vector width. Others are computed in f64 (`wide_math`); functions
of f64 stand in `double_math`.

Worst error in units in the last place against the exact value, over the whole range:

    exp 1.2, exp2 1.2, expm1 1.6, log 0.9, log2 1.3, log10 1.3, log1p 1.7, sigmoid 2.9, tanh 4.8,
    erf 6, rsqrt 1.5

NaN gives NaN. exp and exp2 overflow to inf and underflow gradually through the denormals, and so
does sigmoid below -87. Logarithms take denormals, give -inf at 0 and NaN below; log2 and exp2 are
exact at powers of two. tanh and erf are odd, keep -0, are within [-1, 1], and reach ±1 at 8.06 and
3.67. Results in the denormal range are within 1 denormal step.

Clamps put the constant first: `minimum(constant, x)` is then one instruction and lets NaN through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.types import DType

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
# ln 2 in two parts; the first has so few bits that its products with exponents are exact.
LN2_HIGH = 0.693145751953125
LN2_LOW = 1.42860677e-6
# Adding 1.5·2^23 to a float of moderate size leaves its nearest integer in the low bits.
ROUNDING = 12582912.0
EXPONENT_SHIFT = 23
EXPONENT_BIAS = 127
# Powers of two are looked up by eighths of an exponent: a register holds a table of eight.
STEPS = 8
STEP_SHIFT = 3
STEP_POWERS = np.exp2(np.arange(STEPS) / STEPS).astype(np.float32)
# 2^n·2^RAISED is normal for -191 < n <= 0, and what makes it gives 0 for n = -191.
RAISED = 64
MANTISSA_MASK = 0x007FFFFF
SQRT_HALF_BITS = 0x3F3504F3
SQRT_2 = 1.4142135623730951
LEAST_NORMAL = 1.1754943508222875e-38
# Logarithms of e to base 2 and 10, and of 2 to base 10: the nearest f32 and the rest.
PER_LN2 = (1.4426950216293335, 1.9259629911266175e-08)
PER_LN10 = (0.4342944920063019, -1.0103050052231683e-08)
LG_2 = (0.3010300099849701, -1.4320988897559699e-08)

# exp(r) = 1 + r + r²·q(r) on |r| <= ln 2 / 16. Coefficients are low order first, here and below.
STEP_Q = (0.5000645518302917, 0.1666688770055771)
# The same on |r| <= ln 2 / 2, where exp(r) - 1 has to be accurate too.
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


class _MathWriter:
    """The builder with constants of one vector type at hand."""

    def __init__(self, b: LoopBuilder, x: LoopValue) -> None:
        self.b = b
        self.dtype = x.type.dtype
        self.lanes = x.type.lanes

    def number(self, value: float) -> LoopValue:
        return self.b.const(self.dtype, value, self.lanes)

    def integer(self, value: int) -> LoopValue:
        return self.b.const(DType.i32, value, self.lanes)

    def polynomial(self, coefficients: Sequence[float], x: LoopValue) -> LoopValue:
        """Horner's scheme, one FMA per coefficient."""
        result = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.b.fma(result, x, self.number(coefficient))
        return result

    def clamp(self, x: LoopValue, low: float, high: float) -> LoopValue:
        """NaN stays NaN."""
        return self.b.maximum(self.number(low), self.b.minimum(self.number(high), x))

    def reduced_exp(self, x: LoopValue, steps: int, bias: int) -> tuple[LoopValue, LoopValue]:
        """Integers with k + bias in their low bits, and r, with exp(x) = 2^(k/steps)·exp(r) and
        |r| <= ln 2 / (2·steps), for |x| < 128·ln 2·2. An even bias leaves halves rounded to even k;
        `steps` is a power of two."""
        b = self.b
        rounding = self.number(ROUNDING + bias)
        shifted = b.fma(x, self.number(LOG2_E * steps), rounding)
        count = b.sub(shifted, rounding)
        rest = b.fma(count, self.number(-LN2_HIGH / steps), x)
        rest = b.fma(count, self.number(-LN2_LOW / steps), rest)
        return b.bitcast(shifted, DType.i32), rest

    def reduced_exp2(self, x: LoopValue, bias: int) -> tuple[LoopValue, LoopValue]:
        """As reduced_exp, with 2^x = 2^(k/STEPS)·exp(r)."""
        b = self.b
        rounding = self.number(ROUNDING + bias)
        shifted = b.fma(x, self.number(STEPS), rounding)
        rest = b.fma(b.sub(shifted, rounding), self.number(-1 / STEPS), x)
        return b.bitcast(shifted, DType.i32), b.mul(rest, self.number(LN2))

    def exp_less_one(self, r: LoopValue, coefficients: Sequence[float]) -> LoopValue:
        """exp(r) - 1 by one of the fits above."""
        q = self.polynomial(coefficients, r)
        return self.b.fma(self.b.mul(r, r), q, r)

    def scaled(self, bits: LoopValue, r: LoopValue) -> LoopValue:
        """2^(k/STEPS)·exp(r) from k + 2·STEPS·EXPONENT_BIAS. Two-step scaling, by normal powers,
        for overflow and underflow: half of the whole exponent is one as floats hold it, and what
        is left of k, eighths included, makes the other."""
        b = self.b
        half = b.op("lshr", bits, self.integer(STEP_SHIFT + 1))
        second = b.op("shl", half, self.integer(EXPONENT_SHIFT))
        first = b.bitcast(b.sub(self.power_of_steps(bits, -EXPONENT_BIAS), second), DType.f32)
        p = self.exp_less_one(r, STEP_Q)
        return b.mul(b.fma(p, first, first), b.bitcast(second, DType.f32))

    def power_of_steps(self, bits: LoopValue, raised: int) -> LoopValue:
        """The bits of 2^(k/STEPS + raised), from k in the low bits; what stands above is shifted
        out. The table takes off what the eighths add to the mantissa."""
        b = self.b
        shift = EXPONENT_SHIFT - STEP_SHIFT
        table = tuple(int(power) + (raised << EXPONENT_SHIFT) - (step << shift)
                      for step, power in enumerate(STEP_POWERS.view(np.int32)))  # fmt: skip
        return b.add(b.op("lookup", bits, attribute=table), b.op("shl", bits, self.integer(shift)))

    def raised_exp(self, x: LoopValue) -> LoopValue:
        """exp(x)·2^RAISED for x <= 0. Nothing overflows, and all powers are normal, or 0 far below,
        where masks put -inf: a result that underflows takes the processor 15 cycles more."""
        b = self.b
        least = self.number(-(EXPONENT_BIAS + RAISED) * LN2)
        bits, r = self.reduced_exp(b.maximum(least, x), STEPS, 0)
        raised = b.bitcast(self.power_of_steps(bits, RAISED), DType.f32)
        return b.fma(self.exp_less_one(r, STEP_Q), raised, raised)


def exp(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """e^x."""
    w = _MathWriter(b, x)
    # exp(89) overflows; far below the powers are 0, as in raised_exp.
    inside = w.clamp(x, -2 * EXPONENT_BIAS * LN2, 89.0)
    return w.scaled(*w.reduced_exp(inside, STEPS, 2 * STEPS * EXPONENT_BIAS))


def exp_of_nonpositive(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """e^x for x <= 0: the bits of `exp`. Taking the constant factor away makes the denormals."""
    return b.mul(_MathWriter(b, x).raised_exp(x), b.const(DType.f32, 2.0**-RAISED))


def exp2(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """2^x."""
    w = _MathWriter(b, x)
    inside = w.clamp(x, -2 * EXPONENT_BIAS, 129.0)
    return w.scaled(*w.reduced_exp2(inside, 2 * STEPS * EXPONENT_BIAS))


def expm1(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """e^x - 1, accurate around 0."""
    w = _MathWriter(b, x)
    # Half the scale (2^n is biased by 127), so that 2^128 is not needed; doubling is exact.
    bits, r = w.reduced_exp(w.clamp(x, -18.0, 89.0), 1, 126)
    scale = b.bitcast(b.op("shl", bits, w.integer(EXPONENT_SHIFT)), DType.f32)
    half = b.fma(w.exp_less_one(r, EXP_Q), scale, b.sub(scale, w.number(0.5)))
    result = b.add(half, half)
    # Tiny arguments are their own result; halving would lose the last bit of denormals.
    return b.select(b.compare("lt", b.abs(x), w.number(2.0**-25)), x, result)


def log(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """The natural logarithm."""
    return _logarithm(b, x, _log_sum)


def log2(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """The logarithm to base 2."""
    return _logarithm(b, x, lambda w, n, f: _based_sum(w, n, f, (1.0, 0.0), PER_LN2))


def log10(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """The logarithm to base 10."""
    return _logarithm(b, x, lambda w, n, f: _based_sum(w, n, f, LG_2, PER_LN10))


def _logarithm(b: LoopBuilder, x: LoopValue, combine: Callable[..., LoopValue]) -> LoopValue:
    """x = 2^n·(1 + f), and `combine(writer, n, f)` of that."""
    w = _MathWriter(b, x)
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


def _curve(w: _MathWriter, f: LoopValue) -> tuple[LoopValue, LoopValue]:
    """f² and f³·q(f), with log(1 + f) = f - f²/2 + f³·q(f)."""
    square = w.b.mul(f, f)
    return square, w.b.mul(w.b.mul(square, f), w.polynomial(LOG_Q, f))


def _log_sum(w: _MathWriter, exponent: LoopValue, f: LoopValue) -> LoopValue:
    """exponent·ln 2 + log(1 + f), small parts first."""
    b = w.b
    square, cubic = _curve(w, f)
    small = b.fma(exponent, w.number(LN2_LOW), cubic)
    small = b.fma(square, w.number(-0.5), small)
    return b.fma(exponent, w.number(LN2_HIGH), b.add(f, small))


def _based_sum(
    w: _MathWriter,
    exponent: LoopValue,
    f: LoopValue,
    two: tuple[float, float],
    unit: tuple[float, float],
) -> LoopValue:
    """exponent·two + log(1 + f)·unit, small parts first. `two` is the logarithm of 2 and `unit`
    that of e, in two parts each."""
    b = w.b
    square, cubic = _curve(w, f)
    bend = b.fma(square, w.number(-0.5), cubic)
    small = b.fma(exponent, w.number(two[1]), b.mul(f, w.number(unit[1])))
    small = b.fma(bend, w.number(unit[0]), small)
    return b.fma(exponent, w.number(two[0]), b.fma(f, w.number(unit[0]), small))


def log1p(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """log(1 + x), accurate around 0: what rounding 1 + x loses is added back to first order."""
    w = _MathWriter(b, x)
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


def log1p_of_fraction(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """log(1 + x) for 0 <= x <= 1, where what is to be added to a logarithm is known exactly: 1 + x
    is 1 + f, or 2·(1 + f) with f = (x - 1) / 2."""
    w = _MathWriter(b, x)
    zero, one, half = w.number(0.0), w.number(1.0), w.number(0.5)
    big = b.compare("gt", x, w.number(SQRT_2 - 1))
    f = b.select(big, b.mul(b.sub(x, one), half), x)
    return _log_sum(w, b.select(big, one, zero), f)


def sigmoid(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """1 / (1 + e^-x), from e^-|x|: nothing overflows, and far below 0 it is e^x. In f32 both parts
    of the fraction are raised alike."""
    w = _MathWriter(b, x)
    power, one = w.raised_exp(b.neg(b.abs(x))), w.number(2.0**RAISED)
    # By its sign bit: at 0 both numerators are 1, and the bit itself selects.
    return b.div(b.select(signbit(b, x), power, one), b.add(one, power))


def tanh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """The hyperbolic tangent."""
    return _odd_rational(b, x, TANH_P, TANH_Q, TANH_LIMIT)


def erf(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """The error function."""
    return _odd_rational(b, x, ERF_P, ERF_Q, ERF_LIMIT)


def _odd_rational(
    b: LoopBuilder, x: LoopValue, upper: Sequence[float], lower: Sequence[float], limit: float
) -> LoopValue:
    """x·upper(x²) / lower(x²), with x clamped to ±limit."""
    w = _MathWriter(b, x)
    inside = w.clamp(x, -limit, limit)
    square = b.mul(inside, inside)
    numerator = b.mul(inside, w.polynomial(upper, square))
    return b.div(numerator, w.polynomial(lower, square))


def rsqrt(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """1 / sqrt(x), both rounded."""
    return b.div(_MathWriter(b, x).number(1.0), b.sqrt(x))


def signbit(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """Whether the sign bit is set, also that of -0 and NaN."""
    integer = DType.i32 if x.type.dtype is DType.f32 else DType.i64
    return b.compare("lt", b.bitcast(x, integer), b.const(integer, 0, x.type.lanes))
