"""Convolutions and linear layers with the batch normalisation that follows them, as one layer, for
eval mode."""

from __future__ import annotations

import copy
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import ones_like, zeros_like
from frontend.functions.pointwise import rsqrt
from frontend.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip


def _fused(
    w: Any, b: Any, mean: Any, variance: Any, eps: float, weight: Any, bias: Any, shape: Any
) -> tuple[Parameter, Parameter]:
    before = zeros_like(mean) if b is None else b
    scale = (ones_like(mean) if weight is None else weight) * rsqrt(variance + eps)
    offset = (before - mean) * scale + (zeros_like(mean) if bias is None else bias)
    wanted = b.requires_grad if b is not None else w.requires_grad
    return (
        Parameter((w * scale.reshape(shape)).to(w.dtype).detach(), w.requires_grad),
        Parameter(offset.detach(), wanted),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any, bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of a convolution that does what a convolution and a batch normalisation
    after it do."""
    channels = [1, -1] if transpose else [-1, 1]
    shape = channels + [1] * (conv_w.dim() - 2)
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any,
    bn_b: Any,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The same for a linear layer."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _checked(layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    return copy.deepcopy(layer)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of `conv` that does what `bn(conv(x))` does in eval mode."""
    fused = _checked(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of `linear` that does what `bn(linear(x))` does in eval mode. Raises AssertionError
    where `bn` has another number of features, more than one."""
    fused = _checked(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
