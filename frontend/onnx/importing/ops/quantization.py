"""Integers that stand for floats: `(q - zero point) * scale`, by tensor, slice or block."""

from __future__ import annotations

from typing import Any

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.declarations import onnx_op
from frontend.onnx.importing.element_types import DTYPES, FLOAT4, cast_to, dtype_of, range_of
from frontend.onnx.importing.graphs import OnnxNode
from frontend.onnx.importing.ops.convolution import centred, conv
from graphc.ir.types import DType


def _spread(part: Any, x: Tensor, axis: int, block: int) -> Any:
    """A scale or zero point, so that it broadcasts over `x`."""
    if part is None or part.dim() == 0:
        return part
    axis = axis % x.dim() if x.dim() else 0
    if block:
        return part.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    if part.dim() == 1 and x.dim() != 0:
        if type(part.shape[0]) is int and part.shape[0] == 1:
            return part.reshape(())
        shape = [1] * x.dim()
        shape[axis] = part.shape[0]
        return part.reshape(shape)
    return part


def _number_of(dtype: DType) -> int:
    return next(number for number, known in DTYPES.items() if known is dtype)


@onnx_op("QuantizeLinear")
def quantize_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1,
    block_size: int = 0, output_dtype: int = 0, precision: int = 0, saturate: int = 1,
    node: OnnxNode,
) -> Any:  # fmt: skip
    kind = output_dtype or 2
    if zero_point is not None:
        kind = node.input_types[2] or _number_of(zero_point.dtype)
    return _quantized(x, scale, zero_point, kind, axis, block_size, precision, bool(saturate))


def _quantized(
    x: Tensor, scale: Tensor, zero_point: Tensor | None, kind: int, axis: int = 1, block: int = 0,
    precision: int = 0, saturate: bool = True,
) -> Any:  # fmt: skip
    scale = _spread(scale, x, axis, block)
    zero_point = _spread(zero_point, x, axis, block)
    dtype = dtype_of(kind)
    wide = dtype_of(precision) if precision else scale.dtype
    if wide not in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        wide = torch.float32
    quotient = x.to(wide) / scale.to(wide)
    if dtype.is_float or kind == FLOAT4:
        if zero_point is not None:
            quotient = quotient + zero_point.to(wide)
        return cast_to(quotient, kind, saturate)
    low, high = range_of(kind, dtype)
    whole = quotient.to(torch.float32).round()
    if zero_point is not None:
        whole = whole + zero_point.to(torch.float32)
    return whole.clamp(low, high).to(dtype)


@onnx_op("DequantizeLinear")
def dequantize_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1,
    block_size: int = 0, output_dtype: int = 0,
) -> Any:  # fmt: skip
    scale = _spread(scale, x, axis, block_size)
    zero_point = _spread(zero_point, x, axis, block_size)
    result = dtype_of(output_dtype) if output_dtype else scale.dtype
    wide = torch.float64 if scale.dtype is torch.float64 else torch.float32
    if zero_point is None:
        value = x.to(wide)
    elif x.dtype.is_float or x.dtype is torch.int32:
        value = x.to(wide) - zero_point.to(wide)
    else:
        value = (x.to(torch.int32) - zero_point.to(torch.int32)).to(wide)
    return (value * scale.to(wide)).to(result)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> Any:
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = (high - low) / 255
    zero = (-low / scale).round().clamp(0, 255)
    whole = (x / scale).round() + zero
    return [whole.clamp(0, 255).to(torch.uint8), scale, zero.to(torch.uint8)]


def _scaled(x: Tensor, scale: Tensor, zero: Tensor, axis: int) -> Tensor:
    """What bytes stand for, one scale for each slice along `axis` where there are several."""
    if scale.dim() == 1 and scale.shape[0] != 1:
        shape = [1] * x.dim()
        shape[axis] = scale.shape[0]
        scale = scale.reshape(shape)
    elif scale.dim() == 1:
        scale = scale.reshape(())
    return centred(x, zero, axis).to(torch.float32) * scale.to(torch.float32)


@onnx_op("QLinearMatMul")
def qlinear_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, *, node: OnnxNode,
) -> Any:  # fmt: skip
    product = _scaled(a, a_scale, a_zero, -2) @ _scaled(b, b_scale, b_zero, -1)
    return _quantized(product, y_scale.to(torch.float32), y_zero, _number_of(y_zero.dtype))


@onnx_op("QLinearConv")
def qlinear_conv(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    options: dict[str, Any] = {
        "auto_pad": auto_pad, "dilations": dilations, "group": group,
        "kernel_shape": kernel_shape, "pads": pads, "strides": strides,
    }  # fmt: skip
    scaled = None if bias is None else bias.to(torch.float32) * x_scale * w_scale
    result = conv(_scaled(x, x_scale, x_zero, 0), _scaled(w, w_scale, w_zero, 0), scaled, **options)
    return _quantized(result, y_scale, y_zero, _number_of(y_zero.dtype))
