"""Scales chosen from numbers, and the numbers as integers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import where
from frontend.functions.quantization import int_mm
from graphc.ir.types import DType
from graphc.ops.nn import quantization as ops

LOW, HIGH = -128, 127
HALF = (HIGH - LOW) / 2
NIBBLE_HIGH = 15
"""The greatest integer of 4 bits."""
EPSILON = 2.0**-23
"""The least scale of symmetric quantization."""


class Integers(NamedTuple):
    """Quantized numbers: `whole` stands for (whole - zero) * scale."""

    whole: Tensor
    scale: Tensor
    zero: Tensor

    @classmethod
    def by_range(cls, x: Tensor, high: int) -> Integers:
        """float32 as uint8 of 0 … `high`, one scale by the least and greatest of them and of 0."""
        least, most = x.min().clamp(max=0).to(DType.f64), x.max().clamp(min=0).to(DType.f64)
        exact = (most - least) / high
        exact = where(exact == 0, exact.new_full((), 0.1), exact)
        zero = (-least / exact).round().clamp(0, high).to(DType.i32)
        scale = exact.to(DType.f32)
        return cls(ops.quantize(x, scale, zero, low=0, high=high, dtype=DType.u8), scale, zero)


def of_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """A float32 matrix [n, k] as int8, symmetric, with a scale for each row [n, 1]."""
    scale = (x.abs().amax(1, keepdim=True) / HALF).clamp(min=EPSILON)
    return _symmetric(x, scale), scale


def of_tensor(x: Tensor) -> tuple[Tensor, Tensor]:
    """Float32 as int8, symmetric, with one scale []."""
    scale = (x.abs().max() / HALF).clamp(min=EPSILON)
    return _symmetric(x, scale), scale


def of_groups(x: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """A float32 matrix [n, k] as integers of 4 bits, two in a byte [n, k / 2], with a scale and a
    zero point (uint8) for each `group` along a row [n, k / group]. A group's range has 0 in it."""
    parts = x.reshape(x.shape[0], -1, group)
    least, most = parts.amin(2).clamp(max=0), parts.amax(2).clamp(min=0)
    scale = ((most - least) / NIBBLE_HIGH).clamp(min=EPSILON)
    zero = (-least / scale).round().clamp(0, NIBBLE_HIGH).to(DType.u8)
    whole = ops.quantize(x, scale, zero, low=0, high=NIBBLE_HIGH, dtype=DType.u8)
    return ops.pack_bits(whole, bits=4), scale, zero


def _symmetric(x: Tensor, scale: Tensor) -> Tensor:
    whole: Tensor = ops.quantize(x, scale, low=LOW, high=HIGH, dtype=DType.i8)
    return whole


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x weightᵀ of integers [m, k] and [n, k], in int32."""
    result: Tensor = int_mm(x, weight.t())
    return result


def rows_of(x: Any) -> Any:
    """[*, k] as a matrix."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
