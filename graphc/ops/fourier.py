"""Discrete Fourier transforms along one axis, as products by small matrices of constants.

Complex numbers are pairs of reals along a last axis of 2. A length n = n1 · n2 is transformed as
n2 transforms of length n1, a turn of each number by its angle, and n1 transforms of length n2 (J.
Cooley and J. Tukey, "An algorithm for the machine calculation of complex Fourier series", 1965). A
factor is at most 32, or a prime below 64, and its transforms are one matrix product of real and
imaginary parts side by side. Lengths with a greater prime factor are a convolution with a chirp, by
transforms of a power of 2 (L. Bluestein, "A linear filtering approach to the computation of
discrete Fourier transform", 1970).

The order of arithmetic is that of the products, and the tables are computed by additions and
multiplications alone: the bits are the same wherever they run. Relative error, of the Euclidean
norm: of the order of eps · log2(n).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.dims import fixed
from graphc.ir.handle import broadcast_to, lift
from graphc.ops.contract import matmul
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import FLOATS, SampleDrawer
from graphc.ops.movement import concat, pad, reshape, slice_, transpose
from graphc.ops.order import flip

LARGEST = 32
"""The largest factor that is put together of others."""
LARGEST_PRIME = 64

# -- tables --------------------------------------------------------------------------------------


def turns(numerators: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2π · numerators / count, in f64, within 2 units in the last place of 1.

    Angles are brought into the first eighth of a turn in whole numbers; there the series of Taylor
    are summed, by additions and multiplications, which have the same bits on every machine."""
    eighth, rest = np.divmod(8 * (numerators % count), count)
    odd = eighth % 2 == 1
    angle = np.where(odd, count - rest, rest) / count * (math.pi / 4)
    square = angle * angle
    cos, sin = np.zeros_like(angle), np.zeros_like(angle)
    for k in range(9, -1, -1):
        cos = cos * square + (-1) ** k / math.factorial(2 * k)
        sin = sin * square + (-1) ** k / math.factorial(2 * k + 1)
    sin = sin * angle
    cos, sin = np.where(odd, sin, cos), np.where(odd, cos, sin)
    quarter = eighth // 2
    # In an odd eighth the angle is measured back from its end, a quarter of a turn on.
    return (
        np.choose(quarter, [cos, -sin, -cos, sin]),
        np.choose(quarter, [sin, cos, -sin, -cos]),
    )


def factors(count: int) -> list[int] | None:
    """Numbers whose product is `count`, each at most `LARGEST` or a prime below `LARGEST_PRIME`:
    as few as there can be, and near each other. None where a prime factor is greater."""
    primes, rest, divisor = [], count, 2
    while rest > 1:
        if divisor * divisor > rest:
            divisor = rest
        while rest % divisor == 0:
            primes.append(divisor)
            rest //= divisor
        divisor += 1
    if primes and primes[-1] > LARGEST_PRIME:
        return None
    stages = 1
    while True:
        parts = [1] * stages
        for prime in reversed(primes):
            least = parts.index(min(parts))
            parts[least] *= prime
        if all(part <= LARGEST or part in primes for part in parts):
            return sorted(parts, reverse=True)
        stages += 1


def _matrix(size: int, sign: int, parts: tuple[int, int], outputs: int) -> np.ndarray:
    """[part, i, part', o]: what number i adds to number o < outputs of a transform of `size`.
    `parts`: how many of each there are, 1 where imaginary ones are 0, or not asked for."""
    cos, sin = turns(np.outer(np.arange(size), np.arange(outputs)), size)
    whole = np.empty((2, size, 2, outputs))
    whole[0, :, 0], whole[0, :, 1] = cos, sign * sin
    whole[1, :, 0], whole[1, :, 1] = -sign * sin, cos
    return whole[: parts[0], :, : parts[1]]


