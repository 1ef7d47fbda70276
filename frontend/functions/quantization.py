"""Affine quantization, as functions: tensors of integers with a scale, fake quantization, and the
product of integers of 8 bits."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.creation import tensor
from frontend.functions.declarations import public
from frontend.functions.quantized_tensor import QuantizedTensor, range_of
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops.contract import int_matmul
from graphc.ops.nn import quantization as ops


@public(at="", also="torch._int_mm")
def int_mm(self: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The product of a matrix of int8 or uint8 with one of int8, in int32, modulo 2^32."""
    need_tensors("_int_mm", self=self, mat2=mat2)
    for name, x, dtypes in (("self", self, (DType.i8, DType.u8)), ("mat2", mat2, (DType.i8,))):
        if x.dtype not in dtypes:
            names = " or ".join(map(str, dtypes))
            raise DTypeError(
                f"int_mm_out_cpu: Expected {name} dtype to be {names} but got {x.dtype}",
                location=user_location(),
            )
        if x.dim() != 2:
            raise ShapeError(
                f"int_mm_out_cpu: Expected {name} to be of dimension 2 but got {x.dim()}",
                location=user_location(),
            )
    if self.shape[1] != mat2.shape[0]:
        raise ShapeError(
            f"int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got {self.shape[1]} and "
            f"{mat2.shape[0]}",
            location=user_location(),
        )
    result = CONTEXT.apply(int_matmul, (self, mat2), {})[0]
    return result if out is None else stored(result, out)


# -- fake quantization ---------------------------------------------------------------------------


@public()
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """What the nearest of `quant_min` … `quant_max` stands for: (q - zero_point) * scale. The
    gradient goes straight through where none of these bounds is in the way. `scale`, `zero_point`:
    numbers, or tensors of one element."""
    need_tensors("fake_quantize_per_tensor_affine", input=input)
    _check_range(quant_min, quant_max)
    if isinstance(zero_point, int) and not quant_min <= zero_point <= quant_max:
        raise _outside()
    scale = _as(scale, DType.f32).reshape(())
    zero_point = _as(zero_point, DType.i32).reshape(())
    return _fake(input, scale, zero_point, quant_min, quant_max)


@public()
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """The same with a scale and a zero point for each index of dimension `axis`: tensors [n]."""
    name = "fake_quantize_per_channel_affine"
    need_tensors(name, input=input, scale=scale, zero_point=zero_point)
    _check_range(quant_min, quant_max)
    shape = _channels(input, scale, zero_point, axis)
    return _fake(input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)


def _fake(x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int) -> Tensor:
    wide = x if x.dtype in (DType.f32, DType.f64) else x.to(DType.f32)
    whole = zero if zero.dtype.is_integer else zero.to(DType.i32)
    faked: Tensor = ops.fake_quantize(wide, scale.to(wide.dtype), whole, low=low, high=high)
    return faked if wide is x else faked.to(x.dtype)


def _check_range(low: int, high: int) -> None:
    if low > high:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")


def _outside() -> RuntimeError:
    return RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")


def _as(value: Any, dtype: DType) -> Tensor:
    return value if isinstance(value, Tensor) else tensor(value, dtype=dtype)


def _channels(x: Tensor, scale: Tensor, zero: Tensor, axis: int) -> list[int]:
    """The shape in which they broadcast over `x`."""
    if not -x.dim() <= axis < x.dim():
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    for name, each in (("scale", scale), ("zero-point", zero)):
        if each.dim() != 1 or each.shape[0] != x.shape[axis]:
            raise RuntimeError(f"dimensions of {name} and input are not consistent")
    shape: list[int] = [1] * x.dim()
    shape[axis] = x.shape[axis]
    return shape


# -- tensors of integers with a scale --------------------------------------------------------------


@public()
def quantize_per_tensor(input: Tensor, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """A float32 tensor as integers, round(x / scale + zero_point), of torch.qint8, torch.quint8 or
    torch.qint32. `scale`, `zero_point`: numbers, or tensors of one element."""
    need_tensors("quantize_per_tensor", input=input)
    low, high, kind = range_of(dtype)
    scale = _as(scale, DType.f64).reshape(()).to(DType.f64)
    zero = _as(zero_point, DType.i64).reshape(()).to(DType.i64)
    whole = ops.quantize(_f32(input), scale.to(DType.f32), zero, low=low, high=high, dtype=kind)
    return QuantizedTensor(whole, scale, zero, None, dtype)


@public()
def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any
) -> Any:
    """The same with a scale and a zero point for each index of dimension `axis`: tensors [n]."""
    need_tensors("quantize_per_channel", input=input, scales=scales, zero_points=zero_points)
    low, high, kind = range_of(dtype)
    shape = _channels(input, scales, zero_points, axis)
    scale, zero = scales.to(DType.f64), zero_points.to(DType.i64)
    spread = scale.to(DType.f32).reshape(shape), zero.reshape(shape)
    whole = ops.quantize(_f32(input), *spread, low=low, high=high, dtype=kind)
    return QuantizedTensor(whole, scale, zero, axis % input.dim(), dtype)


def _f32(x: Tensor) -> Tensor:
    if x.dtype is not DType.f32:
        raise DTypeError(
            f"Quantize only works on Float Tensor, got {x.dtype}", location=user_location()
        )
    return x


@public()
def dequantize(input: Any) -> Tensor:
    """The floats that a quantized tensor stands for."""
    if isinstance(input, QuantizedTensor):
        return input.dequantize()
    need_tensors("dequantize", input=input)
    return input.to(DType.f32)
