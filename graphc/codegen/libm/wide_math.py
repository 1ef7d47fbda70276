"""Functions of f32 that are computed in f64, as straight-line loop IR over vectors of any width.

In: a LoopBuilder and values of f64 that hold f32 numbers. Out: the value of the function in f64, to
be rounded to f32. An error of 1e-11 is beyond what f32 shows, so short series without compensation
do, and no operation is other than IEEE 754's: the bits are the same on every target.

Worst error after rounding, in units of f32 in the last place against the exact value, over the
whole range: 0.501, but lgamma 0.8, and 8 beside its zeros below 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.types import DType

CHUNK_BITS = 29
"""Bits of 2/π in one factor: the product with the 24 bits of an f32 is exact."""
CHUNKS = (341782637, 423170132, 352195499, 488592205, 461485765, 90590992, 478285810)
"""2/π, cut into pieces of so many bits."""
ALL_FOURS = 54
"""From 2^54 on an f32 times the first piece is a multiple of 4, which no angle sees."""
TINY = 2.0**-12
"""Below it sin, tan, asin, … of x are x, but for a sixth of a last bit or so."""
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
ROUNDING = 6755399441055744.0  # 1.5·2^52, as ROUNDING of vector_math
MANTISSA_BITS = 52
MANTISSA_MASK = (1 << MANTISSA_BITS) - 1
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD

SINE = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(10))
COSINE = tuple((-1) ** n / math.factorial(2 * n) for n in range(8))
EXPONENTIAL = tuple(1 / math.factorial(n) for n in range(14))
HYPERBOLIC = tuple(1 / math.factorial(2 * n + 1) for n in range(8))
ARC = tuple((-1) ** n / (2 * n + 1) for n in range(16))
AREA = tuple(2 / (2 * n + 1) for n in range(12))
"""log((1 + s) / (1 - s)) = s·AREA(s²), for |s| <= 0.172."""

# erfc(x)·e^(x²) in t = (x - 3) / (x + 3) for 0 <= x <= 10.2, beyond which f32 has 0.
ERFCX_MIDDLE, ERFC_LIMIT = 3.0, 10.2
ERFCX = (
    0.17900115118138996,
    -0.3262335600430372,
    0.24560380171233123,
    -0.15011593650077815,
    0.07166583719795303,
    -0.024392499318644068,
    0.004269136333570237,
    0.000707746438802811,
    -0.0005970619592729696,
    4.5255292659809337e-05,
    6.405664347476331e-05,
    -1.286039416017167e-05,
    -7.978536479359213e-06,
    2.1192515041297875e-06,
    1.25339955815736e-06,
    -2.910362402197104e-07,
    -2.347772957759931e-07,
    2.2816872601213336e-08,
    4.349122945169197e-08,
    5.5042699200249425e-09,
    -3.707861101960185e-09,
    -1.0326518654587348e-09,
)
# log Γ(x) = (x - 1/2)·log x - x + log(2π)/2 + STIRLING(1/x²)/x, for x >= 8.
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
STIRLING_FROM = 8


class WideWriter:
    """The builder with f64 constants at hand."""

    def __init__(self, b: LoopBuilder, x: LoopValue) -> None:
        self.b = b
        self.lanes = x.type.lanes

    def number(self, value: float) -> LoopValue:
        return self.b.const(DType.f64, value, self.lanes)

    def integer(self, value: int) -> LoopValue:
        return self.b.const(DType.i64, value, self.lanes)

    def polynomial(self, coefficients: Sequence[float], x: LoopValue) -> LoopValue:
        """Horner's scheme, low order first."""
        b = self.b
        total = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = b.add(b.mul(total, x), self.number(coefficient))
        return total

    def at_least(self, x: LoopValue, limit: float) -> LoopValue:
        """Whether |x| >= limit."""
        return self.b.compare("ge", self.b.abs(x), self.number(limit))

    def signed(self, magnitude: LoopValue, x: LoopValue) -> LoopValue:
        """A magnitude with the sign of x, that of -0 too."""
        b = self.b
        negative = b.compare("lt", b.bitcast(x, DType.i64), self.integer(0))
        return b.select(negative, b.neg(magnitude), magnitude)

    def quarters(self, x: LoopValue) -> tuple[LoopValue, LoopValue]:
        """x = (q + r)·π/2 up to whole turns: q as i32, and the angle r·π/2 of at most π/4. Payne
        and Hanek's reduction: pieces of 2/π whose products are multiples of 4 are left out."""
        b = self.b
        scaled, chunks = x, [self.number(chunk * 2.0**-CHUNK_BITS) for chunk in CHUNKS[:4]]
        for skipped in (1, 2, 3):
            skip = self.at_least(x, 2.0 ** (ALL_FOURS + CHUNK_BITS * (skipped - 1)))
            fewer = b.mul(x, self.number(2.0 ** (-CHUNK_BITS * skipped)))
            scaled = b.select(skip, fewer, scaled)
            chunks = [
                b.select(skip, self.number(other * 2.0**-CHUNK_BITS), chunk)
                for chunk, other in zip(chunks, CHUNKS[skipped:])
            ]
        parts = [
            b.mul(b.mul(scaled, chunk), self.number(2.0 ** (-CHUNK_BITS * place)))
            for place, chunk in enumerate(chunks)
        ]
        first, second = (self._less_fours(part) for part in parts[:2])
        total = b.add(first, second)
        back = b.sub(total, first)
        lost = b.add(b.sub(first, b.sub(total, back)), b.sub(second, back))
        whole = b.op("round", total)
        near = b.add(b.sub(total, whole), parts[2])
        angle = b.mul(b.add(near, b.add(lost, parts[3])), self.number(math.pi / 2))
        return b.convert(whole, DType.i32), angle

    def _less_fours(self, x: LoopValue) -> LoopValue:
        b = self.b
        return b.sub(x, b.mul(b.op("round", b.mul(x, self.number(0.25))), self.number(4.0)))

    def bit(self, count: LoopValue, bit: int) -> LoopValue:
        """Whether a bit of an i32 is set."""
        number = self.b.const(DType.i32, bit, self.lanes)
        return self.b.compare("ne", self.b.op("and", count, number),
                              self.b.const(DType.i32, 0, self.lanes))  # fmt: skip

    def sine_and_cosine(self, angle: LoopValue) -> tuple[LoopValue, LoopValue]:
        square = self.b.mul(angle, angle)
        sine = self.b.mul(angle, self.polynomial(SINE, square))
        return sine, self.polynomial(COSINE, square)

    def power(self, x: LoopValue) -> LoopValue:
        """e^x, which is infinite or 0 in f32 long before the ends of f64."""
        b = self.b
        inside = b.maximum(self.number(-600.0), b.minimum(self.number(600.0), x))
        shifted = b.add(b.mul(inside, self.number(1 / math.log(2))), self.number(ROUNDING))
        count = b.sub(shifted, self.number(ROUNDING))
        rest = b.sub(inside, b.mul(count, self.number(LN2_HIGH)))
        rest = b.sub(rest, b.mul(count, self.number(LN2_LOW)))
        exponent = b.op("shl", b.bitcast(shifted, DType.i64), self.integer(MANTISSA_BITS))
        scale = b.bitcast(b.add(exponent, self.integer(1023 << MANTISSA_BITS)), DType.f64)
        return b.mul(self.polynomial(EXPONENTIAL, rest), scale)

    def area(self, s: LoopValue) -> LoopValue:
        """log((1 + s) / (1 - s))."""
        return self.b.mul(s, self.polynomial(AREA, self.b.mul(s, s)))

    def logarithm(self, x: LoopValue) -> LoopValue:
        """log x for positive finite x."""
        b = self.b
        offset = b.sub(b.bitcast(x, DType.i64), self.integer(SQRT_HALF_BITS))
        exponent = b.op("ashr", offset, self.integer(MANTISSA_BITS))
        count = b.convert(b.convert(exponent, DType.i32), DType.f64)
        rest = b.op("and", offset, self.integer(MANTISSA_MASK))
        mantissa = b.bitcast(b.add(rest, self.integer(SQRT_HALF_BITS)), DType.f64)
        one = self.number(1.0)
        near = self.area(b.div(b.sub(mantissa, one), b.add(mantissa, one)))
        low = b.add(near, b.mul(count, self.number(LN2_LOW)))
        return b.add(low, b.mul(count, self.number(LN2_HIGH)))

    def logarithm_beside_one(self, x: LoopValue) -> LoopValue:
        """log(1 + x) for x from -0.3 on, infinite where x is."""
        b = self.b
        near = self.area(b.div(x, b.add(x, self.number(2.0))))
        far = self.logarithm(b.add(x, self.number(1.0)))
        far = b.select(b.compare("lt", x, self.number(math.inf)), far, x)
        return b.select(self.at_least(x, 0.25), far, near)

    def arc(self, x: LoopValue) -> LoopValue:
        """atan x for x >= 0. Beyond 1 it is π/2 - atan(1/x); beyond tan(π/8) it is π/4 + atan of
        (t - 1) / (t + 1)."""
        b = self.b
        one = self.number(1.0)
        large = b.compare("gt", x, one)
        t = b.select(large, b.div(one, x), x)
        middle = b.compare("gt", t, self.number(math.sqrt(2) - 1))
        u = b.select(middle, b.div(b.sub(t, one), b.add(t, one)), t)
        near = b.mul(u, self.polynomial(ARC, b.mul(u, u)))
        angle = b.select(middle, b.add(near, self.number(math.pi / 4)), near)
        return b.select(large, b.sub(self.number(math.pi / 2), angle), angle)


