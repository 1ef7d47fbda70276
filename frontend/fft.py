"""`frontend.fft`: Fourier transforms (see `frontend.functions.fourier`), their frequencies and
shifts. The transforms run eagerly only."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.creation_options import check_options, finished, kind_of
from frontend.functions.fourier import (
    fft,
    fft2,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from frontend.functions.rearrange import roll
from frontend.functions.reduce import dimension
from graphc.ops.conversion import convert

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
    "rfftfreq", "rfftn",
]  # fmt: skip


def _frequencies(
    places: Any, n: int, d: float, dtype: Any, out: Any, options: dict[str, Any]
) -> Tensor:
    requires_grad = options.pop("requires_grad", False)
    check_options(**{"device": None, "layout": None} | options)
    place = options.get("device")
    kind = kind_of(dtype, out, STATE.default_dtype)
    values = convert(places.astype(np.float64) * (1.0 / (n * d)), kind)
    result = from_data(np.asarray(values), copy=False)
    return stored(finished(result, requires_grad, place), out)


def fftfreq(
    n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, **options: Any
) -> Tensor:
    """The frequencies of a transform of n samples at distance d: 0, 1, …, then the negative ones,
    over n·d."""
    places = np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])
    return _frequencies(places, n, d, dtype, out, options)


def rfftfreq(
    n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, **options: Any
) -> Tensor:
    """Those of the transform of n real samples: 0, 1, …, n/2 over n·d."""
    return _frequencies(np.arange(n // 2 + 1), n, d, dtype, out, options)


def _shifted(name: str, input: Tensor, dim: Any, forwards: bool) -> Tensor:
    need_tensors(name, input=input)
    listed = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [dimension(axis, input.dim()) for axis in listed]
    sizes = [input.shape[axis] for axis in axes]
    if not axes:
        return input.clone()
    return roll(input, [n // 2 if forwards else (n + 1) // 2 for n in sizes], axes)


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Frequency 0 moved from the first element to the middle, along `dim` (all by default)."""
    return _shifted("fftshift", input, dim, forwards=True)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Undoes `fftshift`."""
    return _shifted("ifftshift", input, dim, forwards=False)
