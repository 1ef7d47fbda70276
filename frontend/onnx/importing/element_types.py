"""ONNX's element types, by their numbers, and what holds them here.

Integers of 2 and 4 bits are held in bytes, floats of 4 bits in float32: a value of such a type is
one of the few that it has. Casts to them round, and wrap or saturate, as ONNX says.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import frontend as torch
from frontend.engine.tensors import dtypes as d
from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.errors import OnnxNotHere
from graphc.ir.types import DType

DTYPES: dict[int, DType] = {
    1: d.float32, 2: d.uint8, 3: d.int8, 4: d.uint16, 5: d.int16, 6: d.int32, 7: d.int64, 9: d.bool,
    10: d.float16, 11: d.float64, 12: d.uint32, 13: d.uint64, 14: d.complex64, 15: d.complex128,
    16: d.bfloat16, 17: d.float8_e4m3fn, 18: d.float8_e4m3fnuz, 19: d.float8_e5m2,
    20: d.float8_e5m2fnuz, 21: d.uint8, 22: d.int8, 23: d.float32, 24: d.float8_e8m0fnu,
    25: d.uint8, 26: d.int8,
}  # fmt: skip
BITS = {21: 4, 22: 4, 25: 2, 26: 2}
"""Widths of the integers that are held in bytes."""
RANGES = {21: (0, 15), 22: (-8, 7), 25: (0, 3), 26: (-2, 1)}
FLOAT4 = 23
_E8M0 = 24
_HELD = {
    "int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8,
    "float4_e2m1fn": np.float32,
}  # fmt: skip
_E4M3FN = 17
_BEYOND_E4M3FN = 464.0
"""From above here on a value rounds to more than the greatest, 448."""
_SATURATING = (17, 18, 19, 20)


def stored(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array as it is held here, in memory of its own."""
    return np.array(array, _HELD.get(array.dtype.name, array.dtype))


def dtype_of(element_type: int) -> DType:
    """The dtype that holds an element type. Raises OnnxNotHere for strings and unknown ones."""
    known = DTYPES.get(element_type)
    if known is None:
        raise OnnxNotHere(f"element type {element_type} is not here", hint="numbers and bools are")
    return known


def range_of(element_type: int, dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of integers."""
    if element_type in RANGES:
        return RANGES[element_type]
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def cast_to(x: Tensor, element_type: int, saturate: bool = True, up: str = "up") -> Tensor:
    """`x` in an element type, by ONNX's rules."""
    dtype = dtype_of(element_type)
    if dtype is d.bool:
        return x != 0
    if element_type == FLOAT4:
        return _as_float4(x)
    if element_type in BITS:
        return _as_few_bits(x, element_type, dtype)
    if element_type == _E8M0:
        return _as_power(x, saturate, up)
    if element_type in _SATURATING and saturate and x.dtype is not dtype:
        most = float(torch.finfo(dtype).max)
        wide = x.to(d.float32)
        return torch.where(torch.isnan(wide), wide, wide.clamp(-most, most)).to(dtype)
    if element_type == _E4M3FN and not saturate:  # without infinities: what is beyond is NaN
        wide = x.to(d.float32)
        return torch.where(wide.abs() > _BEYOND_E4M3FN, float("nan"), wide).to(dtype)
    return x.to(dtype)


def _as_few_bits(x: Tensor, element_type: int, dtype: DType) -> Tensor:
    low, _ = RANGES[element_type]
    span = 1 << BITS[element_type]
    bits = (x.to(d.float32) if x.dtype.is_float else x).to(d.int64) & (span - 1)
    if low < 0:
        bits = torch.where(bits >= span // 2, bits - span, bits)
    return bits.to(dtype)


def _as_float4(x: Tensor) -> Tensor:
    """0, 0.5, 1, 1.5, 2, 3, 4 or 6 with a sign, ties to even; beyond them the greatest. There is no
    NaN, which becomes -0."""
    wide = x.to(d.float32)
    wide = torch.where(torch.isnan(wide), -0.0, wide)
    size = wide.abs()
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.copysign(((size / step).round() * step).clamp(max=6.0), wide)


def _as_power(x: Tensor, saturate: bool, up: str) -> Tensor:
    """float8_e8m0fnu: powers of two from 2^-127 to 2^127, and NaN. `up` says how one is chosen:
    "up", "down" or "nearest"."""
    values = x.to(d.float32).detach().numpy().astype(np.float64)
    size = np.abs(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.log2(size)
        powers = np.ceil(exact) if up == "up" else np.floor(exact)
        if up == "nearest":
            powers = powers + (np.exp2(exact - powers) >= 1.5)
    beyond = powers > 127
    powers = np.clip(
        np.where(np.isfinite(powers), powers, np.where(size > 0, 127, -127)), -127, 127
    )
    result = np.exp2(powers)
    result[np.isnan(values) | (beyond & (not saturate))] = np.nan
    return torch.tensor(result.astype(ml_dtypes.float8_e8m0fnu))