def _spectrum(re: np.ndarray, im: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The transform of a power of 2 numbers, in f64, by halves: of even and of odd positions."""
    size = len(re)
    if size == 1:
        return re, im
    (a, b), (c, d) = (_spectrum(re[k::2], im[k::2]) for k in (0, 1))
    cos, sin = turns(np.arange(size // 2), size)
    p, q = c * cos + d * sin, d * cos - c * sin
    return np.concatenate([a + p, a - p]), np.concatenate([b + q, b - q])


# -- transforms of [batch, parts, n] as [batch, outputs, parts] -----------------------------------


def _constant(like: Any, array: np.ndarray) -> Any:
    return like.context.constant(np.ascontiguousarray(array, like.dtype.numpy))


def _places(x: Any, axis: int, start: int, count: int) -> Any:
    """`count` elements along an axis from `start` on."""
    if x.shape[axis] == count:
        return x
    rank = len(x.shape)
    size = tuple(count if a == axis else dim for a, dim in enumerate(x.shape))
    at = tuple(start if a == axis else 0 for a in range(rank))
    return slice_(x, start=at, size=size, step=(1,) * rank)


def _part(z: Any, part: int, axis: int) -> Any:
    """One part of [..., parts, ...], without the axis."""
    shape = (*z.shape[:axis], *z.shape[axis + 1 :])
    return reshape(_places(z, axis, part, 1), shape=shape)


def _paired(re: Any, im: Any, axis: int) -> Any:
    shape = (*re.shape[:axis], 1, *re.shape[axis:])
    return concat(reshape(re, shape=shape), reshape(im, shape=shape), axis=axis)


def _turned(re: Any, im: Any, tables: tuple[np.ndarray, np.ndarray]) -> tuple[Any, Any]:
    """Complex numbers times constants, whose shape is that of the last axes."""
    cos, sin = (broadcast_to(_constant(re, table), re.shape) for table in tables)
    return re * cos - im * sin, re * sin + im * cos


def _by_products(
    z: Any, stages: list[int], sign: int, into: int, outputs: int, scale: float
) -> Any:
    batch, parts, size = z.shape
    first, *others = stages
    if not others:
        matrix = _matrix(size, sign, (parts, into), outputs) * scale
        columns = matrix.transpose(0, 1, 3, 2).reshape(parts * size, outputs * into)
        product = matmul(reshape(z, shape=(batch, parts * size)), _constant(z, columns))
        return reshape(product, shape=(batch, outputs, into))
    second = size // first
    rows = transpose(reshape(z, shape=(batch, parts, first, second)), permutation=(0, 3, 1, 2))
    matrix = _matrix(first, sign, (parts, 2), first).reshape(parts * first, 2 * first)
    product = matmul(reshape(rows, shape=(batch * second, parts * first)), _constant(z, matrix))
    planes = reshape(product, shape=(batch, second, 2, first))
    cos, sin = turns(np.outer(np.arange(second), np.arange(first)), size)
    re, im = _turned(_part(planes, 0, 2), _part(planes, 1, 2), (cos, sign * sin))
    inner = transpose(_paired(re, im, 1), permutation=(0, 3, 1, 2))
    needed = -(-outputs // first)
    transformed = _by_products(
        reshape(inner, shape=(batch * first, 2, second)), others, sign, into, needed, scale
    )
    placed = transpose(
        reshape(transformed, shape=(batch, first, needed, into)), permutation=(0, 2, 1, 3)
    )
    return _places(reshape(placed, shape=(batch, needed * first, into)), 1, 0, outputs)


def _by_chirp(z: Any, sign: int, into: int, outputs: int, scale: float) -> Any:
    """With 2·i·o = i² + o² - (o - i)², a transform turns number i by i², convolves with the chirp
    of (o - i)², and turns number o by o²."""
    batch, parts, size = z.shape
    length = 1 << (size + outputs - 2).bit_length()
    cos, sin = turns(np.arange(max(size, outputs)) ** 2 % (2 * size), 2 * size)
    chirp = cos, sign * sin
    re = _part(z, 0, 1)
    im = _part(z, 1, 1) if parts == 2 else re * 0
    turned = _paired(*_turned(re, im, (chirp[0][:size], chirp[1][:size])), 1)
    filled = pad(
        turned, lift(0, z), low=(0,) * 3, high=(0, 0, length - size),
        interior=(0,) * 3,
    )  # fmt: skip
    stages = factors(length)
    assert stages is not None
    spectra = transpose(_by_products(filled, stages, -1, 2, length, 1.0), permutation=(0, 2, 1))
    kernel = np.zeros((2, length))
    kernel[0, :outputs], kernel[1, :outputs] = chirp[0][:outputs], -chirp[1][:outputs]
    behind = np.arange(1, size)
    kernel[0, -behind], kernel[1, -behind] = chirp[0][behind], -chirp[1][behind]
    product = _paired(*_turned(_part(spectra, 0, 1), _part(spectra, 1, 1), _spectrum(*kernel)), 1)
    whole = _by_products(product, stages, 1, 2, outputs, scale / length)
    re, im = _turned(
        _part(whole, 0, 2), _part(whole, 1, 2), (chirp[0][:outputs], chirp[1][:outputs])
    )
    return _paired(re, im, 2) if into == 2 else reshape(re, shape=(batch, outputs, 1))


def _transformed(
    x: Any, axis: int, is_complex: bool, sign: int, into: int, outputs: int, scale: float
) -> Any:
    """Along an axis of [...], or of [..., 2]: [..., 2], or, of one part, [...]."""
    rank = len(x.shape) - is_complex
    lead = tuple(a for a in range(rank) if a != axis)
    shape = tuple(x.shape[a] for a in lead)
    size = fixed(x.shape[axis])
    batch = math.prod(shape)
    order = (*lead, rank, axis) if is_complex else (*lead, axis)
    z = reshape(transpose(x, permutation=order), shape=(batch, 1 + is_complex, size))
    stages = factors(size)
    if stages is None:
        transformed = _by_chirp(z, sign, into, outputs, scale)
    else:
        transformed = _by_products(z, stages, sign, into, outputs, scale)
    back = (*range(axis), rank - 1, *range(axis, rank - 1))
    if into == 1:
        return transpose(reshape(transformed, shape=(*shape, outputs)), permutation=back)
    return transpose(reshape(transformed, shape=(*shape, outputs, 2)), permutation=(*back, rank))


# -- the three -----------------------------------------------------------------------------------


def _check(op: str, x: Any, axis: int, is_complex: bool, scale: float) -> None:
    if x.dtype not in FLOATS:
        raise DTypeError(f"{op} takes f32 or f64, got {x.tensor_type}", hint="cast it")
    rank = len(x.shape) - is_complex
    if not 0 <= axis < rank:
        raise ShapeError(f"{op}: axis {axis} is out of range for {x.tensor_type}")
    if is_complex and x.shape[-1] != 2:
        raise ShapeError(f"{op} of {x.tensor_type}: the last axis holds two parts")
    if fixed(x.shape[axis]) < 1:
        raise ShapeError(f"{op} of {x.tensor_type}: no numbers along axis {axis}")
    if not abs(scale) <= float(np.finfo(x.dtype.numpy).max):
        raise AttributeValueError(f"{op} of {x.tensor_type}: scale {scale} is no number of its")


def _fft(x: Any, *, axis: int, forward: bool = True, scale: float = 1.0) -> Any:
    _check("fft", x, axis, True, scale)
    return _transformed(x, axis, True, -1 if forward else 1, 2, x.shape[axis], scale)


def _fft_vjp(g: Any, out: Any, x: Any, *, axis: int, forward: bool, scale: float) -> tuple[Any]:
    return (fft(g, axis=axis, forward=not forward, scale=scale),)


def _rfft(x: Any, *, axis: int, scale: float = 1.0) -> Any:
    _check("rfft", x, axis, False, scale)
    return _transformed(x, axis, False, -1, 2, x.shape[axis] // 2 + 1, scale)


def _rfft_vjp(g: Any, out: Any, x: Any, *, axis: int, scale: float) -> tuple[Any]:
    size = x.shape[axis]
    return (irfft(_weighed(g, axis, size, 0.5), axis=axis, size=size, scale=scale),)


def _irfft(x: Any, *, axis: int, size: int, scale: float = 1.0) -> Any:
    _check("irfft", x, axis, True, scale)
    if size < 1 or x.shape[axis] != size // 2 + 1:
        raise ShapeError(f"irfft of {x.tensor_type}: axis {axis} has not {size} // 2 + 1 numbers")
    count = (size - 1) // 2
    if count:  # the rest are conjugates, in reverse
        rest = flip(_places(x, axis, 1, count), axis)
        signs = broadcast_to(_constant(x, np.array([1.0, -1.0])), rest.shape)
        x = concat(x, rest * signs, axis=axis)
    return _transformed(x, axis, True, 1, 1, size, scale)


def _irfft_vjp(g: Any, out: Any, x: Any, *, axis: int, size: int, scale: float) -> tuple[Any]:
    return (_weighed(rfft(g, axis=axis, scale=scale), axis, size, 2.0),)


def weights_of_half(size: int, weight: float) -> np.ndarray:
    """`weight` for each number of half a spectrum but what stands for itself alone in the whole, of
    `size`: the first, and the last where the size is even."""
    weights = np.full(size // 2 + 1, weight)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    return weights


def _weighed(x: Any, axis: int, size: int, weight: float) -> Any:
    weights = weights_of_half(size, weight)
    shape = tuple(len(weights) if a == axis else 1 for a in range(len(x.shape)))
    return x * broadcast_to(_constant(x, weights.reshape(shape)), x.shape)


def _fft_samples(m: SampleDrawer) -> list[Any]:
    return [
        m(m.normal(3, 8, 2), axis=1), m(m.normal(12, 3, 2), axis=0, forward=False, scale=0.25),
        m(m.normal(2, 60, 2), axis=1), m(m.normal(0, 4, 2), axis=1), m(m.normal(1, 2), axis=0),
        m(m.normal(67, 2), axis=0, scale=0.5), m(m.normal(2, 37, 3, 2), axis=1, forward=False),
    ]  # fmt: skip


fft: Composite = Composite("fft", _fft, vjp=_fft_vjp, samples=_fft_samples)
"""Σ x[i] · exp(∓2πi·io/n) · scale of complex numbers [..., 2]; minus where `forward`."""
rfft: Composite = Composite("rfft", _rfft, vjp=_rfft_vjp, samples=lambda m: [
    m(m.normal(3, 8), axis=1), m(m.normal(9, 3), axis=0, scale=0.25), m(m.normal(2, 60), axis=1),
    m(m.normal(1), axis=0), m(m.normal(2, 71), axis=1), m(m.normal(0, 6), axis=1),
])  # fmt: skip
"""The first n // 2 + 1 numbers of that, of real numbers."""
irfft: Composite = Composite("irfft", _irfft, vjp=_irfft_vjp, samples=lambda m: [
    m(m.normal(3, 5, 2), axis=1, size=8), m(m.normal(5, 3, 2), axis=0, size=9, scale=0.25),
    m(m.normal(2, 31, 2), axis=1, size=60), m(m.normal(1, 2), axis=0, size=1),
    m(m.normal(2, 36, 2), axis=1, size=71), m(m.normal(0, 4, 2), axis=1, size=6),
])  # fmt: skip
"""The real numbers whose spectrum begins with x, times n; the imaginary parts of the first
frequency, and of the last one of an even size, count for nothing."""