def through_f64(
    b: LoopBuilder, *operands: LoopValue, function: Callable[..., LoopValue]
) -> LoopValue:
    """One of the functions below, of operands of f32."""
    wide = [b.convert(operand, DType.f64) for operand in operands]
    return b.convert(function(b, *wide), DType.f32)


def sin(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    count, angle = w.quarters(x)
    sine, cosine = w.sine_and_cosine(angle)
    value = b.select(w.bit(count, 1), cosine, sine)
    value = b.select(w.bit(count, 2), b.neg(value), value)
    return b.select(b.compare("lt", b.abs(x), w.number(TINY)), x, value)


def cos(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    count, angle = w.quarters(x)
    sine, cosine = w.sine_and_cosine(angle)
    odd = w.bit(count, 1)
    value = b.select(odd, sine, cosine)
    return b.select(b.op("xor", odd, w.bit(count, 2)), b.neg(value), value)


def tan(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    count, angle = w.quarters(x)
    sine, cosine = w.sine_and_cosine(angle)
    odd = w.bit(count, 1)
    value = b.div(b.select(odd, b.neg(cosine), sine), b.select(odd, sine, cosine))
    return b.select(b.compare("lt", b.abs(x), w.number(TINY)), x, value)


def atan(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    return w.signed(w.arc(b.abs(x)), x)


def _beside(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """sqrt(1 - x²)."""
    one = WideWriter(b, x).number(1.0)
    return b.sqrt(b.mul(b.sub(one, x), b.add(one, x)))


def asin(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    return w.signed(w.arc(b.div(b.abs(x), _beside(b, x))), x)


def acos(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    one = w.number(1.0)
    half = w.arc(b.sqrt(b.div(b.sub(one, x), b.add(one, x))))
    return b.add(half, half)


def atan2(b: LoopBuilder, y: LoopValue, x: LoopValue) -> LoopValue:
    """The angle of the point (x, y), with C's values for zeros and infinities."""
    w = WideWriter(b, x)
    up, along = b.abs(y), b.abs(x)
    one, zero = w.number(1.0), w.number(0.0)
    # Equal ones are at 45 degrees, infinite ones too; two zeros are at 0.
    ratio = b.select(b.compare("eq", up, along), one, b.div(up, along))
    ratio = b.select(b.compare("eq", up, zero), zero, ratio)
    nan = b.op("or", b.compare("ne", x, x), b.compare("ne", y, y))
    angle = w.arc(b.select(nan, w.number(math.nan), ratio))
    left = b.compare("lt", b.bitcast(x, DType.i64), w.integer(0))
    angle = b.select(left, b.sub(w.number(math.pi), angle), angle)
    return w.signed(angle, y)


def sinh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    power = w.power(b.abs(x))
    far = b.mul(b.sub(power, b.div(w.number(1.0), power)), w.number(0.5))
    near = b.mul(b.abs(x), w.polynomial(HYPERBOLIC, b.mul(x, x)))
    return w.signed(b.select(w.at_least(x, 1.0), far, near), x)


def cosh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    power = w.power(b.abs(x))
    return b.mul(b.add(power, b.div(w.number(1.0), power)), w.number(0.5))


def asinh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    size, one = b.abs(x), w.number(1.0)
    square = b.mul(x, x)
    root = b.sqrt(b.add(square, one))
    # Not infinite over infinite.
    more = b.select(b.compare("lt", size, w.number(math.inf)),
                    b.div(square, b.add(root, one)), size)  # fmt: skip
    return w.signed(w.logarithm_beside_one(b.add(size, more)), x)


def acosh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    above = b.sub(x, w.number(1.0))
    root = b.sqrt(b.mul(above, b.add(above, w.number(2.0))))
    value = w.logarithm_beside_one(b.add(above, root))
    below = b.compare("lt", x, w.number(1.0))
    return b.select(below, w.number(math.nan), value)


def atanh(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    size = b.abs(x)
    ratio = b.div(b.add(size, size), b.sub(w.number(1.0), size))
    value = b.mul(w.logarithm_beside_one(ratio), w.number(0.5))
    outside = b.compare("gt", size, w.number(1.0))
    return w.signed(b.select(outside, w.number(math.nan), value), x)


def hypot(b: LoopBuilder, x: LoopValue, y: LoopValue) -> LoopValue:
    """Infinite where one operand is, whatever the other."""
    w = WideWriter(b, x)
    infinity = w.number(math.inf)
    either = b.op("or", b.compare("eq", b.abs(x), infinity), b.compare("eq", b.abs(y), infinity))
    return b.select(either, infinity, b.sqrt(b.add(b.mul(x, x), b.mul(y, y))))


def pow(b: LoopBuilder, x: LoopValue, y: LoopValue) -> LoopValue:
    """x^y with C's special cases."""
    w = WideWriter(b, x)
    zero, infinity = w.number(0.0), w.number(math.inf)
    size = b.abs(x)
    logarithm = w.logarithm(size)
    logarithm = b.select(b.compare("eq", size, zero), w.number(-math.inf), logarithm)
    logarithm = b.select(b.compare("lt", size, infinity), logarithm, size)
    return with_signs_of_power(w, x, y, w.power(b.mul(y, logarithm)))


def with_signs_of_power(w: WideWriter, x: LoopValue, y: LoopValue, value: LoopValue) -> LoopValue:
    """x^y with C's special cases, from |x|^y."""
    b = w.b
    zero, one, infinity = w.number(0.0), w.number(1.0), w.number(math.inf)
    whole = b.compare("eq", b.op("floor", y), y)
    half = b.mul(y, w.number(0.5))
    odd = b.op("and", whole, b.compare("ne", b.op("floor", half), half))
    negative = b.compare("lt", b.bitcast(x, DType.i64), w.integer(0))
    value = b.select(b.op("and", negative, odd), b.neg(value), value)
    fraction = b.op("and", b.compare("lt", x, zero), b.op("not", whole))
    fraction = b.op("and", fraction, b.compare("gt", x, w.number(-math.inf)))
    value = b.select(fraction, w.number(math.nan), value)
    # 1 to any power, and anything to the power 0; -1 to an infinite one.
    unit = b.op("or", b.compare("eq", x, one), b.compare("eq", y, zero))
    endless = b.op("and", b.compare("eq", b.abs(x), one), b.compare("eq", b.abs(y), infinity))
    return b.select(b.op("or", unit, endless), one, value)


def erfc(b: LoopBuilder, x: LoopValue) -> LoopValue:
    w = WideWriter(b, x)
    size = b.minimum(w.number(ERFC_LIMIT), b.abs(x))
    middle = w.number(ERFCX_MIDDLE)
    t = b.div(b.sub(size, middle), b.add(size, middle))
    value = b.mul(w.polynomial(ERFCX, t), w.power(b.neg(b.mul(size, size))))
    return b.select(b.compare("lt", x, w.number(0.0)), b.sub(w.number(2.0), value), value)


def lgamma(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """log |Γ(x)|, infinite at 0 and the negative integers. Below 1/2 by reflection."""
    w = WideWriter(b, x)
    one, zero, infinity = w.number(1.0), w.number(0.0), w.number(math.inf)
    low = b.compare("lt", x, w.number(0.5))
    value = _lgamma_from_half(b, b.select(low, b.sub(one, x), x))
    turn = b.mul(b.sub(x, b.op("round", x)), w.number(math.pi))
    sine = b.abs(w.sine_and_cosine(turn)[0])
    reflected = b.sub(w.logarithm(b.div(w.number(math.pi), sine)), value)
    pole = b.op("and", b.compare("eq", sine, zero), low)
    result = b.select(low, reflected, value)
    # It is 0 at 1 and 2, where rounding leaves some 1e-15.
    nothing = b.op("or", b.compare("eq", x, one), b.compare("eq", x, w.number(2.0)))
    result = b.select(nothing, zero, result)
    endless = b.op("or", pole, b.compare("eq", b.abs(x), infinity))
    return b.select(endless, infinity, b.select(b.compare("ne", x, x), x, result))


def _lgamma_from_half(b: LoopBuilder, x: LoopValue) -> LoopValue:
    """log Γ(x) for x >= 1/2: Γ(x + 8) / (x·(x + 1)·…·(x + 7)) where x is small."""
    w = WideWriter(b, x)
    small = b.compare("lt", x, w.number(float(STIRLING_FROM)))
    product = x
    for step in range(1, STIRLING_FROM):
        product = b.mul(product, b.add(x, w.number(float(step))))
    z = b.select(small, b.add(x, w.number(float(STIRLING_FROM))), x)
    inverse = b.div(w.number(1.0), z)
    rest = b.mul(inverse, w.polynomial(STIRLING, b.mul(inverse, inverse)))
    slope = b.mul(b.sub(z, w.number(0.5)), w.logarithm(z))
    rest = b.add(rest, w.number(math.log(2 * math.pi) / 2))
    value = b.add(b.sub(slope, z), rest)
    divisor = b.select(small, product, w.number(1.0))
    return b.sub(value, w.logarithm(divisor))
