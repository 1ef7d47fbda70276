"""Whether no sum of products of bf16 can be denormal: by the least magnitudes of both operands.

In: vectors of pairs. Out: the exponent field of the least of their elements that are not zero. What
has been seen of them is noted, less 1, in each lane's halves, so that zero is the greatest.

An element is a multiple of 2^(e - 7), e being the least exponent among those of its operand that
are not zero, so products and all their sums are multiples of 2^(eA + eB - 14): from eA + eB = -112
on those are no denormal numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.types import DType

LEAST_FIELDS = 2 * 127 - 112
"""What the exponent fields of both operands' least elements sum up to at least."""
MANTISSA = 7
"""Bits of a bf16 behind its exponent."""


def none_noted(emit: Emitter) -> LoopValue:
    return emit.builder.splat(emit.builder.const(DType.i32, -1), emit.lanes)


def least_field(emit: Emitter, noted: Sequence[LoopValue]) -> LoopValue:
    """The exponent field of the least of the elements that were noted; 0: it is denormal."""
    b, lanes = emit.builder, emit.lanes
    low, high = b.const(DType.i32, 0xFFFF), b.const(DType.i32, 16)
    halves = [half for each in noted for half in (b.op("and", each, low), b.op("lshr", each, high))]
    least = functools.reduce(b.minimum, halves)
    while lanes > 1:
        lanes //= 2
        upper = b.shuffle(least, least, range(lanes, 2 * lanes))
        least = b.minimum(b.shuffle(least, least, range(lanes)), upper)
    one = b.const(DType.i32, 1)
    return b.op("lshr", b.add(least, one), b.const(DType.i32, MANTISSA))


def is_normal(emit: Emitter, x: LoopValue, y: LoopValue) -> LoopValue:
    """Whether no sum of products can be denormal, by the fields of the operands' least elements."""
    b, one = emit.builder, emit.builder.const(DType.i32, 1)
    enough = b.compare("ge", b.add(x, y), b.const(DType.i32, LEAST_FIELDS))
    for field in (x, y):
        enough = b.op("and", enough, b.compare("ge", field, one))
    return enough
