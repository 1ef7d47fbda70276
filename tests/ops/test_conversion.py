"""Casts between all dtypes: each rounds once, against exact arithmetic, NumPy and ml_dtypes."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from graphc.ir.types import COMPILED, DType
from graphc.ops.conversion import convert

HALVES = [DType.f16, DType.bf16]
STORED = [DType.u8, DType.i8, DType.i16]


def patterns(dtype: DType) -> np.ndarray:
    """Every value of a 16-bit type."""
    return np.arange(65536, dtype=np.uint16).view(dtype.numpy)


@functools.cache
def numbers(dtype: DType) -> list[float]:
    """The finite values from 0 up, in order; then the power of two where infinity starts."""
    count = int(np.asarray(np.inf, dtype.numpy).view(np.uint16))
    result = np.arange(count, dtype=np.uint16).view(dtype.numpy).astype(np.float64).tolist()
    return [*result, 2.0 ** math.ceil(math.log2(result[-1]))]


def nearest(x: Fraction | int, dtype: DType) -> float:
    """The number of `dtype` nearest to `x`, of two the one whose last bit is 0."""
    values = numbers(dtype)
    size = abs(Fraction(x))
    low, high = 0, len(values) - 1
    if size >= Fraction(values[high]):
        low = high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(values[middle]) <= size else (low, middle)
    below, above = (size - Fraction(values[low])), (Fraction(values[high]) - size)
    at = low if below < above or (below == above and low % 2 == 0) else high
    value = math.inf if at == len(values) - 1 else values[at]
    return -value if x < 0 else value


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_exact_in_wider_floats(dtype: DType) -> None:
    stored = patterns(dtype)
    for wide in (DType.f32, DType.f64):
        with np.errstate(invalid="ignore"):
            back = convert(convert(stored, wide), dtype)
            nan = np.isnan(stored)
            assert np.isnan(back[nan]).all()
        assert (back.view(np.uint16) == stored.view(np.uint16))[~nan].all()


@pytest.mark.parametrize("dtype", HALVES)
def test_f32_rounds_as_numpy_does(dtype: DType) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 50000, dtype=np.uint32)
    x = bits.view(np.float32)
    with np.errstate(all="ignore"):
        got, want = convert(x, dtype), x.astype(dtype.numpy)
        assert (np.isnan(got) == np.isnan(want)).all()
        numbers = ~np.isnan(want)
    assert (got.view(np.uint16) == want.view(np.uint16))[numbers].all()


@pytest.mark.parametrize("dtype", HALVES)
def test_f64_rounds_once(dtype: DType) -> None:
    """Halfway cases, the f64 next to them on both sides, and what f32 would round to them."""
    values = numbers(dtype)
    last = len(values) - 2
    picked = [0, 1, 2, 5, 1022, 1023, 1024, 1025, last // 2, last - 1, last]
    for at in picked:
        middle = (values[at] + values[at + 1]) / 2
        for x in (
            middle, math.nextafter(middle, math.inf), math.nextafter(middle, 0.0),
            middle * (1 + 2.0**-40), middle * (1 - 2.0**-40), -middle * (1 + 2.0**-40),
        ):  # fmt: skip
            with np.errstate(over="ignore"):
                got = float(convert(np.asarray(x), dtype))
            assert got == nearest(Fraction(x), dtype), (at, x)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("source", [DType.i32, DType.i64])
def test_integers_round_once(source: DType, dtype: DType) -> None:
    bits = 8 * source.itemsize - 1
    cases = {0, 1, 65519, 65520, 65521, (1 << bits) - 1}
    for top in range(9, bits):
        for low in {0, top // 2, top - 9, max(top - 10, 0)}:
            for halfway in ((1 << top) + (1 << top - 8), (1 << top) + 3 * (1 << top - 8)):
                cases |= {halfway, halfway + (1 << low), halfway - (1 << low)}
    for number in sorted(cases):
        if number >= 1 << bits:
            continue
        for x in (number, -number):
            with np.errstate(over="ignore"):
                got = float(convert(np.asarray(x, source.numpy), dtype))
            assert got == nearest(x, dtype), x


@pytest.mark.parametrize("dtype", STORED)
def test_integers_wrap(dtype: DType) -> None:
    x = np.array([0, 1, -1, 127, 128, 255, 256, -129, 32767, 32768, 2**31, -(2**40) - 3])
    want = x.astype(dtype.numpy)
    assert (convert(x, dtype) == want).all()
    assert (convert(x.astype(np.int32), dtype) == x.astype(np.int32).astype(dtype.numpy)).all()


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("source", [DType.f16, DType.bf16, DType.f32, DType.f64])
def test_floats_become_small_integers_by_way_of_i32(source: DType, dtype: DType) -> None:
    x = np.array([0.9, -0.9, 3.5, -3.5, 300.0, -300.0, 40000.0], source.numpy)
    whole = np.trunc(x.astype(np.float64)).astype(np.int32)
    assert (convert(x, dtype) == whole.astype(dtype.numpy)).all()
    beyond = np.array([np.inf, -np.inf, np.nan], source.numpy)
    limits = np.array([2**31 - 1, -(2**31), 0], np.int32)
    assert (convert(beyond, dtype) == limits.astype(dtype.numpy)).all()


@pytest.mark.parametrize("dtype", list(COMPILED))
def test_bool_is_what_is_not_zero(dtype: DType) -> None:
    x = np.array([0, 1, 2]).astype(dtype.numpy)
    assert convert(x, DType.bool).tolist() == [False, True, True]
    if dtype.is_float:
        special = np.array([-0.0, np.nan, np.inf], dtype.numpy)
        assert convert(special, DType.bool).tolist() == [False, True, True]
    assert convert(np.array([False, True]), dtype).tolist() == [0, 1]
