"""From the words of a generator to numbers where integers and scaling decide, as PyTorch's CPU code
does it: of NumPy arrays, and of tensors of a trace, with the same bits.

A number of 24 bits takes the low bits of one word. One of 53 bits takes those of two words, of
which the first is the upper half.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.generator import Generator, default_generator
from frontend.engine.tensors.no_value import NO_DATA
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, make
from graphc.ir.types import INTERNED, DType, TensorType
from graphc.ops import mersenne_twister as twister

Values = Any
"""A NumPy array, or a tensor of a trace or on meta."""


def words(count: int, generator: Generator | None) -> Values:
    """The next words of a stream: i64 from 0 to 2**32 - 1, in a trace i32 of the same bits."""
    source = generator or default_generator
    if not is_recorded(source):
        return source.words(count)
    state = source.twister
    drawn = after(state, count)
    state._assign(drawn[: twister.STATE])
    return drawn[twister.STATE :]


def is_recorded(source: Generator) -> bool:
    """Whether draws are nodes of a trace, or types alone."""
    return STATE.mode is not None or source.inside._value is NO_DATA


def after(state: Tensor, count: int) -> Tensor:
    """The state behind so many words, and then these words, in a trace or on meta."""
    return CONTEXT.apply(twister.mersenne_twister, (state,), {"count": count})[0]


def in_dtype(values: Values, dtype: DType) -> Values:
    if values.__class__ is np.ndarray:
        return values if values.dtype is dtype.numpy else values.astype(dtype.numpy)
    return casted(values, dtype)


def as_tensor(values: Values, shape: tuple[int, ...], kind: DType) -> Tensor:
    """A tensor of this shape over the values, which are of this dtype."""
    if values.__class__ is np.ndarray:
        type = INTERNED.get((kind, shape)) or TensorType(kind, shape)
        return make(values if values.shape == shape else values.reshape(shape), type)
    return values.reshape(shape)


def fractions(size: int | tuple[int, ...], kind: DType, generator: Generator | None) -> Values:
    """Numbers in [0, 1), so many in a row or of a shape: f32 of 24 bits, f64 of 53."""
    source = generator or default_generator
    if not is_recorded(source):
        name = "long_fractions" if kind is DType.f64 else "fractions"
        return source.fill(name, np.empty(size, kind.numpy))
    count = math.prod(size) if isinstance(size, tuple) else size
    if kind is DType.f64:
        return long_fractions(words(2 * count, source), count)
    return in_dtype(words(count, source) & 0xFFFFFF, kind) * 2.0**-24


def long_fractions(drawn: Tensor, count: int) -> Tensor:
    """Those in f64, of their words in a trace."""
    return in_dtype(_long_words(drawn, count) & (2**53 - 1), DType.f64) * 2.0**-53


def _long_words(drawn: Tensor, count: int) -> Tensor:
    """Words of 64 bits, i64[count], from twice as many in a trace."""
    pairs = in_dtype(drawn, DType.i64).reshape((count, 2))
    return pairs[:, 0] * 2**32 + (pairs[:, 1] & (2**32 - 1))


def scaled(numbers: Values, width: float, first: float) -> Values:
    """`numbers` · width + first, in the dtype of `numbers`, rounded once: so does PyTorch's code
    for processors that have such an instruction."""
    if (width, first) == (1, 0):
        return numbers
    if _is_wide(numbers):
        return _fused(numbers, width, first)
    # In f64 the product of two f32 is exact.
    single = (float(np.float32(number)) for number in (width, first))
    wide, (factor, summand) = in_dtype(numbers, DType.f64), single
    return in_dtype(wide * factor + summand, DType.f32)


def _is_wide(numbers: Values) -> bool:
    if isinstance(numbers, np.ndarray):
        return bool(numbers.dtype == np.float64)
    return numbers.dtype is DType.f64


def _fused(x: Values, factor: float, summand: float) -> Values:
    """x · factor + summand in f64, by what is left of the product and of the sum (T. J. Dekker, "A
    floating-point technique for extending the available precision", 1971)."""
    (high, low), (left, right) = _halves(x), _halves(factor)
    product = x * factor
    rest = ((high * left - product) + high * right + low * left) + low * right
    total = product + summand
    part = total - product
    lost = (product - (total - part)) + (summand - part)
    return total + (lost + rest)


def _halves(x: Any) -> tuple[Any, Any]:
    """Two numbers of 26 digits each whose sum it is."""
    scaled_up = x * (2.0**27 + 1)
    high = scaled_up - (scaled_up - x)
    return high, x - high


def between(numbers: Values, low: float, high: float) -> Values:
    """Fractions spread over [low, high)."""
    if low == 0 and high == 1:
        return numbers
    if _is_wide(numbers):
        return scaled(numbers, high - low, low)
    low, high = float(np.float32(low)), float(np.float32(high))
    return scaled(numbers, float(np.float32(high - low)), low)


def whole(
    shape: tuple[int, ...], low: int, span: int, wide: bool, generator: Generator | None
) -> Values:
    """i64 numbers in [low, low + span): what is left of a word, or with `wide` of one of 64 bits,
    divided by `span`."""
    source = generator or default_generator
    if not is_recorded(source):
        name = "long_remainders" if wide else "remainders"
        return source.fill(name, np.empty(shape, np.int64), span, low)
    count = math.prod(shape)
    if not wide:
        return (in_dtype(words(count, source), DType.i64) & (2**32 - 1)) % span + low
    return _unsigned_rest(_long_words(words(2 * count, source), count), span) + low


def _unsigned_rest(bits: Values, span: int) -> Values:
    """i64 words, read as unsigned ones, modulo 0 < span <= 2**64."""
    if span == 2**64:
        return bits
    if span >= 2**63:  # at most once: the i64 of the bits of span is negative
        signed = span - 2**64
        over = (bits < 0) & (bits >= signed)
        return bits - in_dtype(over, DType.i64) * signed
    half = (bits >> 1) & (2**63 - 1)
    rest = bits - (half // span) * 2 * span
    # Less than twice the span, as an unsigned number.
    over = (rest < 0) | (rest >= span)
    return rest - in_dtype(over, DType.i64) * span


def order(count: int, generator: Generator | None) -> Tensor:
    """A permutation of 0 … count-1, i64."""
    if count < 2:
        return as_tensor(np.arange(count, dtype=np.int64), (count,), DType.i64)
    source = generator or default_generator
    if not is_recorded(source):
        return as_tensor(source.order(count), (count,), DType.i64)
    return CONTEXT.apply(twister.shuffled, (words(count - 1, source),), {})[0]
