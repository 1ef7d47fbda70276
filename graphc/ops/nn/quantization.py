"""Affine quantization: integers q that stand for floats, (q - zero point) * scale.

Scales and zero points have the rank of what they are of, or none, and each of their extents divides
its extent: one for all [1, 1], one for each row [n, 1], one for each group of 32 along the last
axis [n, k / 32]. Rounding is to even. Where two forms differ in the last bit it is PyTorch's:
`quantize` rounds behind the zero point, `fake_quantize` before it, and both multiply by the
reciprocal of the scale.

Integers of 1, 2 and 4 bits share bytes, `pack_bits`: of neighbours along the last axis the first
has the lowest bits.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.size_guards import equal
from graphc.ir.types import DType, Shape
from graphc.ops import elementwise as e
from graphc.ops.generate import iota_like
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import FLOATS
from graphc.ops.movement import broadcast, reshape, slice_
from graphc.ops.scalar_functions.bitwise import bitwise_and, bitwise_or, shift_left, shift_right

STORED = (DType.i8, DType.u8, DType.i16, DType.i32)
"""The types of quantized values."""


def spread_blocks(x: Any, shape: Shape) -> Any:
    """Each element of `x` for its block of elements of `shape`."""
    if len(x.shape) not in (0, len(shape)):
        raise ShapeError(f"quantization: {x.tensor_type} is not of rank {len(shape)} or 0")
    if not x.shape:
        return broadcast_to(x, shape)
    apart: list[Any] = []
    for own, dim in zip(x.shape, shape, strict=True):
        size = _block(own, dim)
        if size is None:
            raise ShapeError(f"quantization: {x.tensor_type} does not divide {list(shape)}")
        apart += [own, size]
    one = tuple(1 if i % 2 else count for i, count in enumerate(apart))
    return reshape(broadcast(reshape(x, shape=one), shape=tuple(apart)), shape=tuple(shape))


def _block(count: Any, extent: Any) -> Any:
    """The size of so many blocks of an extent; None where they do not divide it."""
    if equal(count, 1):
        return extent
    if equal(count, extent):
        return 1
    divides = type(count) is int and type(extent) is int and count > 0 and extent % count == 0
    return extent // count if divides else None


def _scales(op: str, x: Any, scale: Any, zero: Any) -> tuple[Any, Any]:
    """Scale and zero point as floats of the shape of `x`, None for no zero point."""
    if scale.dtype not in FLOATS:
        raise DTypeError(f"{op}: scales are f32 or f64, got {scale.tensor_type}")
    if zero is None:
        return spread_blocks(scale, x.shape), None
    if not zero.dtype.is_integer:
        raise DTypeError(f"{op}: zero points are integers, got {zero.tensor_type}")
    zero = spread_blocks(e.cast(zero, dtype=scale.dtype), x.shape)
    return spread_blocks(scale, x.shape), zero


def _check_float(op: str, x: Any, scale: Any) -> None:
    if x.dtype not in FLOATS or x.dtype is not scale.dtype:
        raise DTypeError(
            f"{op} takes floats of one dtype, got {x.tensor_type}, {scale.tensor_type}"
        )


def _clamped(x: Any, low: int, high: int) -> Any:
    bounds = (broadcast_to(lift(bound, x), x.shape) for bound in (low, high))
    return e.clamp(x, *bounds)


def _inverse(scale: Any, shape: Shape) -> Any:
    return spread_blocks(1 / scale, shape)


def _quantize(x: Any, scale: Any, zero: Any = None, *, low: int, high: int, dtype: DType) -> Any:
    _check_float("quantize", x, scale)
    if dtype not in STORED:
        raise DTypeError(f"quantize: {dtype} is none of {', '.join(map(str, STORED))}")
    if low > high:
        raise AttributeValueError(f"quantize: {low} … {high} is no range")
    _, zeros = _scales("quantize", x, scale, zero)
    moved = x * _inverse(scale, x.shape)
    moved = moved if zeros is None else moved + zeros
    return e.cast(_clamped(e.round(moved), low, high), dtype=dtype)


def _dequantize(q: Any, scale: Any, zero: Any = None) -> Any:
    if not q.dtype.is_integer:
        raise DTypeError(f"dequantize takes integers, got {q.tensor_type}")
    scales, zeros = _scales("dequantize", q, scale, zero)
    x = e.cast(q, dtype=scale.dtype)
    return (x if zeros is None else x - zeros) * scales


def _rounded(x: Any, scale: Any, zeros: Any) -> Any:
    rounded = e.round(x * _inverse(scale, x.shape))
    return rounded if zeros is None else rounded + zeros


def _fake_quantize(x: Any, scale: Any, zero: Any = None, *, low: int, high: int) -> Any:
    _check_float("fake_quantize", x, scale)
    scales, zeros = _scales("fake_quantize", x, scale, zero)
    kept = _clamped(_rounded(x, scale, zeros), low, high)
    return (kept if zeros is None else kept - zeros) * scales


def _fake_vjp(
    g: Any, out: Any, x: Any, scale: Any, zero: Any = None, *, low: int, high: int
) -> tuple[Any, ...]:
    def straight_through() -> Any:
        whole = _rounded(x, scale, _scales("fake_quantize", x, scale, zero)[1])
        bounds = [broadcast_to(lift(bound, whole), whole.shape) for bound in (low, high)]
        inside = e.logical_and(e.ge(whole, bounds[0]), e.le(whole, bounds[1]))
        return e.where(inside, g, broadcast_to(lift(0, g), g.shape))

    return (straight_through, None) if zero is None else (straight_through, None, None)


def _scale_samples(m: Any) -> list[tuple[Any, ...]]:
    return [
        (m.normal(3, 8), m.positive()),
        (m.normal(3, 8), m.positive(3, 1)),
        (m.normal(4, 12), m.positive(4, 3)),
        (m.normal(2, 6, 5), m.positive(1, 6, 1)),
    ]


# x in floats, scale, and a zero point (integers) if there is one: integers in [low, high].
quantize = Composite(
    "quantize", _quantize, differentiable=False,
    samples=lambda m: [
        m(*operands, low=-128, high=127, dtype=DType.i8) for operands in _scale_samples(m)
    ] + [m(m.normal(4, 6), m.positive(4, 1), m.integers(9, 4, 1), low=0, high=255,
           dtype=DType.u8)],
)  # fmt: skip

# The floats that they stand for, in the dtype of the scale.
dequantize = Composite(
    "dequantize",
    _dequantize,
    samples=lambda m: [
        m(m.integers(99, 3, 8, low=-99), m.positive(3, 1)),
        m(m.integers(99, 2, 3, 8), m.positive(2, 1, 4), m.integers(9, 2, 1, 4)),
        m(m.integers(99, 37), m.positive()),
    ],
)

# The floats that stand for those that quantization gives. The gradient goes straight through where
# that is in [low, high], and none to scale and zero point.
fake_quantize = Composite(
    "fake_quantize", _fake_quantize, vjp=_fake_vjp,
    samples=lambda m: [m(*operands, low=-128, high=127) for operands in _scale_samples(m)]
    + [m(m.normal(4, 6), m.positive(4, 1), m.integers(9, 4, 1), low=0, high=9)],
    exempt={"gradient": "it goes straight through what is a step function"},
)  # fmt: skip


# -- integers of 1, 2 and 4 bits -------------------------------------------------------------------

BYTE = 8
PARTS = (1, 2, 4)
"""How many bits of a byte an integer may take."""


def _wide(x: Any) -> Any:
    return e.cast(x, dtype=DType.i32)


def _low_bits(x: Any, bits: int) -> Any:
    return bitwise_and(x, broadcast_to(lift(2**bits - 1, x), x.shape))


def _check_parts(op: str, x: Any, bits: int) -> None:
    if bits not in PARTS:
        raise AttributeValueError(f"{op}: integers of {bits} bits do not divide a byte")
    if not x.shape:
        raise ShapeError(f"{op} takes bytes with an axis, got {x.tensor_type}")


def _pack_bits(x: Any, *, bits: int) -> Any:
    _check_parts("pack_bits", x, bits)
    *outer, last = x.shape
    count = BYTE // bits
    if type(last) is not int or last % count:
        raise ShapeError(
            f"pack_bits of {x.tensor_type}: the last axis is to be a multiple of {count}, so many "
            "a byte"
        )
    none, ones = (0,) * len(outer), (1,) * len(outer)

    def moved(place: int) -> Any:
        size = (*outer, last // count)
        part = slice_(x, start=(*none, place), size=size, step=(*ones, count))
        low = _low_bits(_wide(part), bits)
        return shift_left(low, broadcast_to(lift(place * bits, low), low.shape)) if place else low

    return e.cast(reduce(bitwise_or, map(moved, range(count))), dtype=x.dtype)


def _unpack_bits(x: Any, high: Any = None, *, bits: int, high_bits: int = 0) -> Any:
    _check_parts("unpack_bits", x, bits)
    *outer, last = x.shape
    shape = (*outer, last * (BYTE // bits))
    whole = _apart(x, bits, shape)
    if high is not None:
        _check_parts("unpack_bits", high, high_bits)
        *others, own = high.shape
        if bits + high_bits > BYTE or (*others, own * (BYTE // high_bits)) != shape:
            raise ShapeError(
                f"unpack_bits: {high.tensor_type} is no {high_bits} bits above {bits} of "
                f"{x.tensor_type}"
            )
        upper = _apart(high, high_bits, shape)
        whole = bitwise_or(whole, upper * 2**bits)
    return e.cast(whole, dtype=x.dtype)


def _apart(x: Any, bits: int, shape: Shape) -> Any:
    """The integers of `bits` that are in bytes, in i32 of this shape."""
    spread = (*x.shape, BYTE // bits)
    wide = _wide(broadcast(reshape(x, shape=(*x.shape, 1)), shape=spread))
    place = iota_like(x, spread, len(spread) - 1, DType.i32)
    return reshape(_low_bits(shift_right(wide, place * bits), bits), shape=shape)


# Of bytes [.., n] the lowest `bits` of each, as bytes [.., n * bits / 8].
pack_bits = Composite(
    "pack_bits", _pack_bits, differentiable=False, dtypes=(DType.u8,),
    samples=lambda m: [
        m(m.integers(256, *shape).astype(np.uint8), bits=bits)
        for shape, bits in (((6,), 4), ((3, 8), 4), ((0, 4), 4), ((3, 8), 2), ((2, 16), 1))
    ],
)  # fmt: skip

# The other way: bytes [.., n] as integers of `bits` in bytes [.., m], m = n * 8 / bits. A second
# operand, bytes [.., m * high_bits / 8], is so many bits of each above those.
unpack_bits = Composite(
    "unpack_bits", _unpack_bits, differentiable=False, dtypes=(DType.u8,),
    samples=lambda m: [
        m(m.integers(256, *shape).astype(np.uint8), bits=bits)
        for shape, bits in (((3,), 4), ((3, 5), 4), ((0, 4), 4), ((3, 5), 2), ((2, 3), 1))
    ] + [
        m(*[m.integers(256, 3, n).astype(np.uint8) for n in sizes], bits=bits, high_bits=high)
        for sizes, bits, high in (((8, 2), 4, 1), ((4, 2), 4, 2), ((2, 1), 2, 1))
    ],
)  # fmt: skip
