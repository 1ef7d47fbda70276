"""The kinds of GGUF's tensors: blocks of bytes, and the float32 that they stand for.

in : blocks of a kind, uint8 [blocks, bytes of one]
out: float32 [blocks, elements of one], the bits that the package `gguf` gives

Scales are float16 (d), and so are minimums (m, of the K kinds dmin). Integers of few bits lie in
rows of bytes that share them: of two rows of 16 elements the first has the low halves of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphc.ir.types import DType

Array = np.ndarray
_BATCH = 4096
"""Blocks that are unpacked at a time: what that needs besides its result is a few megabytes."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a file says it, `elements` in `bytes`; `unpack` is None for plain numbers."""

    name: str
    code: int
    elements: int
    bytes: int
    dtype: DType = DType.f32
    unpack: Callable[[Array], Array] | None = None

    def numbers(self, blocks: Array) -> Array:
        """[blocks, bytes] of uint8 as [blocks, elements] of `dtype`."""
        if self.unpack is None:
            plain: Array = blocks.view(self.dtype.numpy)
            return plain
        result = np.empty((len(blocks), self.elements), np.float32)
        with np.errstate(all="ignore"):  # scales may be infinite, and not numbers
            for start in range(0, len(blocks), _BATCH):
                part = slice(start, start + _BATCH)
                result[part] = self.unpack(blocks[part]).reshape(-1, self.elements)
        return result


def split(blocks: Array, *sizes: int) -> list[Array]:
    """The fields of blocks, of so many bytes each."""
    ends = np.cumsum(sizes)
    return [np.ascontiguousarray(blocks[:, end - size : end]) for size, end in zip(sizes, ends)]


def halves(field: Array) -> Array:
    """float16 as float32."""
    widened: Array = field.view(np.float16).astype(np.float32)
    return widened


def bits(field: Array, width: int, row: int) -> Array:
    """Integers of `width` bits: each `row` bytes are 8 / width rows of so many, low bits first."""
    apart = field.reshape(len(field), -1, 1, row) >> np.arange(0, 8, width, dtype=np.uint8)[:, None]
    return (apart & np.uint8((1 << width) - 1)).astype(np.int32)


def fifth_bits(field: Array) -> Array:
    """32 bits of 4 bytes, as 0 and 16."""
    return np.unpackbits(field, axis=1, bitorder="little").astype(np.int32) << 4


def _floats(x: Array) -> Array:
    return x.astype(np.float32)


def _groups(x: Array, groups: int) -> Array:
    return _floats(x.reshape(len(x), groups, -1))


# -- groups of 32 ----------------------------------------------------------------------------------


def _q8_0(blocks: Array) -> Array:
    d, q = split(blocks, 2, 32)
    return _floats(q.view(np.int8)) * halves(d)


def _q4_0(blocks: Array) -> Array:
    d, q = split(blocks, 2, 16)
    return halves(d) * _groups(bits(q, 4, 16) - 8, 1)[:, 0]


def _q4_1(blocks: Array) -> Array:
    d, m, q = split(blocks, 2, 2, 16)
    return halves(d) * _groups(bits(q, 4, 16), 1)[:, 0] + halves(m)


def _q5_0(blocks: Array) -> Array:
    d, high, q = split(blocks, 2, 4, 16)
    return halves(d) * _floats((bits(q, 4, 16).reshape(-1, 32) | fifth_bits(high)) - 16)


def _q5_1(blocks: Array) -> Array:
    d, m, high, q = split(blocks, 2, 2, 4, 16)
    return halves(d) * _floats(bits(q, 4, 16).reshape(-1, 32) | fifth_bits(high)) + halves(m)


NONLINEAR = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)
"""The numbers that the 4 bits of IQ4_NL and IQ4_XS stand for."""
_MAGNITUDES = [0, 1, 2, 3, 4, 6, 8, 12]
MX = np.array([*_MAGNITUDES, *[-each for each in _MAGNITUDES]], np.float32)
"""Twice the numbers of MXFP4's elements (e2m1); there is no -0."""


def _iq4_nl(blocks: Array) -> Array:
    d, q = split(blocks, 2, 16)
    return halves(d) * NONLINEAR[bits(q, 4, 16)].reshape(-1, 32)


def _mxfp4(blocks: Array) -> Array:
    exponent, q = split(blocks, 1, 16)
    scale = np.ldexp(np.float32(1), exponent.astype(np.int32) - 128)  # half of 2^(e - 127)
    return scale * MX[bits(q, 4, 16)].reshape(-1, 32)


# -- blocks of 256, whose scales are integers times one --------------------------------------------


