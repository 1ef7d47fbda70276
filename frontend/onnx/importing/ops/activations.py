"""Activations: functions of one tensor with options, and those that look along an axis."""

from __future__ import annotations

import functools
import operator
from typing import Any

import frontend as torch
from frontend.engine.tensors.dtypes import float32
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import onnx_op


@onnx_op("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01, consumed_inputs: Any = None) -> Any:
    return F.leaky_relu(x, alpha)


@onnx_op("PRelu")
def prelu(x: Tensor, slope: Tensor, *, consumed_inputs: Any = None) -> Any:
    if slope.dim() == 1 and x.dim() > 2 and slope.shape[0] == x.shape[1] != x.shape[-1]:
        slope = slope.reshape(-1, *[1] * (x.dim() - 2))  # operator sets before 7: by channel
    return torch.where(x < 0, x * slope, x)


@onnx_op("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Any:
    return F.elu(x, alpha)


@onnx_op("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Any:
    return F.celu(x, alpha)


@onnx_op("Selu")
def selu(
    x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805,
    consumed_inputs: Any = None,
) -> Any:  # fmt: skip
    return gamma * F.elu(x, alpha)


@onnx_op("Softplus")
def softplus(x: Tensor) -> Any:
    return F.softplus(x)


@onnx_op("Softsign")
def softsign(x: Tensor) -> Any:
    return F.softsign(x)


@onnx_op("Mish")
def mish(x: Tensor) -> Any:
    return F.mish(x)


@onnx_op("HardSwish")
def hard_swish(x: Tensor) -> Any:
    return F.hardswish(x)


@onnx_op("HardSigmoid")
def hard_sigmoid(
    x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = None
) -> Any:
    return (x * alpha + beta).clamp(0, 1)


@onnx_op("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Any:
    return torch.where(x > alpha, x, 0)


@onnx_op("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Any:
    return F.gelu(x, approximate=approximate)


@onnx_op("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Any:
    return F.silu(x) if alpha == 1 else x * (x * alpha).sigmoid()


@onnx_op("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, 0)).to(x.dtype)


@onnx_op("Binarizer", domain="ai.onnx.ml")
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Any:
    return (x > threshold).to(x.dtype)


# -- along an axis -------------------------------------------------------------------------------


@onnx_op("Softmax", 13)
def softmax(x: Tensor, *, axis: int = -1) -> Any:
    return F.softmax(x, axis)


@onnx_op("LogSoftmax", 13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Any:
    return F.log_softmax(x, axis)


@onnx_op("Hardmax", 13)
def hardmax(x: Tensor, *, axis: int = -1) -> Any:
    first = x.argmax(axis, keepdim=True)
    places = torch.arange(x.shape[axis]).reshape(-1, *[1] * (x.dim() - 1 - axis % x.dim()))
    return (places == first).to(x.dtype)


def _as_matrix(function: Any, x: Tensor, axis: int) -> Any:
    """Operator sets before 13: over all axes from `axis` on."""
    first = axis % x.dim() if axis else 0
    rows, columns = (
        functools.reduce(operator.mul, p, 1) for p in (x.shape[:first], x.shape[first:])
    )
    return function(x.reshape(rows, columns)).reshape(x.shape)


@onnx_op("Softmax")
def softmax_of_matrix(x: Tensor, *, axis: int = 1) -> Any:
    return _as_matrix(softmax, x, axis)


@onnx_op("LogSoftmax")
def log_softmax_of_matrix(x: Tensor, *, axis: int = 1) -> Any:
    return _as_matrix(log_softmax, x, axis)


@onnx_op("Hardmax")
def hardmax_of_matrix(x: Tensor, *, axis: int = 1) -> Any:
    return _as_matrix(hardmax, x, axis)


@onnx_op("Dropout")
def dropout(
    x: Tensor, ratio: Tensor | None = None, training_mode: Any = None, *, seed: int | None = None,
    is_test: int = 0, consumed_inputs: Any = None, node: Any = None,
) -> Any:  # fmt: skip
    """As it is unless `training_mode` says otherwise: random numbers are this process's."""
    if training_mode is not None and bool(training_mode):
        chance = 0.5 if ratio is None else float(ratio)
        kept = F.dropout(x.to(float32) * 0 + 1, chance, training=True)
        return [x * kept.to(x.dtype), kept != 0]
    return [x, x == x] if node.results > 1 else x
