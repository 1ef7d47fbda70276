"""The kinds of GGUF's tensors: blocks of bytes, and the numbers that they hold.

in : blocks of a kind, uint8 [blocks, bytes of one]
out: their integers, scales and minimums, or the float32 [blocks, elements of one] that these stand
     for, the bits that the package `gguf` gives

Scales are float16 (d), and so are minimums (m, of the K kinds dmin); those of a block of 256 are
multiplied by integers for its groups. Integers of few bits lie in rows of bytes that share them: of
two rows of 16 elements the first has the low halves of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from graphc.ir.types import DType

Array = np.ndarray
_BATCH = 4096
"""Blocks that are unpacked at a time: what that needs besides its result is a few megabytes."""


class Parts(NamedTuple):
    """What blocks hold. An element is scale * (whole - offset), and minimum more: `scale` is times
    `scales`, one for each group, and a minimum with `minimums` is so too, and less."""

    whole: Array
    """Of uint8 or int8: [blocks, elements], in any number of axes."""
    scale: Array
    """float16 or float32: [blocks, 1]."""
    scales: Array | None = None
    """uint8 or int8: [blocks, groups]."""
    minimum: Array | None = None
    minimums: Array | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """How a file says it, `elements` in `bytes`; `unpack` is None for plain numbers."""

    name: str
    code: int
    elements: int
    bytes: int
    dtype: DType = DType.f32
    unpack: Callable[[Array], Parts] | None = None
    bits: tuple[int, ...] = ()
    """Of an integer, the low ones and those above: 4, or 4 and 2. 8 are one signed byte."""
    offset: int = 0

    def numbers(self, blocks: Array) -> Array:
        """[blocks, bytes] of uint8 as [blocks, elements] of `dtype`."""
        if self.unpack is None:
            plain: Array = blocks.view(self.dtype.numpy)
            return plain
        result, end = np.empty((len(blocks), self.elements), np.float32), 0
        with np.errstate(all="ignore"):  # scales may be infinite, and not numbers
            for parts in self.parts(blocks):
                start, end = end, end + len(parts.whole)
                result[start:end] = _floats(parts, self.offset)
        return result

    def parts(self, blocks: Array) -> Iterator[Parts]:
        """What blocks hold, some thousands at a time."""
        assert self.unpack is not None
        for start in range(0, len(blocks), _BATCH):
            yield self.unpack(blocks[start : start + _BATCH])


def _floats(parts: Parts, offset: int) -> Array:
    """What integers and scales stand for, float32 [blocks, elements]."""
    scale = _product(parts.scale, parts.scales)
    whole = parts.whole.astype(np.float32).reshape(*scale.shape, -1)
    numbers: Array = (whole - np.float32(offset)) * scale[..., None]
    if parts.minimums is not None:
        numbers -= _product(parts.minimum, parts.minimums)[..., None]
    elif parts.minimum is not None:
        numbers += parts.minimum.astype(np.float32)[..., None]
    return numbers.reshape(len(numbers), -1)


def _product(scale: Array | None, groups: Array | None) -> Array:
    assert scale is not None
    wide: Array = scale.astype(np.float32)
    return wide if groups is None else wide * groups.astype(np.float32)


def split(blocks: Array, *sizes: int) -> list[Array]:
    """The fields of blocks, of so many bytes each."""
    ends = np.cumsum(sizes)
    return [np.ascontiguousarray(blocks[:, end - size : end]) for size, end in zip(sizes, ends)]


def halves(field: Array) -> Array:
    """Bytes as float16."""
    return field.view(np.float16)


def bits(field: Array, width: int, row: int) -> Array:
    """Integers of `width` bits: each `row` bytes are 8 / width rows of so many, low bits first."""
    apart = field.reshape(len(field), -1, 1, row) >> np.arange(0, 8, width, dtype=np.uint8)[:, None]
    low: Array = apart & np.uint8((1 << width) - 1)
    return low


def fifth_bits(field: Array) -> Array:
    """32 bits of 4 bytes, as 0 and 16."""
    return np.unpackbits(field, axis=1, bitorder="little") << 4


# -- groups of 32 ----------------------------------------------------------------------------------


def _q8_0(blocks: Array) -> Parts:
    d, q = split(blocks, 2, 32)
    return Parts(q.view(np.int8), halves(d))


def _q4_0(blocks: Array) -> Parts:
    d, q = split(blocks, 2, 16)
    return Parts(bits(q, 4, 16), halves(d))


def _q4_1(blocks: Array) -> Parts:
    d, m, q = split(blocks, 2, 2, 16)
    return Parts(bits(q, 4, 16), halves(d), minimum=halves(m))


def _q5_0(blocks: Array) -> Parts:
    d, high, q = split(blocks, 2, 4, 16)
    return Parts(bits(q, 4, 16).reshape(-1, 32) | fifth_bits(high), halves(d))


def _q5_1(blocks: Array) -> Parts:
    d, m, high, q = split(blocks, 2, 2, 4, 16)
    whole = bits(q, 4, 16).reshape(-1, 32) | fifth_bits(high)
    return Parts(whole, halves(d), minimum=halves(m))


NONLINEAR = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
"""The numbers that the 4 bits of IQ4_NL and IQ4_XS stand for."""
_MAGNITUDES = [0, 1, 2, 3, 4, 6, 8, 12]
MX = np.array([*_MAGNITUDES, *[-each for each in _MAGNITUDES]], np.int8)
"""Twice the numbers of MXFP4's elements (e2m1); there is no -0."""