def _q2_k(blocks: Array) -> Array:
    scales, q, d, m = split(blocks, 16, 64, 2, 2)
    scale = (halves(d) * _floats(scales & 15))[..., None]
    return scale * _groups(bits(q, 2, 32), 16) - (halves(m) * _floats(scales >> 4))[..., None]


def _q3_k(blocks: Array) -> Array:
    high, q, scales, d = split(blocks, 32, 64, 12, 2)
    low = bits(scales[:, :8], 4, 8).reshape(-1, 16)
    scale = (low | bits(scales[:, 8:], 2, 4).reshape(-1, 16) << 4) - 32
    whole = bits(q, 2, 32).reshape(-1, 16, 16) - 4 + 4 * bits(high, 1, 32).reshape(-1, 16, 16)
    return (halves(d) * _floats(scale))[..., None] * _floats(whole)


def scales_and_minimums(field: Array) -> tuple[Array, Array]:
    """Eight scales and eight minimums of 6 bits in 12 bytes: of the first four of each the low 6
    bits of a byte, of the others 4 bits of the last bytes and the upper 2 of those."""
    first, second, third = split(field, 4, 4, 4)
    scale = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], axis=1)
    minimum = np.concatenate([second & 63, (third >> 4) | (second >> 6) << 4], axis=1)
    return scale, minimum


def _scaled(d: Array, m: Array, scales: Array, whole: Array) -> Array:
    scale, minimum = (_floats(each) for each in scales_and_minimums(scales))
    return (halves(d) * scale)[..., None] * _floats(whole) - (halves(m) * minimum)[..., None]


def _q4_k(blocks: Array) -> Array:
    d, m, scales, q = split(blocks, 2, 2, 12, 128)
    return _scaled(d, m, scales, bits(q, 4, 32).reshape(-1, 8, 32))


def _q5_k(blocks: Array) -> Array:
    d, m, scales, high, q = split(blocks, 2, 2, 12, 32, 128)
    return _scaled(d, m, scales, (bits(q, 4, 32).reshape(-1, 8, 32)) | bits(high, 1, 32)[:, 0] << 4)


def _q6_k(blocks: Array) -> Array:
    low, high, scales, d = split(blocks, 128, 64, 16, 2)
    upper = bits(high, 2, 32).reshape(-1, 8, 32)
    whole = bits(low, 4, 64).reshape(-1, 8, 32) | upper << 4
    return (halves(d) * _floats(scales.view(np.int8)))[..., None] * _groups(whole - 32, 16)


def _iq4_xs(blocks: Array) -> Array:
    d, high, low, q = split(blocks, 2, 2, 4, 128)
    upper = (high.view("<u2").astype(np.int32) >> np.arange(0, 16, 2)) & 3
    scale = (bits(low, 4, 1).reshape(-1, 8) | upper << 4) - 32
    return (halves(d) * _floats(scale))[..., None] * NONLINEAR[bits(q, 4, 16)].reshape(-1, 8, 32)


KINDS = {
    kind.code: kind
    for kind in (
        Kind("F32", 0, 1, 4), Kind("F16", 1, 1, 2, DType.f16), Kind("BF16", 30, 1, 2, DType.bf16),
        Kind("F64", 28, 1, 8, DType.f64), Kind("I8", 24, 1, 1, DType.i8),
        Kind("I16", 25, 1, 2, DType.i16), Kind("I32", 26, 1, 4, DType.i32),
        Kind("I64", 27, 1, 8, DType.i64),
        Kind("Q4_0", 2, 32, 18, unpack=_q4_0), Kind("Q4_1", 3, 32, 20, unpack=_q4_1),
        Kind("Q5_0", 6, 32, 22, unpack=_q5_0), Kind("Q5_1", 7, 32, 24, unpack=_q5_1),
        Kind("Q8_0", 8, 32, 34, unpack=_q8_0), Kind("Q2_K", 10, 256, 84, unpack=_q2_k),
        Kind("Q3_K", 11, 256, 110, unpack=_q3_k), Kind("Q4_K", 12, 256, 144, unpack=_q4_k),
        Kind("Q5_K", 13, 256, 176, unpack=_q5_k), Kind("Q6_K", 14, 256, 210, unpack=_q6_k),
        Kind("IQ4_NL", 20, 32, 18, unpack=_iq4_nl), Kind("IQ4_XS", 23, 256, 136, unpack=_iq4_xs),
        Kind("MXFP4", 39, 32, 17, unpack=_mxfp4),
    )
}  # fmt: skip
"""By the number that a file has for it."""

OTHERS = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S",
    22: "IQ2_S", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
"""Kinds that are not read."""
