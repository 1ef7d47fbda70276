"""Pairs of f64 numbers as straight-line loop IR: sums and products that keep what rounding would
lose, and the exponential, logarithm, angle and arc of `double_math` made of them.

A pair (high, low) stands for high + low, of which high is the nearest f64. Error-free sums and
products are Knuth's and Dekker's, by FMA (Muller and others, Handbook of Floating-Point
Arithmetic, 2018).
"""

from __future__ import annotations

import math

from graphc.codegen.libm import double_coefficients as c
from graphc.codegen.libm.wide_math import (
    MANTISSA_BITS,
    MANTISSA_MASK,
    ROUNDING,
    SQRT_HALF_BITS,
    WideWriter,
)
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.types import DType

Pair = tuple[LoopValue, LoopValue]

EXPONENT_BIAS = 1023
LEAST_NORMAL = 2.0**-1022
WINDOW = 5
"""Pieces of 2/π in one reduction: 265 bits, of which at most 107 are whole turns."""
SKIP_FROM = 54
"""From 2^(54 + 53) on an f64 times the first piece is a multiple of 4, which no angle sees."""


class PairWriter(WideWriter):
    """The builder with f64 constants at hand, and what is computed in pairs."""

    def pair(self, numbers: tuple[float, float]) -> Pair:
        return self.number(numbers[0]), self.number(numbers[1])

    def total(self, x: LoopValue, y: LoopValue) -> Pair:
        """x + y exactly."""
        b = self.b
        high = b.add(x, y)
        back = b.sub(high, x)
        return high, b.add(b.sub(x, b.sub(high, back)), b.sub(y, back))

    def ordered_total(self, x: LoopValue, y: LoopValue) -> Pair:
        """x + y exactly, where |x| is not below |y|, or x is 0."""
        high = self.b.add(x, y)
        return high, self.b.sub(y, self.b.sub(high, x))

    def product(self, x: LoopValue, y: LoopValue) -> Pair:
        """x·y exactly, but for underflow."""
        high = self.b.mul(x, y)
        return high, self.b.fma(x, y, self.b.neg(high))

    def plus(self, x: Pair, y: Pair) -> Pair:
        b = self.b
        high, low = self.total(x[0], y[0])
        return self.ordered_total(high, b.add(low, b.add(x[1], y[1])))

    def times(self, x: Pair, y: Pair) -> Pair:
        b = self.b
        high, low = self.product(x[0], y[0])
        cross = b.fma(x[0], y[1], b.mul(x[1], y[0]))
        return self.ordered_total(high, b.add(low, cross))

    def over(self, x: Pair, y: Pair) -> Pair:
        b = self.b
        high = b.div(x[0], y[0])
        rest = b.fma(b.neg(high), y[0], x[0])
        rest = b.add(rest, b.fma(b.neg(high), y[1], x[1]))
        return self.ordered_total(high, b.div(rest, y[0]))

    def select_pair(self, condition: LoopValue, x: Pair, y: Pair) -> Pair:
        return self.b.select(condition, x[0], y[0]), self.b.select(condition, x[1], y[1])

    # -- powers of two -----------------------------------------------------------------------

    def clamp(self, x: LoopValue, limit: float) -> LoopValue:
        """NaN stays NaN."""
        return self.b.maximum(self.number(-limit), self.b.minimum(self.number(limit), x))

    def two_to(self, exponent: LoopValue) -> LoopValue:
        """2^n of an i64 from -1022 to 1023."""
        biased = self.b.add(exponent, self.integer(EXPONENT_BIAS))
        return self.b.bitcast(self.b.op("shl", biased, self.integer(MANTISSA_BITS)), DType.f64)

    def scaled(self, x: LoopValue, exponent: LoopValue) -> LoopValue:
        """x·2^n, rounded once where the result is no normal number: in two steps, since neither
        2^1024 nor 2^-1075 is one."""
        half = self.b.op("ashr", exponent, self.integer(1))
        part = self.b.mul(x, self.two_to(half))
        return self.b.mul(part, self.two_to(self.b.sub(exponent, half)))

    # -- exponentials ------------------------------------------------------------------------

    def nearest(self, x: LoopValue) -> tuple[LoopValue, LoopValue]:
        """The nearest whole number of a moderate x, as i64 and as f64."""
        b = self.b
        shifted = b.add(x, self.number(ROUNDING))
        start = b.bitcast(self.number(ROUNDING), DType.i64)
        return b.sub(b.bitcast(shifted, DType.i64), start), b.sub(shifted, self.number(ROUNDING))

    def power_less_one(self, rest: Pair) -> Pair:
        """e^r - 1 for |r| <= ln 2 / 2."""
        b = self.b
        high, low = rest
        bend = b.mul(b.mul(high, high), self.polynomial(c.EXPONENTIAL, high))
        return self.ordered_total(high, b.add(low, bend))

    def reduced(self, x: Pair) -> tuple[LoopValue, Pair]:
        """n as i64 and e^r - 1, with e^x = 2^n·e^r, for |x| <= 1100."""
        b = self.b
        whole, count = self.nearest(b.mul(x[0], self.number(c.PER_LN2[0])))
        rest = b.fma(count, self.number(-c.LN2_PARTS[0]), x[0])
        high, low = self.total(rest, b.mul(count, self.number(-c.LN2_PARTS[1])))
        return whole, self.power_less_one(self.total(high, b.add(low, x[1])))

    def one_more(self, x: Pair) -> LoopValue:
        """1 + x for |x| <= 1, rounded."""
        high, low = self.ordered_total(self.number(1.0), x[0])
        return self.b.add(high, self.b.add(low, x[1]))

    # -- logarithms --------------------------------------------------------------------------

    def logarithm_parts(self, x: Pair) -> tuple[LoopValue, Pair]:
        """n as f64 and log m, with x = 2^n·m and m between √½ and √2, for finite x > 0."""
        b = self.b
        tiny = b.compare("lt", x[0], self.number(LEAST_NORMAL))
        scaled = b.select(tiny, b.mul(x[0], self.number(2.0**54)), x[0])
        offset = b.sub(b.bitcast(scaled, DType.i64), self.integer(SQRT_HALF_BITS))
        exponent = b.op("ashr", offset, self.integer(MANTISSA_BITS))
        rest = b.op("and", offset, self.integer(MANTISSA_MASK))
        mantissa = b.bitcast(b.add(rest, self.integer(SQRT_HALF_BITS)), DType.f64)
        # The low part shows only where n is small.
        back = b.sub(self.integer(0), exponent)
        large = b.compare("gt", exponent, self.integer(100))
        low = b.mul(x[1], self.two_to(b.select(large, self.integer(-100), back)))
        low = b.select(tiny, self.number(0.0), low)
        fraction = self.total(b.sub(mantissa, self.number(1.0)), low)
        count = b.convert(b.convert(exponent, DType.i32), DType.f64)
        count = b.select(tiny, b.sub(count, self.number(54.0)), count)
        return count, self.logarithm_beside_zero(fraction)

    def logarithm_beside_zero(self, fraction: Pair) -> Pair:
        """log(1 + f) for √½ <= 1 + f <= √2, as 2·artanh of f / (2 + f)."""
        b = self.b
        high, low = self.ordered_total(self.number(2.0), fraction[0])
        s = self.over(fraction, (high, b.add(low, fraction[1])))
        square = self.times(s, s)
        third = self.times(square, self.pair(c.THIRD))
        fifth = b.mul(b.mul(square[0], square[0]), self.polynomial(c.AREA, square[0]))
        bend = self.plus(third, (fifth, self.number(0.0)))
        twice = b.add(s[0], s[0]), b.add(s[1], s[1])
        return self.plus(twice, self.times(twice, bend))

    def natural(self, count: LoopValue, near: Pair) -> Pair:
        """n·ln 2 + log m."""
        return self.with_exponent(count, near, c.LN2_PARTS)

    def with_exponent(self, count: LoopValue, near: Pair, two: tuple[float, float]) -> Pair:
        """n·two + near, of which `two` has a first part of few bits."""
        b = self.b
        high, low = self.total(b.mul(count, self.number(two[0])), near[0])
        return self.ordered_total(high, b.add(low, b.fma(count, self.number(two[1]), near[1])))

    # -- angles ------------------------------------------------------------------------------

    def quarter_turns(self, x: LoopValue) -> tuple[LoopValue, Pair]:
        """As `quarters`, with the angle as a pair."""
        b = self.b
        terms = self._turns(x)
        terms = self._distilled(terms)
        whole = b.op("round", terms[0])
        terms = self._distilled([b.sub(terms[0], whole), *terms[1:]])
        low = terms[-1]
        for term in reversed(terms[1:-1]):
            low = b.add(low, term)
        rest = self.ordered_total(terms[0], low)
        return b.convert(whole, DType.i32), self.times(rest, self.pair(c.HALF_PI))

    def _turns(self, x: LoopValue) -> list[LoopValue]:
        """x·2/π up to multiples of 4, as a sum of falling terms. Pieces of 2/π are left out from
        the front for as long as their products are multiples of 4: a barrel shifter picks those
        that count."""
        b = self.b
        bits = b.op("and", b.bitcast(x, DType.i64), self.integer((1 << 63) - 1))
        exponent = b.convert(b.op("ashr", bits, self.integer(MANTISSA_BITS)), DType.i32)
        over = b.sub(b.convert(exponent, DType.f64), self.number(EXPONENT_BIAS + SKIP_FROM - 0.5))
        skipped = b.op("floor", b.mul(over, self.number(1 / c.PIECE_BITS)))
        skipped = b.maximum(self.number(0.0), skipped)
        count = b.convert(skipped, DType.i32)
        pieces = [self.number(piece) for piece in c.PIECES]
        for step in (16, 8, 4, 2, 1):
            further = self.bit(count, step)
            pieces = [
                b.select(further, pieces[i + step], piece) if i + step < len(pieces) else piece
                for i, piece in enumerate(pieces[: WINDOW + step - 1])
            ]
        back = self.nearest(b.mul(skipped, self.number(-float(c.PIECE_BITS))))[0]
        scaled = b.mul(x, self.two_to(back))
        places = [self.number(2.0 ** (-c.PIECE_BITS * place)) for place in range(WINDOW)]
        products = [self.product(b.mul(scaled, p), piece) for p, piece in zip(places, pieces)]
        terms = [part for product in products for part in product][:-1]
        return [self._less_fours(term) for term in terms[:3]] + terms[3:]

    def _distilled(self, terms: list[LoopValue]) -> list[LoopValue]:
        """The same sum, of which the first term is nearly all."""
        total, rest = terms[-1], []
        for term in reversed(terms[:-1]):
            total, lost = self.total(term, total)
            rest.append(lost)
        return [total, *reversed(rest)]

    def sine_of(self, angle: Pair) -> LoopValue:
        """For |a| <= π/2."""
        b = self.b
        high, low = angle
        square = b.mul(high, high)
        near = b.mul(low, b.fma(square, self.number(-0.5), self.number(1.0)))
        bend = b.mul(b.mul(high, square), self.polynomial(c.SINE, square))
        return b.add(high, b.add(near, bend))

    def cosine_of(self, angle: Pair) -> LoopValue:
        """For |a| <= π/4."""
        b = self.b
        high, low = angle
        square = b.mul(high, high)
        half = b.mul(square, self.number(0.5))
        top, lost = self.ordered_total(self.number(1.0), b.neg(half))
        lost = b.sub(lost, b.mul(b.fma(high, high, b.neg(square)), self.number(0.5)))
        bend = b.mul(b.mul(square, square), self.polynomial(c.COSINE, square))
        return b.add(top, b.add(lost, b.sub(bend, b.mul(high, low))))

    def arc_of(self, up: LoopValue, along: LoopValue) -> Pair:
        """The angle of (along, up) for numbers >= 0, not both 0, finite and not far from each
        other: of the smaller over the larger, less π/4 where that is beyond tan(π/8)."""
        b = self.b
        zero = self.number(0.0)
        steep = b.compare("gt", up, along)
        less, more = b.select(steep, along, up), b.select(steep, up, along)
        middle = b.compare("gt", less, b.mul(more, self.number(math.sqrt(2) - 1)))
        apart, total = self.total(less, b.neg(more)), self.total(more, less)
        u = self.over(self.select_pair(middle, apart, (less, zero)),
                      self.select_pair(middle, total, (more, zero)))  # fmt: skip
        square = b.mul(u[0], u[0])
        bend = b.mul(b.mul(u[0], square), self.polynomial(c.ARC, square))
        low = b.add(b.sub(u[1], b.mul(u[1], square)), bend)
        flat = self.pair((0.0, 0.0))
        start = self.select_pair(steep, self.pair(c.HALF_PI), flat)
        start = self.select_pair(middle, self.pair(c.QUARTER_PI), start)
        near = b.select(steep, b.neg(u[0]), u[0]), b.select(steep, b.neg(low), low)
        return self.plus(start, self.ordered_total(*near))
