"""Layers that divide by what they measure."""

from __future__ import annotations

from typing import Any

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import Statistic, onnx_op
from frontend.onnx.importing.graphs import OnnxNode


@onnx_op("BatchNormalization")
def batch_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Statistic, var: Statistic, *,
    epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0, is_test: int = 0,
    spatial: int = 1, consumed_inputs: Any = None,
) -> Any:  # fmt: skip
    if not training_mode:
        return F.batch_norm(x, mean, var, scale, bias, eps=epsilon)
    over = [0, *range(2, x.dim())]
    seen, spread = x.mean(over), x.var(over, correction=0)
    result = F.batch_norm(x, None, None, scale, bias, training=True, eps=epsilon)
    kept = [old * momentum + new * (1 - momentum) for old, new in ((mean, seen), (var, spread))]
    return [result, *kept]


@onnx_op("LayerNormalization")
def layer_normalization(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1, node: OnnxNode,
) -> Any:  # fmt: skip
    axis = axis % x.dim()
    shape = list(x.shape[axis:])
    if node.results == 1 and list(scale.shape) == shape:
        return F.layer_norm(x, shape, scale, bias, epsilon)
    over = list(range(axis, x.dim()))
    wide = x.to(torch.float32) if x.dtype.itemsize < 4 else x
    mean = wide.mean(over, keepdim=True)
    inverse = ((wide - mean).square().mean(over, keepdim=True) + epsilon).rsqrt()
    result = ((wide - mean) * inverse).to(x.dtype) * scale
    return [result if bias is None else result + bias, mean, inverse][: node.results]


@onnx_op("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    shape = list(x.shape[axis % x.dim() :])
    if list(scale.shape) == shape:
        return F.rms_norm(x, shape, scale, epsilon)
    return F.rms_norm(x, shape, None, epsilon) * scale


@onnx_op("InstanceNormalization")
def instance_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, consumed_inputs: Any = None
) -> Any:
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@onnx_op("GroupNormalization", 21)
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int,
    stash_type: int = 1,
) -> Any:  # fmt: skip
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@onnx_op("GroupNormalization", 18)
def group_normalization_by_group(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Any:
    """Operator sets 18 to 20: scale and bias of groups, not of channels."""
    width = x.shape[1] // num_groups
    scale, bias = scale.repeat_interleave(width), bias.repeat_interleave(width)
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: Any = (0, 2, 3)) -> Any:
    over = list(axes)
    return (x - x.mean(over, True)) / (x.std(over, correction=0, keepdim=True) + 1e-9)


@onnx_op("LRN")
def lrn(x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Any:
    if size % 2:
        return F.local_response_norm(x, size, alpha, beta, bias)
    # ONNX takes (size - 1) // 2 channels before and size // 2 behind.
    squares = F.pad(x.square(), [0, 0] * (x.dim() - 2) + [(size - 1) // 2, size // 2])
    total = sum(squares.narrow(1, i, x.shape[1]) for i in range(size))
    return x / (bias + total * (alpha / size)) ** beta
