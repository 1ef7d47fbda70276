"""Discrete Fourier transforms, by NumPy's pocketfft: `frontend.fft`. They run eagerly only.

All of them are made of three, whose gradients are transforms again: of complex numbers, of real
ones to the half of the spectrum that says all, and back. A transform times its conjugate transpose
is a multiple of the identity, so the gradient of one goes through that of the other direction, with
the same factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.promotion import casted
from frontend.engine.eager.uncompiled import conj, real_part
from frontend.engine.tensors.dtypes import SCALAR_NAMES, complex_of
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.layout import narrow
from frontend.functions.reduce import dimension
from frontend.functions.shape import cat

# -- the three -----------------------------------------------------------------------------------


def _complex(x: Any, *, axes: tuple[int, ...], forward: bool, scale: float) -> Any:
    run = np.fft.fftn if forward else np.fft.ifftn
    return run(x, axes=axes, norm="backward" if forward else "forward") * x.real.dtype.type(scale)


def _complex_rule(g: Any, out: Any, x: Any, *, axes: Any, forward: bool, scale: float) -> Any:
    return (COMPLEX(g, axes=axes, forward=not forward, scale=scale),)


def _halved(x: Any, *, axis: int, scale: float) -> Any:
    return np.fft.rfft(x, axis=axis) * x.dtype.type(scale)


def _halved_rule(g: Any, out: Any, x: Any, *, axis: int, scale: float) -> Any:
    whole = resized(g, axis, x.shape[axis])
    return (real_part(COMPLEX(whole, axes=(axis,), forward=False, scale=scale)),)


def _real(x: Any, *, axis: int, size: int, scale: float) -> Any:
    return np.fft.irfft(x, size, axis=axis, norm="forward") * x.real.dtype.type(scale)


def _real_rule(g: Any, out: Any, x: Any, *, axis: int, size: int, scale: float) -> Any:
    """All but the first frequency, and the last of an even size, stand for two."""
    half = HALVED(g, axis=axis, scale=scale)
    twice = size - half.shape[axis]
    parts = narrow(half, axis, 0, 1), narrow(half, axis, 1, twice) * 2
    rest = narrow(half, axis, 1 + twice, half.shape[axis] - 1 - twice)
    return (cat([*parts, rest], axis),)


COMPLEX = HostOp("fft.c2c", _complex, _complex_rule)
HALVED = HostOp("fft.r2c", _halved, _halved_rule)
REAL = HostOp("fft.c2r", _real, _real_rule)

# -- arguments -----------------------------------------------------------------------------------


def _given(name: str, input: Tensor, out: Any = None, *, real: bool = False) -> Tensor:
    """The operand as floats or complex numbers; of a transform of real numbers, as floats."""
    need_tensors(f"fft_{name}", input=input)
    kind = input.dtype
    if real and kind.is_complex:
        raise RuntimeError(f"{name} expects a real input tensor, but got {SCALAR_NAMES[kind]}")
    if not kind.is_float:
        return casted(input, STATE.default_dtype)
    if kind.is_storage:
        raise RuntimeError(f"Unsupported dtype {SCALAR_NAMES[kind]}")
    return input


def as_complex(x: Tensor) -> Tensor:
    """`x` in the complex dtype of its digits."""
    return casted(x, complex_of(x.dtype))


def resized(x: Tensor, axis: int, size: int) -> Tensor:
    """`x` cut off, or filled up with zeros, to `size` along an axis."""
    have = x.shape[axis]
    if size <= have:
        return x if size == have else narrow(x, axis, 0, size)
    more = [*x.shape]
    more[axis] = size - have
    return cat([x, x.new_zeros(more)], axis)


def _scale(norm: str | None, forward: bool, count: int) -> float:
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if forward is (norm == "forward") else 1.0


def _checked(size: int) -> int:
    if size < 1:
        raise RuntimeError(f"Invalid number of data points ({size}) specified")
    return size


def _axes(name: str, x: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int]]:
    """The axes of a transform, and the size wanted along each (-1: as it is)."""
    sizes = None if s is None else [s] if isinstance(s, int) else list(s)
    if dim is None:
        count = x.dim() if sizes is None else len(sizes)
        if count > x.dim():
            raise RuntimeError(
                f"Got shape with {count} values but input tensor only has {x.dim()} dimensions."
            )
        axes = tuple(range(x.dim() - count, x.dim()))
    else:
        listed = (dim,) if isinstance(dim, int) else tuple(dim)
        axes = tuple(dimension(axis, x.dim()) for axis in listed)
        if len(set(axes)) < len(axes):
            raise RuntimeError("FFT dims must be unique")
    if sizes is None:
        return axes, [-1] * len(axes)
    if len(sizes) != len(axes):
        raise RuntimeError(
            "When given, dim and shape arguments must have the same length, but got "
            f"{len(axes)} and {len(sizes)}"
        )
    return axes, sizes


def _in_shape(x: Tensor, axes: Sequence[int], sizes: Sequence[int]) -> Tensor:
    for axis, size in zip(axes, sizes):
        wanted = x.shape[axis] if size == -1 else size
        x = resized(x, axis, _checked(wanted))
    return x


# -- of several dimensions -----------------------------------------------------------------------


def _count(x: Tensor, axes: Sequence[int]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


def _whole(name: str, input: Tensor, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    x = as_complex(_given(name, input))
    axes, sizes = _axes(name, x, s, dim)
    x = _in_shape(x, axes, sizes)
    if not axes:
        return x.clone()
    scale = _scale(norm, forward, _count(x, axes))
    return COMPLEX(x, axes=axes, forward=forward, scale=scale)


def _to_half(name: str, input: Tensor, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    x = _given(name, input, real=True)
    axes, sizes = _axes(name, x, s, dim)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    x = _in_shape(x, axes, sizes)
    scale = _scale(norm, forward, _count(x, axes))
    half = HALVED(x, axis=axes[-1], scale=scale)
    if len(axes) > 1:
        half = COMPLEX(half, axes=axes[:-1], forward=True, scale=1.0)
    return half if forward else conj(half)


def _to_real(name: str, input: Tensor, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    x = as_complex(_given(name, input))
    axes, sizes = _axes(name, x, s, dim)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = axes[-1]
    size = _checked(2 * (x.shape[last] - 1) if sizes[-1] == -1 else sizes[-1])
    x = _in_shape(x, axes[:-1], sizes[:-1])
    x = resized(x, last, size // 2 + 1)
    scale = _scale(norm, forward, _count(x, axes[:-1]) * size)
    x = conj(x) if forward else x
    if len(axes) > 1:
        x = COMPLEX(x, axes=axes[:-1], forward=False, scale=1.0)
    return REAL(x, axis=last, size=size, scale=scale)


def _transforms(stem: str, run: Any, forward: bool, text: str) -> tuple[Any, Any, Any]:
    """The functions over one dimension, over two, and over any."""

    def one(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
        out: Any = None,
    ) -> Tensor:  # fmt: skip
        size = None if n is None else [_checked(n)]
        return stored(run(stem, input, size, (dim,), norm, forward), out)

    def two(
        input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *,
        out: Any = None,
    ) -> Tensor:  # fmt: skip
        return stored(run(f"{stem}2", input, s, dim, norm, forward), out)

    def many(
        input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None
    ) -> Tensor:
        return stored(run(f"{stem}n", input, s, dim, norm, forward), out)

    one.__doc__ = f"{text}, over `dim`, cut off or filled up with zeros to `n`. {_NORM}"
    two.__doc__ = f"{text}, over two dimensions, cut off or filled up with zeros to `s`. {_NORM}"
    many.__doc__ = f"{text}, over `dim` (None: all, or the last ones of `s`). {_NORM}"
    for name, function in ((stem, one), (f"{stem}2", two), (f"{stem}n", many)):
        function.__name__ = function.__qualname__ = name
    return full_precision(one), full_precision(two), full_precision(many)


_NORM = (
    'The factor 1 / n is where `norm` says, "forward" or "backward" (the default), or its root in '
    'both ("ortho").'
)
fft, fft2, fftn = _transforms("fft", _whole, True, "The spectrum of numbers")
ifft, ifft2, ifftn = _transforms("ifft", _whole, False, "The numbers of a spectrum")
rfft, rfft2, rfftn = _transforms(
    "rfft", _to_half, True, "The spectrum of real numbers, n // 2 + 1 along the last dimension"
)
irfft, irfft2, irfftn = _transforms(
    "irfft", _to_real, False, "The real numbers of what `rfft` gives"
)
hfft, hfft2, hfftn = _transforms(
    "hfft", _to_real, True, "The real spectrum of numbers with conjugate symmetry"
)
ihfft, ihfft2, ihfftn = _transforms(
    "ihfft", _to_half, False, "The numbers, with conjugate symmetry, of a real spectrum"
)
