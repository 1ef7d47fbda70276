"""From the words of a generator to numbers where integers and scaling decide, as PyTorch's CPU code
does it: of NumPy arrays, and of tensors of a trace, with the same bits.

A number of 24 bits takes the low bits of one word. One of 53 bits takes those of two words, of
which the first is the upper half.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.eager.dispatch import CONTEXT
from frontend.eager.promotion import casted
from frontend.tensors.generator import Generator, default_generator
from frontend.tensors.state import STATE
from frontend.tensors.tensor import Tensor, make
from graphc.ir.types import DType, TensorType
from graphc.ops import mersenne_twister as twister

Values = Any
"""A NumPy array, or a tensor of a trace or on meta."""
BLOCK = 1 << 14
"""Words that are taken together, so that they stay in the cache."""


def words(count: int, generator: Generator | None) -> Values:
    """The next words of a stream, i32[count]."""
    source = generator or default_generator
    if not is_recorded(source):
        return source.words(count)
    state = source.twister
    drawn = after(state, count)
    state._assign(drawn[: twister.STATE])
    return drawn[twister.STATE :]


def is_recorded(source: Generator) -> bool:
    """Whether draws are nodes of a trace, or types alone."""
    return STATE.mode is not None or source.inside.is_meta


def after(state: Tensor, count: int) -> Tensor:
    """The state behind so many words, and then these words, in a trace or on meta."""
    return CONTEXT.apply(twister.mersenne_twister, (state,), {"count": count})[0]


def as_dtype(values: Values, dtype: DType) -> Values:
    if isinstance(values, np.ndarray):
        return values.astype(dtype.numpy, copy=False)
    return casted(values, dtype)


def as_tensor(values: Values, shape: tuple[int, ...]) -> Tensor:
    """A tensor of this shape over the values."""
    if isinstance(values, np.ndarray):
        return make(values.reshape(shape), TensorType(DType.of(values.dtype), shape))
    return values.reshape(shape)  # type: ignore[no-any-return]


def long_words(drawn: Values, count: int) -> Values:
    """Words of 64 bits, i64[count], from i32[2 · count]."""
    pairs = as_dtype(drawn, DType.i64).reshape((count, 2))
    return pairs[:, 0] * 2**32 + (pairs[:, 1] & (2**32 - 1))


def fractions(count: int, kind: DType, generator: Generator | None) -> Values:
    """Numbers in [0, 1): f32 of 24 bits, f64 of 53."""
    if kind is DType.f64:
        return long_fractions(words(2 * count, generator), count)
    source = generator or default_generator
    if is_recorded(source) or count <= BLOCK:
        return as_dtype(words(count, source) & 0xFFFFFF, kind) * 2.0**-24
    numbers = np.empty(count, np.float32)
    for start in range(0, count, BLOCK):
        block = numbers[start : start + BLOCK]
        np.multiply(source.words(len(block)) & 0xFFFFFF, np.float32(2.0**-24), out=block,
                    casting="unsafe")  # fmt: skip
    return numbers


def long_fractions(drawn: Values, count: int) -> Values:
    """Those in f64, of their words."""
    return as_dtype(long_words(drawn, count) & (2**53 - 1), DType.f64) * 2.0**-53


def scaled(numbers: Values, mean: float, deviation: float) -> Values:
    """`numbers` · deviation + mean, rounded after each step."""
    if (mean, deviation) == (0, 1):
        return numbers
    rounded = np.float64 if _is_wide(numbers) else np.float32
    return numbers * float(rounded(deviation)) + float(rounded(mean))


def between(numbers: Values, low: float, high: float) -> Values:
    """Fractions spread over [low, high), rounded after each step, as in their dtype."""
    if (low, high) == (0, 1):
        return numbers
    rounded = np.float64 if _is_wide(numbers) else np.float32
    first = rounded(low)
    return numbers * float(rounded(high) - first) + float(first)


def _is_wide(numbers: Values) -> bool:
    return (
        bool(numbers.dtype == np.float64)
        if isinstance(numbers, np.ndarray)
        else (numbers.dtype is DType.f64)
    )


def whole(count: int, low: int, span: int, wide: bool, generator: Generator | None) -> Values:
    """i64 numbers in [low, low + span): what is left of a word, or with `wide` of one of 64 bits,
    divided by `span`."""
    if not wide:
        bits = as_dtype(words(count, generator), DType.i64) & (2**32 - 1)
        return bits % span + low
    rest = _unsigned_rest(long_words(words(2 * count, generator), count), span)
    return rest + low


def _unsigned_rest(bits: Values, span: int) -> Values:
    """i64 words, read as unsigned ones, modulo 0 < span <= 2**64."""
    if span == 2**64:
        return bits
    if span >= 2**63:  # at most once: the i64 of the bits of span is negative
        signed = span - 2**64
        over = (bits < 0) & (bits >= signed)
        return bits - as_dtype(over, DType.i64) * signed
    half = (bits >> 1) & (2**63 - 1)
    rest = bits - (half // span) * 2 * span
    # Less than twice the span, as an unsigned number.
    over = (rest < 0) | (rest >= span)
    return rest - as_dtype(over, DType.i64) * span


def order(count: int, generator: Generator | None) -> Tensor:
    """A permutation of 0 … count-1, i64."""
    if count < 2:
        return as_tensor(np.arange(count, dtype=np.int64), (count,))
    drawn = words(count - 1, generator)
    if isinstance(drawn, np.ndarray):
        if count < LEAST_NATIVE:
            return as_tensor(twister.shuffled.numpy(drawn, count=count), (count,))
        drawn = as_tensor(drawn, (count - 1,))
    return CONTEXT.apply(twister.shuffled, (drawn,), {"count": count})[0]


LEAST_NATIVE = 1 << 10
"""Below so many elements a permutation is not worth native code."""
