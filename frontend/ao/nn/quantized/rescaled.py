"""Layers that compute in floats between quantized tensors, with a scale and a zero point of their
own for what they give. In state dicts: those of the layer, `scale` and `zero_point`."""

from __future__ import annotations

import copy
from typing import Any

from frontend.ao.nn.quantized.layers import need_quantized
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.quantized_tensor import QuantizedTensor
from frontend.nn.modules import activation, batchnorm, dropout, instancenorm, normalization
from frontend.nn.modules.module import Module
from graphc.ir.types import DType

__all__ = [
    "ELU", "BatchNorm2d", "BatchNorm3d", "Dropout", "GroupNorm", "Hardswish", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LeakyReLU", "PReLU",
]  # fmt: skip


class _Rescaled(Module):
    """Made by `from_float` alone."""

    scale: Tensor
    zero_point: Tensor

    def forward(self, input: Any) -> Any:
        x = need_quantized(self, input)
        result = super().forward(x.dequantize())
        return QuantizedTensor.of(result, self.scale, self.zero_point, x.dtype)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a layer that was observed: a copy."""
        scale, zero = mod.activation_post_process.calculate_qparams()
        new = copy.deepcopy(mod)
        del new.activation_post_process
        for hooks in (new._forward_hooks, new._forward_pre_hooks):
            hooks.clear()
        new.__class__ = cls
        new.register_buffer("scale", scale.reshape(()).clone())
        new.register_buffer("zero_point", zero.reshape(()).to(DType.i32))
        return new.eval()


class BatchNorm2d(_Rescaled, batchnorm.BatchNorm2d):
    """Batch normalization by the statistics of training."""


class BatchNorm3d(_Rescaled, batchnorm.BatchNorm3d):
    """Batch normalization by the statistics of training."""


class ELU(_Rescaled, activation.ELU):
    """ELU."""


class GroupNorm(_Rescaled, normalization.GroupNorm):
    """Normalization of groups of channels."""


class Hardswish(_Rescaled, activation.Hardswish):
    """Hardswish."""


class InstanceNorm1d(_Rescaled, instancenorm.InstanceNorm1d):
    """Normalization of each instance."""


class InstanceNorm2d(_Rescaled, instancenorm.InstanceNorm2d):
    """Normalization of each instance."""


class InstanceNorm3d(_Rescaled, instancenorm.InstanceNorm3d):
    """Normalization of each instance."""


class LayerNorm(_Rescaled, normalization.LayerNorm):
    """Normalization of the last axes."""


class LeakyReLU(_Rescaled, activation.LeakyReLU):
    """Leaky ReLU."""


class PReLU(_Rescaled, activation.PReLU):
    """PReLU."""


class Dropout(dropout.Dropout):
    """Nothing is dropped."""

    def forward(self, input: Any) -> Any:
        return input

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Dropout:
        """From a Dropout."""
        return cls(mod.p, mod.inplace)
