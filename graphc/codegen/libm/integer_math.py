"""Functions of integers as loop IR, for vectors of any width.

In: a LoopBuilder and values of i32 or i64. Out: the result, appended to the builder's current
block.
"""

from __future__ import annotations

from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue


def integer_pow(b: LoopBuilder, x: LoopValue, y: LoopValue) -> LoopValue:
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
