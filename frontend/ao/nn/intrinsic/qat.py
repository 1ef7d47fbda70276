"""`torch.ao.nn.intrinsic.qat`: fused layers that train with weights as their integers stand for
them.

A convolution with its batch normalization quantizes the weight that both have as one in eval mode,
weight · γ / √(running variance + eps), and takes the factor out again behind the product: the
normalization sees the numbers it would see without quantization.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from frontend.ao.nn import qat
from frontend.ao.nn.intrinsic import fused
from frontend.ao.nn.intrinsic.fused import _FusedModule
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.modules import batchnorm, conv
from frontend.nn.parameter import Parameter

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU", "freeze_bn_stats", "update_bn_stats",
]  # fmt: skip


class _ReLU(_FusedModule):
    """The layer, then a ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = F.relu(super().forward(input))  # type: ignore[misc]
        return result


class LinearReLU(_ReLU, qat.Linear):
    """A Linear with a quantized weight, and a ReLU."""

    _FLOAT_MODULE: ClassVar[Any] = fused.LinearReLU


class ConvReLU1d(_ReLU, qat.Conv1d):
    """A Conv1d with a quantized weight, and a ReLU."""

    _FLOAT_MODULE: ClassVar[Any] = fused.ConvReLU1d


class ConvReLU2d(_ReLU, qat.Conv2d):
    """A Conv2d with a quantized weight, and a ReLU."""

    _FLOAT_MODULE: ClassVar[Any] = fused.ConvReLU2d


class ConvReLU3d(_ReLU, qat.Conv3d):
    """A Conv3d with a quantized weight, and a ReLU."""

    _FLOAT_MODULE: ClassVar[Any] = fused.ConvReLU3d


class _ConvBn(_FusedModule, qat._Conv):
    """A convolution with a quantized weight, and its batch normalization `bn`."""

    normalization: ClassVar[Any]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool | None = None,
        padding_mode: str = "zeros", eps: float = 1e-05, momentum: Any = 0.1,
        freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False,
            padding_mode, qconfig,
        )  # fmt: skip
        self.bn = self.normalization(out_channels, eps, momentum, True, True)
        if bias:
            self.bias = Parameter(empty(out_channels))
        self.reset_bn_parameters()
        self.freeze_bn = freeze_bn
        self.bn.training = not freeze_bn

    def reset_running_stats(self) -> None:
        """Begin anew with the normalization's statistics."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self) -> None:
        """Draw new initial values for the normalization, and for the bias."""
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            init.uniform_(self.bias, -bound, bound)

    def update_bn_stats(self) -> Self:
        """Normalize by each batch, in training."""
        self.freeze_bn, self.bn.training = False, True
        return self

    def freeze_bn_stats(self) -> Self:
        """Normalize by the statistics that there are."""
        self.freeze_bn, self.bn.training = True, False
        return self

    def train(self, mode: bool = True) -> Self:
        """PyTorch's: what is frozen stays so."""
        self.training = mode
        if not self.freeze_bn:
            module: Any
            for module in self.children():
                module.train(mode)
        return self

    def forward(self, input: Tensor) -> Tensor:
        factor = self.bn.weight / (self.bn.running_var + self.bn.eps).sqrt()
        channels = [1, -1] + [1] * self.axes
        faked = self.weight_fake_quant(self.weight * factor.reshape([-1, 1, *channels[2:]]))
        plain = self._conv_forward(input, faked, None) / factor.reshape(channels)
        if self.bias is not None:
            plain = plain + self.bias.reshape(channels)
        result: Tensor = self.bn(plain)
        return result

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        layer = qat.layer_of(cls, mod)
        bn = mod[1]
        new = cls(
            **qat.conv_options(layer), eps=bn.eps, momentum=bn.momentum, qconfig=mod.qconfig
        )  # fmt: skip
        new.weight, new.bias = layer.weight, layer.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(new.bn, name, getattr(bn, name))
        return new


class ConvBn1d(_ConvBn, conv.Conv1d):
    """A Conv1d with a quantized weight, and its batch normalization."""

    _FLOAT_MODULE: ClassVar[Any] = fused.ConvBn1d
    normalization = batchnorm.BatchNorm1d


class ConvBn2d(_ConvBn, conv.Conv2d):
    """A Conv2d with a quantized weight, and its batch normalization."""

    _FLOAT_MODULE: ClassVar[Any] = fused.ConvBn2d
    normalization = batchnorm.BatchNorm2d


class ConvBn3d(_ConvBn, conv.Conv3d):
    """A Conv3d with a quantized weight, and its batch normalization."""

    _FLOAT_MODULE: ClassVar[Any] = fused.ConvBn3d
    normalization = batchnorm.BatchNorm3d


class ConvBnReLU1d(_ReLU, ConvBn1d):
    """The same with a ReLU."""

    _FLOAT_MODULE: ClassVar[Any] = fused.ConvBnReLU1d


class ConvBnReLU2d(_ReLU, ConvBn2d):
    """The same with a ReLU."""

    _FLOAT_MODULE: ClassVar[Any] = fused.ConvBnReLU2d


class ConvBnReLU3d(_ReLU, ConvBn3d):
    """The same with a ReLU."""

    _FLOAT_MODULE: ClassVar[Any] = fused.ConvBnReLU3d


def update_bn_stats(mod: Any) -> None:
    """For `model.apply`: normalize by each batch."""
    if isinstance(mod, _ConvBn):
        mod.update_bn_stats()


def freeze_bn_stats(mod: Any) -> None:
    """For `model.apply`: normalize by the statistics that there are."""
    if isinstance(mod, _ConvBn):
        mod.freeze_bn_stats()
