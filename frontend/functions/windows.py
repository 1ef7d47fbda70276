"""Windows for spectra: weights that fall off to both ends. Symmetric, or `periodic`, which is the
symmetric window one longer without its last element. Computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import as_dtype
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.functions.creation_options import check_options, finished
from frontend.functions.declarations import public
from graphc.ops.conversion import convert

Weights = Callable[[np.ndarray[Any, Any], int], np.ndarray[Any, Any]]


def window(
    name: str, size: int, symmetric: bool, weights: Weights, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`weights(positions, count)` at 0, 1, … of `count` elements, of which `size` are kept."""
    check_options(device, layout, pin_memory)
    kind = STATE.default_dtype if dtype is None else as_dtype(dtype)
    if not kind.is_float:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind}")
    if size < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={size}")
    count = size if symmetric else size + 1
    if size > 1:
        values = weights(np.arange(count, dtype=np.float64), count)[:size]
    else:
        values = np.ones(size)
    return finished(from_data(np.asarray(convert(values, kind)), copy=False), requires_grad, device)


def cosines(*coefficients: float) -> Weights:
    """Σ (-1)ᵏ aₖ cos(2πkn / (count - 1))."""

    def weights(n: Any, count: int) -> Any:
        angle = 2 * math.pi * n / max(count - 1, 1)
        terms = [(-1) ** k * a * np.cos(k * angle) for k, a in enumerate(coefficients)]
        return np.sum(terms, axis=0)

    return weights


def triangle(n: Any, count: int) -> Any:
    return 1 - np.abs(2 * n / max(count - 1, 1) - 1)


def kaiser(beta: float) -> Weights:
    def weights(n: Any, count: int) -> Any:
        inside = 1 - (2 * n / max(count - 1, 1) - 1) ** 2
        return np.i0(beta * np.sqrt(np.maximum(inside, 0))) / np.i0(beta)

    return weights


@public()
def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """(1 - cos(2πn / N)) / 2."""
    return window("hann_window", window_length, not periodic, cosines(0.5, 0.5), **options)


@public()
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
    **options: Any,
) -> Tensor:  # fmt: skip
    """alpha - beta·cos(2πn / N)."""
    return window("hamming_window", window_length, not periodic, cosines(alpha, beta), **options)


@public()
def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """0.42 - 0.5·cos(2πn / N) + 0.08·cos(4πn / N)."""
    weights = cosines(0.42, 0.5, 0.08)
    return window("blackman_window", window_length, not periodic, weights, **options)


@public()
def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """A triangle from 0 to 1 to 0."""
    return window("bartlett_window", window_length, not periodic, triangle, **options)


@public()
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any
) -> Tensor:
    """I₀(beta·√(1 - (2n/N - 1)²)) / I₀(beta)."""
    return window("kaiser_window", window_length, not periodic, kaiser(beta), **options)
