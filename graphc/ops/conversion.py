"""Arrays from one dtype to another: what the op `cast` means, and the loops' `convert`.

Every conversion rounds once, to nearest even. NumPy's own `astype` does that too but for bf16,
where ml_dtypes rounds to f32 first; and it leaves to the machine what a float outside an integer
type becomes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.ir.types import UNSIGNED, DType

Array = np.ndarray[Any, Any]

EXACT_INTEGER = 1 << 53
"""The integers up to here are f64 numbers."""
STICKY = 1 << 12
"""Larger ones keep their place among the bf16 numbers, and between them, in steps of half this."""


def convert(x: Array, dtype: DType) -> Any:
    """`x` in `dtype`. Floats to integers are truncated, saturate in the type the integer computes
    as (u16, u32 and u64: in u64, from above), NaN giving 0, and then wrap as integers do."""
    source = DType.of(x.dtype)
    if not (source.is_compiled and dtype.is_compiled):
        return _uncompiled(x, source, dtype)
    if source.is_float and dtype in UNSIGNED:
        return _to_unsigned(x).astype(dtype.numpy)
    if source.is_float and dtype.is_integer:
        return _to_integer(x.astype(source.computes_as.numpy), dtype)
    if dtype is DType.bf16 and source in (DType.f64, DType.i32, DType.i64, *UNSIGNED[1:]):
        return rounded_to_odd(x).astype(dtype.numpy)
    return x.astype(dtype.numpy)


def _uncompiled(x: Array, source: DType, dtype: DType) -> Any:
    """`convert` from or to a dtype without compiled form, as PyTorch does on a CPU: of complex
    numbers the real part, floats of 8 bits by way of f32."""
    if source.is_complex and not dtype.is_complex:
        return x != 0 if dtype is DType.bool else convert(x.real, dtype)
    if source is dtype or dtype.is_complex:
        return x.astype(dtype.numpy)
    if source.is_float and not source.is_compiled:
        return convert(x.astype(np.float32), dtype)
    if dtype.is_float and not dtype.is_compiled:
        return _to_8_bits(x.astype(np.float32), dtype)
    return x.astype(dtype.numpy)


def _to_8_bits(x: Array, dtype: DType) -> Any:
    """f32 as floats of 8 bits: e4m3 saturates, e8m0 has no sign and no 0."""
    if dtype is DType.f8_e4m3:
        x = np.clip(x, -448, 448)
    elif dtype is DType.f8_e8m0:
        x = np.maximum(np.abs(x), np.float32(2.0**-127))
    return x.astype(dtype.numpy)


def _to_unsigned(x: Array) -> Array:
    """Floats as u64: as i64 where that holds them, so that negative ones wrap; larger ones
    saturate."""
    wide = x.astype(np.float64)
    beyond = wide >= 2.0**63
    whole = _to_integer(np.where(beyond, wide - 2.0**63, wide), DType.i64).astype(np.uint64)
    unsigned: Array = whole + np.where(beyond, np.uint64(2**63), np.uint64(0))
    return unsigned


def _to_integer(x: Array, dtype: DType) -> Any:
    wide = dtype.computes_as.numpy
    limits = np.iinfo(wide)
    below, above = x <= float(limits.min), x >= float(limits.max)
    inside = np.where(below | above | np.isnan(x), x.dtype.type(0), x).astype(wide)
    saturated = np.where(below, limits.min, np.where(above, limits.max, inside))
    return saturated.astype(dtype.numpy)


def rounded_to_odd(x: Array) -> Array:
    """f64 or integers as f32: of the two neighbours of a number that is none, the one whose last
    bit is set. Rounding that to at most 22 bits rounds `x` once (Boldo and Melquiond, 2008)."""
    exact = _as_f64(np.asarray(x))
    near = exact.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.int32)
    wrong = (back != exact) & (exact == exact) & (bits & 1 == 0)
    step = np.where(np.abs(back) > np.abs(exact), -1, 1).astype(np.int32)
    odd: Array = np.where(wrong, bits + step, bits).view(np.float32)
    return odd


def _as_f64(x: Array) -> Array:
    """f64 numbers that round to bf16 as `x` does. Bits of integers too long for f64 are replaced
    by one bit that says whether there are any."""
    if x.dtype.itemsize < 8 or x.dtype.kind == "f":
        return x.astype(np.float64)
    kind = x.dtype.type
    rest = x & kind(STICKY - 1)
    marked = (x - rest) | np.where(rest != 0, kind(STICKY // 2), kind(0))
    small = x <= kind(EXACT_INTEGER)
    if kind is np.int64:
        small &= x >= -EXACT_INTEGER
    return np.where(small, x, marked).astype(np.float64)
