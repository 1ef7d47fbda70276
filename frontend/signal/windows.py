"""`torch.signal.windows`: M weights each, symmetric unless `sym=False`, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import as_dtype, strided
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.windows import cosines, triangle
from frontend.functions.windows import kaiser as _kaiser
from frontend.functions.windows import window as _window
from graphc.ir.types import DType

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def _made(name: str, M: int, sym: bool, weights: Any, options: dict[str, Any]) -> Tensor:
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if options.get("layout") not in (None, strided):
        layout = options["layout"]
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    kind = STATE.default_dtype if options.get("dtype") is None else as_dtype(options["dtype"])
    if kind not in (DType.f32, DType.f64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    return _window(f"signal.{name}", M, sym, weights, **options)


def _positive(name: str, what: str, value: float) -> None:
    if value <= 0:
        raise ValueError(f"{what.capitalize()} must be positive, got: {value} instead.")


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A triangle from 0 to 1 to 0."""
    return _made("bartlett", M, sym, triangle, options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Three cosines: 0.42, 0.5, 0.08."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """sin(π(n + 1/2) / M)."""

    def weights(n: Any, count: int) -> Any:
        return np.sin(math.pi * (n + 0.5) / count)

    return _made("cosine", M, sym, weights, options)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Tensor:
    """exp(-|n - center| / tau), the centre in the middle by default."""
    _positive("exponential", "tau", tau)
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def weights(n: Any, count: int) -> Any:
        middle = (count - 1) / 2 if center is None else center
        return np.exp(-np.abs(n - middle) / tau)

    return _made("exponential", M, sym, weights, options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """exp(-(n - middle)² / (2·std²))."""
    _positive("gaussian", "standard deviation", std)

    def weights(n: Any, count: int) -> Any:
        return np.exp(-(((n - (count - 1) / 2) / std) ** 2) / 2)

    return _made("gaussian", M, sym, weights, options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """Σ (-1)ᵏ aₖ cos(2πkn / (M - 1))."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    coefficients = tuple(a)
    if not coefficients:
        raise ValueError("Coefficients cannot be empty")
    return _made("general_cosine", M, sym, cosines(*coefficients), options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """alpha - (1 - alpha)·cos(2πn / (M - 1))."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_hamming` with 0.54."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_hamming` with 0.5."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """I₀(beta·√(1 - (2n/(M-1) - 1)²)) / I₀(beta)."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _made("kaiser", M, sym, _kaiser(beta), options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Four cosines with the least sidelobes of a continuous first derivative (Nuttall, 1981)."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)
