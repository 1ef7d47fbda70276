"""Products of narrow operands for drawn programs: what they are in float64, and how far off f32 may
be; integers exactly.

bf16 and f16, bytes, blocks of them that have scales, weights dequantized from 8 and 4 bits and from
the kinds of GGUF, convolutions with their gradients, and attention. Each comes as a matrix of f32
beside its reference in NumPy. A bound is that of docs/precision.md: so many roundings of 2⁻²⁴ of
the sum of magnitudes, what underflows, and that of the dtype that the result is rounded to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import frontend
from frontend.func import functional_call
from frontend.gguf import QuantizedWeight
from frontend.gguf.kinds import KINDS
from graphc import ops
from graphc.ir.builder import GraphBuilder
from graphc.ir.copying import copy_graph
from graphc.ir.registry import lookup
from graphc.ir.types import DType, TensorType
from graphc.ops.nn.attention import attention as attention_op
from graphc.ops.nn.block_products import block_matmul, pack_columns
from graphc.ops.paired_convolution import (
    conv_of_halves,
    input_grad_of_halves,
    weight_grad_of_halves,
)
from tests.frontend.gguf import files

Array = np.ndarray[Any, Any]
UNIT, SUBNORMAL = 2.0**-24, 2.0**-149
CHAIN = 256
HALVES = {DType.bf16: (2.0**-8, 2.0**-133), DType.f16: (2.0**-11, 2.0**-24)}
"""The error of one rounding, relative and where numbers are denormal."""
QUANTIZED = [kind for kind in KINDS.values() if kind.unpack is not None]


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix of the graph, what it is in float64, and how far off it may be."""

    handle: Any
    exact: Array
    error: Array


def roundings(count: int) -> int:
    """Of a sum of so many products, two at a time."""
    count += count % 2
    return min(count, CHAIN) + math.ceil(count / CHAIN)