def _iq4_nl(blocks: Array) -> Parts:
    d, q = split(blocks, 2, 16)
    return Parts(NONLINEAR[bits(q, 4, 16)], halves(d))


def _mxfp4(blocks: Array) -> Parts:
    exponent, q = split(blocks, 1, 16)
    scale = np.ldexp(np.float32(1), exponent.astype(np.int32) - 128)  # half of 2^(e - 127)
    return Parts(MX[bits(q, 4, 16)], scale)


# -- blocks of 256, whose scales are integers times one --------------------------------------------


def _q2_k(blocks: Array) -> Parts:
    scales, q, d, m = split(blocks, 16, 64, 2, 2)
    return Parts(bits(q, 2, 32), halves(d), scales & 15, halves(m), scales >> 4)


def _q3_k(blocks: Array) -> Parts:
    high, q, scales, d = split(blocks, 32, 64, 12, 2)
    low = bits(scales[:, :8], 4, 8).reshape(-1, 16)
    scale = (low | bits(scales[:, 8:], 2, 4).reshape(-1, 16) << 4).view(np.int8) - np.int8(32)
    whole = bits(q, 2, 32).reshape(-1, 256) | bits(high, 1, 32).reshape(-1, 256) << 2
    return Parts(whole, halves(d), scale)


def scales_and_minimums(field: Array) -> tuple[Array, Array]:
    """Eight scales and eight minimums of 6 bits in 12 bytes: of the first four of each the low 6
    bits of a byte, of the others 4 bits of the last bytes and the upper 2 of those."""
    first, second, third = split(field, 4, 4, 4)
    scale = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], axis=1)
    minimum = np.concatenate([second & 63, (third >> 4) | (second >> 6) << 4], axis=1)
    return scale, minimum


def _q4_k(blocks: Array) -> Parts:
    d, m, field, q = split(blocks, 2, 2, 12, 128)
    scales, minimums = scales_and_minimums(field)
    return Parts(bits(q, 4, 32), halves(d), scales, halves(m), minimums)


def _q5_k(blocks: Array) -> Parts:
    d, m, field, high, q = split(blocks, 2, 2, 12, 32, 128)
    scales, minimums = scales_and_minimums(field)
    whole = bits(q, 4, 32).reshape(-1, 8, 32) | bits(high, 1, 32)[:, 0] << 4
    return Parts(whole, halves(d), scales, halves(m), minimums)


def _q6_k(blocks: Array) -> Parts:
    low, high, scales, d = split(blocks, 128, 64, 16, 2)
    upper = bits(high, 2, 32).reshape(-1, 8, 32)
    whole = bits(low, 4, 64).reshape(-1, 8, 32) | upper << 4
    return Parts(whole, halves(d), scales.view(np.int8))


def _iq4_xs(blocks: Array) -> Parts:
    d, high, low, q = split(blocks, 2, 2, 4, 128)
    upper = ((high.view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16)) & 3).astype(np.uint8)
    scale = (bits(low, 4, 1).reshape(-1, 8) | upper << 4).view(np.int8) - np.int8(32)
    return Parts(NONLINEAR[bits(q, 4, 16)], halves(d), scale)


def _blocks(
    name: str, code: int, elements: int, bytes: int, unpack: Callable[[Array], Parts],
    *bits: int, offset: int = 0,
) -> Kind:  # fmt: skip
    return Kind(name, code, elements, bytes, unpack=unpack, bits=bits, offset=offset)


KINDS = {
    kind.code: kind
    for kind in (
        Kind("F32", 0, 1, 4), Kind("F16", 1, 1, 2, DType.f16), Kind("BF16", 30, 1, 2, DType.bf16),
        Kind("F64", 28, 1, 8, DType.f64), Kind("I8", 24, 1, 1, DType.i8),
        Kind("I16", 25, 1, 2, DType.i16), Kind("I32", 26, 1, 4, DType.i32),
        Kind("I64", 27, 1, 8, DType.i64),
        _blocks("Q4_0", 2, 32, 18, _q4_0, 4, offset=8), _blocks("Q4_1", 3, 32, 20, _q4_1, 4),
        _blocks("Q5_0", 6, 32, 22, _q5_0, 4, 1, offset=16),
        _blocks("Q5_1", 7, 32, 24, _q5_1, 4, 1), _blocks("Q8_0", 8, 32, 34, _q8_0, 8),
        _blocks("Q2_K", 10, 256, 84, _q2_k, 2),
        _blocks("Q3_K", 11, 256, 110, _q3_k, 2, 1, offset=4),
        _blocks("Q4_K", 12, 256, 144, _q4_k, 4), _blocks("Q5_K", 13, 256, 176, _q5_k, 4, 1),
        _blocks("Q6_K", 14, 256, 210, _q6_k, 4, 2, offset=32),
        _blocks("IQ4_NL", 20, 32, 18, _iq4_nl, 8), _blocks("IQ4_XS", 23, 256, 136, _iq4_xs, 8),
        _blocks("MXFP4", 39, 32, 17, _mxfp4, 8),
    )
}  # fmt: skip
"""By the number that a file has for it."""

OTHERS = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S",
    22: "IQ2_S", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
"""Kinds that are not read."""
