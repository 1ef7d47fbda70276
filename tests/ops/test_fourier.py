"""Discrete Fourier transforms: NumPy's in f64, the error of each length's way, tables, errors."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import DType, DTypeError, ShapeError
from graphc.errors import AttributeValueError
from graphc.ops.fourier import LARGEST, LARGEST_PRIME, factors, fft, irfft, rfft, turns

ONE_PRODUCT, SEVERAL, CHIRP = (1, 2, 30, 61), (66, 96, 1000), (67, 134)


def run(op: Any, array: np.ndarray, **attributes: Any) -> np.ndarray:
    """The result by the reference and natively, which must agree within rounding."""
    g = graphc.GraphBuilder("transform")
    graph = g.finish(op(g.input("x", graphc.TensorType.of(array)), **attributes))
    (native,) = graphc.compile(graph)(array)
    (expected,) = graphc.run(graph, array)
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(native, expected, rtol=0, atol=1e-5 * scale)
    return native


def error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Of the Euclidean norm, in units of eps."""
    found = actual if np.isrealobj(expected) else actual[..., 0] + 1j * actual[..., 1].astype("f8")
    eps = np.finfo(actual.dtype).eps
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected) / eps)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [DType.f32, DType.f64])
@pytest.mark.parametrize("size", [*ONE_PRODUCT, *SEVERAL, *CHIRP])
def test_the_error_grows_as_the_logarithm(size: int, dtype: DType) -> None:
    random = np.random.default_rng(size)
    z = random.standard_normal((3, size, 2)).astype(dtype.numpy)
    x = np.ascontiguousarray(z[..., 0])
    h = np.ascontiguousarray(z[:, : size // 2 + 1])
    wide, half = (a[..., 0] + 1j * a[..., 1].astype(np.float64) for a in (z, h))
    bound = 2 + math.log2(size)
    assert error(run(fft, z, axis=1), np.fft.fft(wide)) < bound
    backwards = run(fft, z, axis=1, forward=False, scale=1 / size)
    assert error(backwards, np.fft.ifft(wide)) < bound
    assert error(run(rfft, x, axis=1), np.fft.rfft(x.astype(np.float64))) < bound
    assert error(run(irfft, h, axis=1, size=size, scale=1 / size), np.fft.irfft(half, size)) < bound


def test_along_any_axis() -> None:
    z = np.random.default_rng(0).standard_normal((4, 3, 5, 2))
    numbers = z[..., 0] + 1j * z[..., 1]
    for axis in range(3):
        actual = run(fft, z, axis=axis)
        np.testing.assert_allclose(
            actual[..., 0] + 1j * actual[..., 1], np.fft.fft(numbers, axis=axis), atol=1e-13
        )
        back = run(irfft, run(rfft, z[..., 0].copy(), axis=axis), axis=axis, size=z.shape[axis])
        np.testing.assert_allclose(back / z.shape[axis], z[..., 0], atol=1e-13)


def test_turns_are_exact_at_eighths_and_near_elsewhere() -> None:
    half = math.sqrt(0.5)
    cos, sin = turns(np.arange(-4, 12), 8)
    np.testing.assert_allclose(cos[4:12], [1, half, 0, -half, -1, -half, 0, half], atol=2e-16)
    assert not np.any(cos[[6, 10]]) and not np.any(sin[[4, 8]]) and cos[8] == -1 and sin[6] == 1
    np.testing.assert_array_equal(cos[:8], cos[8:])
    wide = 2 * math.pi * np.arange(997) / 997
    cos, sin = turns(np.arange(997), 997)
    np.testing.assert_allclose(cos, np.cos(wide), atol=2e-15)
    np.testing.assert_allclose(sin, np.sin(wide), atol=2e-15)


def test_factors_are_few_and_small() -> None:
    for count in range(1, 3000):
        parts = factors(count)
        if parts is None:
            greatest = max(p for p in range(2, count + 1) if count % p == 0 and _is_prime(p))
            assert greatest > LARGEST_PRIME
            continue
        assert math.prod(parts) == count
        assert all(part <= LARGEST or _is_prime(part) for part in parts)
        assert all(part <= LARGEST_PRIME for part in parts)


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def test_what_does_not_fit() -> None:
    g = graphc.GraphBuilder("errors")
    x, pairs, whole = g.input("x", "f32[3,4]"), g.input("y", "f32[3,4,2]"), g.input("z", "i32[4,2]")
    with pytest.raises(ShapeError, match="last axis holds two parts"):
        fft(x, axis=0)
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        fft(pairs, axis=2)
    with pytest.raises(ShapeError, match=r"has not 8 // 2 \+ 1 numbers"):
        irfft(pairs, axis=1, size=8)
    with pytest.raises(ShapeError, match="no numbers along axis 0"):
        rfft(g.input("w", "f32[0,4]"), axis=0)
    for scale in (np.inf, -1e39):
        with pytest.raises(AttributeValueError, match=re.escape(f"scale {scale} is no number")):
            fft(pairs, axis=0, scale=scale)
    with pytest.raises(DTypeError, match="takes f32 or f64"):
        fft(whole, axis=0)