@dataclass(slots=True)
class Maker:
    """What operands are drawn with; each is an input of the graph, its array kept in `arrays`."""

    random: np.random.Generator
    builder: GraphBuilder
    arrays: list[Array]

    def one(self, values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def chance(self, part: float) -> bool:
        return bool(self.random.random() < part)

    def input(self, array: Array) -> Any:
        self.arrays.append(array)
        return self.builder.input(f"x{len(self.arrays) - 1}", TensorType.of(array))

    def floats(self, *shape: int) -> Array:
        return self.random.standard_normal(shape).astype(np.float32)

    def halves(self, half: DType, *shape: int) -> Array:
        """Some of them so small that products underflow."""
        scale = self.one([1.0, 1.0, 2.0**-30, 2.0**-62] if half is DType.bf16 else [1.0, 2.0**-10])
        return (self.floats(*shape) * np.float32(scale)).astype(half.numpy)

    def integers(self, dtype: DType, *shape: int) -> Array:
        limits = np.iinfo(dtype.numpy)
        return self.random.integers(limits.min, limits.max + 1, shape).astype(dtype.numpy)


# -- floats of 16 bits -----------------------------------------------------------------------------


def product_of_halves(maker: Maker, rows: int, columns: int, k: int) -> Product:
    half = maker.one(list(HALVES))
    x = maker.halves(half, rows, k)
    y = maker.halves(half, *((columns, k) if (turned := maker.chance(0.5)) else (k, columns)))
    left, right = maker.input(x), maker.input(y)
    if turned:
        right, y = ops.transpose(right, permutation=(1, 0)), y.T
    wide, other = x.astype(np.float64), y.astype(np.float64)
    count = roundings(k)
    error = count * (UNIT * (np.abs(wide) @ np.abs(other)) + SUBNORMAL)
    result = Product(ops.paired_matmul(left, right), wide @ other, error)
    return rounded(maker, result, half)


def rounded(maker: Maker, x: Product, half: DType) -> Product:
    """The result as it is or, as functions of the frontend give it, in the operands' dtype."""
    if maker.chance(0.5):
        return x
    unit, tiny = HALVES[half]
    back = ops.cast(ops.cast(x.handle, dtype=half), dtype=DType.f32)
    error = x.error + unit * (np.abs(x.exact) + x.error) + tiny
    if half is DType.f16:  # beyond the greatest there is no bound
        error = np.where(np.abs(x.exact) + x.error < 65000, error, np.inf)
    return Product(back, x.exact, error)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution of [batch, channels, *size] with [outputs, channels / groups, *kernel]."""

    batch: int
    channels: int
    outputs: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def how(self) -> dict[str, Any]:
        names = ("stride", "padding", "dilation", "groups")
        return {name: getattr(self, name) for name in names}

    @property
    def positions(self) -> tuple[int, ...]:
        spans = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in spans)

    @property
    def x(self) -> tuple[int, ...]:
        return (self.batch, self.channels, *self.size)

    @property
    def w(self) -> tuple[int, ...]:
        return (self.outputs, self.channels // self.groups, *self.kernel)

    @property
    def y(self) -> tuple[int, ...]:
        return (self.batch, self.outputs, *self.positions)

    def padded(self, x: Array) -> Array:
        return np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in self.padding]])

    def taps(self) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Each tap, and what of a padded image it reads."""
        for tap in np.ndindex(*self.kernel):
            spans = zip(tap, self.dilation, self.stride, self.positions, strict=True)
            cuts = [slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in spans]
            yield tap, (..., *cuts)

    def apart(self, x: Array, at: int = 1) -> Array:
        """With its groups as an axis of their own."""
        return x.reshape(*x.shape[:at], self.groups, -1, *x.shape[at + 1 :])

    def forward(self, x: Array, w: Array) -> Array:
        moved, weight = self.padded(x), self.apart(w, 0)
        result = 0
        for tap, cut in self.taps():
            seen = self.apart(moved[cut])
            result += np.einsum("ngc...,goc->ngo...", seen, weight[(..., *tap)])
        return np.asarray(result).reshape(self.y)

    def by_input(self, g: Array, w: Array) -> Array:
        result, weight = self.padded(np.zeros(self.x, g.dtype)), self.apart(w, 0)
        for tap, cut in self.taps():
            part = np.einsum("ngo...,goc->ngc...", self.apart(g), weight[(..., *tap)])
            result[cut] += part.reshape(self.batch, self.channels, *self.positions)
        inner = [slice(p, p + n) for p, n in zip(self.padding, self.size, strict=True)]
        return result[(..., *inner)]

    def by_weight(self, x: Array, g: Array) -> Array:
        moved, result = self.padded(x), np.zeros(self.w, x.dtype)
        for tap, cut in self.taps():
            seen, sums = (
                self.apart(each).reshape(self.batch, self.groups, -1, math.prod(self.positions))
                for each in (moved[cut], g)
            )
            part = np.einsum("ngcp,ngop->goc", seen, sums)
            result[(..., *tap)] = part.reshape(self.w[:2])
        return result


def geometry(maker: Maker, greatest: int) -> Geometry:
    """Up to about so many elements of x."""
    one, axes, groups = maker.one, maker.one([1, 2, 2]), maker.one([1, 1, 2, 3])
    channels, outputs = (groups * one([1, 2, 3, 4, 8, 16, 18]) for _ in range(2))
    kernel = tuple(one([1, 1, 2, 3, 3, 5]) for _ in range(axes))
    dilation = tuple(one([1, 1, 2]) for _ in range(axes))
    least = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    most = max(2, round((greatest / channels) ** (1 / axes)))
    size = tuple(n + int(maker.random.integers(0, max(most - n, 1) + 1)) for n in least)
    padding = tuple(one([0, k // 2, k - 1]) for k in kernel)
    stride = tuple(one([1, 1, 2, 3]) for _ in range(axes))
    batch = one([1, 1, 2])
    return Geometry(batch, channels, outputs, size, kernel, stride, padding, dilation, groups)


def flat(x: Any) -> Any:
    """Of any rank as a matrix."""
    return ops.reshape(x, shape=(x.shape[0] * x.shape[1], math.prod(x.shape[2:])))


def convolution_of_halves(maker: Maker, greatest: int = 600) -> Product:
    """Forward, or a gradient."""
    half, g = maker.one(list(HALVES)), geometry(maker, greatest)
    kind = maker.one(["forward", "by_input", "by_weight"])
    first, second = {
        "forward": (g.x, g.w), "by_input": (g.y, g.w), "by_weight": (g.x, g.y)
    }[kind]  # fmt: skip
    x, y = maker.halves(half, *first), maker.halves(half, *second)
    left, right = maker.input(x), maker.input(y)
    taps = math.prod(g.kernel)
    if kind == "forward":
        handle, count = conv_of_halves(left, right, **g.how), taps * g.w[1]
    elif kind == "by_input":
        handle = input_grad_of_halves(left, right, size=g.size, **g.how)
        count = taps * g.outputs // g.groups
    else:
        handle = weight_grad_of_halves(left, right, kernel=g.kernel, **g.how)
        count = g.batch * math.prod(g.positions)
    sums = getattr(g, kind)
    wide, other = x.astype(np.float64), y.astype(np.float64)
    error = roundings(count) * (UNIT * sums(np.abs(wide), np.abs(other)) + SUBNORMAL)
    shape = (error.shape[0] * error.shape[1], -1)
    exact = sums(wide, other).reshape(shape)
    return rounded(maker, Product(flat(handle), exact, error.reshape(shape)), half)


# -- bytes -----------------------------------------------------------------------------------------


def modulo(sums: Array) -> Array:
    """Whole numbers as i32 has them, which wraps, in f32, which rounds."""
    return sums.astype(np.int64).astype(np.int32).astype(np.float32).astype(np.float64)


def exactly(handle: Any, exact: Array) -> Product:
    return Product(handle, exact, np.zeros_like(exact))


def quantized(maker: Maker, dtype: DType, *shape: int) -> tuple[Any, Array]:
    """Bytes that are drawn, or made of floats where the product reads them."""
    whole = maker.integers(dtype, *shape)
    if maker.chance(0.5):
        return maker.input(whole), whole
    limits = np.iinfo(dtype.numpy)
    x, scale = maker.floats(*shape), np.float32(maker.random.uniform(0.005, 0.05))
    zero = np.int32(maker.random.integers(-9, 140))
    moved = x * (np.float32(1) / scale) + np.float32(zero)
    whole = np.clip(np.rint(moved), limits.min, limits.max).astype(dtype.numpy)
    operands = maker.input(x), maker.input(np.asarray(scale)), maker.input(np.asarray(zero))
    bounds = {"low": int(limits.min), "high": int(limits.max), "dtype": dtype}
    return ops.quantize(*operands, **bounds), whole


def product_of_bytes(maker: Maker, rows: int, columns: int, k: int) -> Product:
    dtype = maker.one([DType.i8, DType.u8])
    left, x = quantized(maker, dtype, rows, k)
    turned = maker.chance(0.5)
    right, y = quantized(maker, DType.i8, *((columns, k) if turned else (k, columns)))
    if turned:
        right, y = ops.transpose(right, permutation=(1, 0)), y.T
    sums = ops.cast(ops.int_matmul(left, right), dtype=DType.f32)
    exact = modulo(x.astype(np.int64) @ y.astype(np.int64))
    if maker.chance(0.5):
        return exactly(sums, exact)
    scale = maker.random.uniform(0.01, 0.1, (rows, 1)).astype(np.float32)
    scaled = sums * ops.broadcast(maker.input(scale), shape=(rows, columns))
    return exactly(scaled, (exact.astype(np.float32) * scale).astype(np.float64))


def convolution_of_bytes(maker: Maker, greatest: int = 600) -> Product:
    dtype, g = maker.one([DType.i8, DType.u8]), geometry(maker, greatest)
    left, x = quantized(maker, dtype, *g.x)
    w = maker.integers(DType.i8, *g.w)
    zero = maker.integers(dtype)
    handle = ops.int_conv(left, maker.input(w), maker.input(zero), **g.how)
    exact = modulo(g.forward(x.astype(np.int64) - int(zero), w.astype(np.int64)))
    sums = flat(handle)
    return exactly(ops.cast(sums, dtype=DType.f32), exact.reshape(sums.shape))


def product_of_blocks(maker: Maker, rows: int, columns: int, k: int) -> Product:
    """Of integers of few bits in blocks that have scales, with a minimum or without; columns' bytes
    lie in rows, turned, or in tiles of quads."""
    block = maker.one([4, 16, 32, 64])
    bits, high = maker.one([(8, 0), (4, 0), (2, 0), (4, 1), (4, 2), (2, 1), (1, 4)])
    depth = -(-max(k, 1) // 64) * 64
    x = maker.integers(DType.i8, rows, depth)
    whole = maker.integers(DType.u8, depth, columns) >> (8 - bits - high)
    zero = maker.one([0, 1 << (bits + high - 1), 255])
    blocks = depth // block
    x_scale, scale, least = (
        maker.floats(*shape) for shape in ((rows, blocks), (blocks, columns), (blocks, columns))
    )
    operands = [maker.input(x), maker.input(x_scale)]
    how = maker.one(["rows", "turned", "tiles"])
    others = [pack_columns(whole, bits), scale]
    others += [pack_columns(whole >> bits, high)] if high else []
    others += [least] if (with_least := maker.chance(0.5)) else []
    operands += [_lying(maker, array, how) for array in others]
    handle = block_matmul(*operands, block=block, zero=zero, bits=bits, high_bits=high)
    apart = x.astype(np.float64).reshape(rows, blocks, block)
    numbers = whole.astype(np.float64).reshape(blocks, block, columns) - zero
    terms = np.einsum("mbk,bkn->mbn", apart, numbers) * scale
    sizes = np.abs(terms)
    if with_least:
        below = apart.sum(axis=2)[..., None] * least
        terms, sizes = terms + below, sizes + np.abs(below)
    exact = (terms * x_scale[..., None]).sum(axis=1)
    size = (sizes * np.abs(x_scale[..., None])).sum(axis=1)
    return Product(handle, exact, (blocks + 2) * (UNIT * size + SUBNORMAL))


def _lying(maker: Maker, array: Array, how: str) -> Any:
    """A matrix [k, n] that lies in memory so."""
    k, n = array.shape
    if how == "turned":
        return ops.transpose(maker.input(np.ascontiguousarray(array.T)), permutation=(1, 0))
    if how == "rows":
        return maker.input(array)
    tile, together = math.gcd(n, 64), 4 if array.dtype == np.uint8 else 1
    apart = array.reshape(k // together, together, n // tile, tile).transpose(2, 0, 3, 1)
    whole = ops.transpose(maker.input(np.ascontiguousarray(apart)), permutation=(1, 3, 0, 2))
    return ops.reshape(whole, shape=(k, n))


# -- weights that are dequantized ------------------------------------------------------------------


def blocks_of(maker: Maker, rows: int, columns: int) -> tuple[int, int]:
    """The shape of scales: of a tensor, of each row, of each column, or of groups along a row."""
    groups = [n for n in range(1, columns + 1) if columns % n == 0 and n < columns]
    return maker.one([(1, 1), (rows, 1), (1, columns), (rows, maker.one(groups or [1]))])


def affine_weight(maker: Maker, rows: int, columns: int) -> tuple[Any, Array]:
    """[rows, columns] of 8 bits, or of 4 in shared bytes where columns are even in number."""
    bits = maker.one([8, 4, 4] if columns % 2 == 0 else [8])
    dtype = DType.u8 if bits == 4 else maker.one([DType.i8, DType.u8])
    whole = maker.integers(dtype, rows, columns)
    if bits == 4:
        whole &= 15
        handle = ops.unpack_bits(maker.input(whole[:, ::2] | whole[:, 1::2] << 4), bits=4)
    else:
        handle = maker.input(whole)
    blocks = blocks_of(maker, rows, columns)
    scale = maker.random.uniform(0.005, 0.05, blocks).astype(np.float32)
    operands, numbers = [maker.input(scale)], whole.astype(np.float32)
    if maker.chance(0.6):
        zero = maker.random.integers(0, 16, blocks).astype(np.uint8)
        operands.append(maker.input(zero))
        numbers = numbers - spread(zero, whole.shape)
    return ops.dequantize(handle, *operands), numbers * spread(scale, whole.shape)


def spread(x: Array, shape: tuple[int, int]) -> Array:
    for axis, extent in enumerate(shape):
        x = np.repeat(x, extent // x.shape[axis], axis)
    return x


def weight_of_gguf(maker: Maker, rows: int, columns: int) -> tuple[Any, Array]:
    """A drawn weight of a kind whose blocks divide rows, which lies in parts, as the frontend has
    it."""
    kind = maker.one([kind for kind in QUANTIZED if columns % kind.elements == 0])
    count = rows * columns // kind.elements
    blocks = files.drawn(kind, count, int(maker.random.integers(1 << 30)))
    for place in files.SCALES.get(kind.name, []):  # scales whose sums are finite
        blocks[:, place + 1] = blocks[:, place + 1] & 0x83 | 0x20
    if kind.name == "MXFP4":
        blocks[:, 0] = 120
    weight = QuantizedWeight(kind.name, (rows, columns), blocks)
    names, parts = zip(*weight.named_buffers(), strict=True)

    def floats(*parts: Any) -> Any:
        return functional_call(weight, dict(zip(names, parts, strict=True)), ())

    graph = frontend.trace(floats, *parts)
    inputs = [maker.input(np.array(part.numpy())) for part in parts]
    values = copy_graph(graph, inputs, maker.builder.copied)
    return values[graph.outputs[0]], kind.numbers(blocks).reshape(rows, columns)


def product_with_weight(maker: Maker, x: Product, columns: int, gguf: bool) -> Product:
    """x [rows, k] times a weight that is [columns, k], or of few bits also [k, columns]. In f32, or
    in bf16 or f16 as `linear` of such an input has it."""
    rows, k = x.exact.shape
    turned = gguf or maker.chance(0.5)
    made = weight_of_gguf if gguf else affine_weight
    weight, floats = made(maker, *((columns, k) if turned else (k, columns)))
    if turned:
        weight, floats = ops.transpose(weight, permutation=(1, 0)), floats.T
    if maker.chance(0.75):
        return _product(x, weight, floats.astype(np.float64), ops.matmul)
    half = maker.one(list(HALVES))
    plain = maker.halves(half, rows, k)
    x = exactly(maker.input(plain), plain.astype(np.float64))
    short = ops.cast(weight, dtype=half)
    exact = floats.astype(half.numpy).astype(np.float64)
    return rounded(maker, _product(x, short, exact, ops.paired_matmul), half)


def _product(x: Product, y: Any, exact: Array, multiply: Any) -> Product:
    k = len(exact)
    most = (np.abs(x.exact) + x.error) @ np.abs(exact)
    error = x.error @ np.abs(exact) + roundings(k) * (UNIT * most + SUBNORMAL)
    return Product(multiply(x.handle, y), x.exact @ exact, error)


# -- attention -------------------------------------------------------------------------------------


def attention(maker: Maker, greatest: int = 40) -> Product:
    """Of f32, or of bf16 and f16, which are widened and whose result is rounded; causal, with a
    mask, or neither. A row's weights are off by what their scores are, and by exp's own error."""
    dtype = maker.one([DType.f32, *HALVES, *HALVES])
    heads = maker.one([1, 2, 3])
    rows, seen = (int(n) for n in maker.random.integers(1, greatest + 1, 2))
    width, out = maker.one([1, 4, 8, 16, 33]), maker.one([1, 8, 16, 20])
    shapes = ((heads, rows, width), (heads, seen, width), (heads, seen, out))
    arrays = [maker.floats(*shape).astype(dtype.numpy) for shape in shapes]
    handles = [maker.input(array) for array in arrays]
    if dtype is not DType.f32:
        handles = [ops.cast(each, dtype=DType.f32) for each in handles]
    q, k, v = (array.astype(np.float64) for array in arrays)
    scale, causal = float(np.float32(1 / math.sqrt(width))), maker.chance(0.4)
    scores = scale * np.einsum("hrw,hsw->hrs", q, k)
    magnitudes = scale * np.einsum("hrw,hsw->hrs", np.abs(q), np.abs(k))
    off = (roundings(width) + 1) * UNIT * magnitudes
    if causal:
        visible = np.tril(np.ones((rows, seen), bool))
    elif maker.chance(0.5):
        visible = maker.random.random((rows, seen)) < 0.7
        handles.append(maker.input(visible))
    else:
        visible = np.ones((rows, seen), bool)
    scores = np.where(visible, scores, -np.inf)
    exact, error = _softmax_mean(scores, off, v)
    handle, _ = attention_op(*handles, scale=scale, causal=causal)
    shape = (heads * rows, out)
    result = Product(ops.reshape(handle, shape=shape), exact.reshape(shape), error.reshape(shape))
    return result if dtype is DType.f32 else rounded(maker, result, dtype)


def _softmax_mean(scores: Array, off: Array, v: Array) -> tuple[Array, Array]:
    """Means of the rows of v by exp(scores), and how far off f32's may be."""
    level = scores.max(-1, keepdims=True)
    level = np.where(np.isfinite(level), level, 0)
    weights = np.exp(scores - level)
    shares = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    below = np.where(weights > 0, np.abs(scores - level), 0)
    # A score and the greatest are both off; their difference is rounded, and exp has its own.
    each = 2 * off.max(-1, keepdims=True) + UNIT * (below + 2 * lookup("exp").ulps + 2)
    magnitude = np.einsum("hrs,hso->hro", shares, np.abs(v))
    relative = np.einsum("hrs,hso->hro", shares * np.expm1(each), np.abs(v))
    of_total = (shares * np.expm1(each)).sum(-1, keepdims=True)
    count = 2 * roundings(scores.shape[-1]) + 4
    error = relative + magnitude * (of_total + count * UNIT)
    denormal = 1e-36 * np.abs(v).sum(-2, keepdims=True)
    return np.einsum("hrs,hso->hro", shares, v), 1.01 * error + denormal
