"""Discrete Fourier transforms by the ops of graphc.ops.fourier, eager and compiled: `frontend.fft`.

All of them are made of three along one axis, whose gradients are transforms again: of complex
numbers, of real ones to the half of the spectrum that says all, and back. A transform times its
conjugate transpose is a multiple of the identity, so the gradient of one goes through that of the
other direction, with the same factor.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import casted
from frontend.engine.eager.reinterpreting import VIEW_AS_COMPLEX, VIEW_AS_REAL
from frontend.engine.eager.uncompiled import NONE, Uncompiled, complex_type, conj, real_type
from frontend.engine.tensors.dtypes import SCALAR_NAMES, complex_of
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.layout import narrow
from frontend.functions.reduce import dimension
from frontend.functions.shape import cat
from graphc.ir.types import TensorType
from graphc.ops import fourier

# -- the three -----------------------------------------------------------------------------------


def along(x: Tensor, axis: int, forward: bool, scale: float) -> Tensor:
    """Complex numbers transformed along an axis, times `scale`."""
    return CONTEXT.apply(_C2C, (x,), {"axis": axis, "forward": forward, "scale": scale})[0]


def halved(x: Tensor, axis: int, scale: float) -> Tensor:
    """The first half of the spectrum of real numbers, times `scale`."""
    return CONTEXT.apply(_R2C, (x,), {"axis": axis, "scale": scale})[0]


def real_of_half(x: Tensor, axis: int, size: int, scale: float) -> Tensor:
    """The `size` real numbers of half a spectrum, backwards, times `scale`."""
    return CONTEXT.apply(_C2R, (x,), {"axis": axis, "size": size, "scale": scale})[0]


def _c2c_rule(g: Any, out: Any, x: Any, *, axis: int, forward: bool, scale: float) -> Any:
    return (along(g, axis, not forward, scale),)


def _r2c_rule(g: Any, out: Any, x: Any, *, axis: int, scale: float) -> Any:
    size = x.shape[axis]
    return (real_of_half(_weighed(g, axis, size, 0.5), axis, size, scale),)


def _c2r_rule(g: Any, out: Any, x: Any, *, axis: int, size: int, scale: float) -> Any:
    return (_weighed(halved(g, axis, scale), axis, size, 2.0),)


def _weighed(x: Tensor, axis: int, size: int, weight: float) -> Tensor:
    """Half a spectrum times `weight`, but for what stands for itself alone in the whole: the first
    frequency, and the last of an even size."""
    (pairs,) = CONTEXT.apply(VIEW_AS_REAL, (x,), {})
    weights = fourier.weights_of_half(size, weight).astype(pairs.dtype.numpy)
    shape = tuple(len(weights) if a == axis else 1 for a in range(pairs.dim()))
    weighed = pairs * CONTEXT.constant(weights.reshape(shape))
    return CONTEXT.apply(VIEW_AS_COMPLEX, (weighed,), {})[0]


def _half_type(type: TensorType, *, axis: int, scale: float) -> TensorType:
    return complex_type(_with_size(type, axis, type.shape[axis] // 2 + 1))


def _whole_type(type: TensorType, *, axis: int, size: int, scale: float) -> TensorType:
    return real_type(_with_size(type, axis, size))


def _with_size(type: TensorType, axis: int, size: Any) -> TensorType:
    return type.with_shape((*type.shape[:axis], size, *type.shape[axis + 1 :]))


_C2C = Uncompiled("fft_c2c", None, _c2c_rule, NONE, lambda type, **_: type, on_pairs=fourier.fft)
_R2C = Uncompiled("fft_r2c", None, _r2c_rule, NONE, _half_type, on_pairs=fourier.rfft)
_C2R = Uncompiled("fft_c2r", None, _c2r_rule, NONE, _whole_type, on_pairs=fourier.irfft)

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


def _checked(size: Any) -> int:
    """A length, which has to be a number: of one that is left open this makes one."""
    length = operator.index(size)
    if length < 1:
        raise RuntimeError(f"Invalid number of data points ({length}) specified")
    return length


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
    return _along_all(x, axes, forward, _scale(norm, forward, _count(x, axes)))


def _along_all(x: Tensor, axes: Sequence[int], forward: bool, scale: float) -> Tensor:
    """The last axis first, with the factor in it."""
    for axis in reversed(axes):
        x, scale = along(x, axis, forward, scale), 1.0
    return x


def _to_half(name: str, input: Tensor, s: Any, dim: Any, norm: Any, forward: bool) -> Tensor:
    x = _given(name, input, real=True)
    axes, sizes = _axes(name, x, s, dim)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    x = _in_shape(x, axes, sizes)
    scale = _scale(norm, forward, _count(x, axes))
    half = _along_all(halved(x, axes[-1], scale), axes[:-1], True, 1.0)
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
    x = _along_all(x, axes[:-1], False, 1.0)
    return real_of_half(x, last, size, scale)


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
