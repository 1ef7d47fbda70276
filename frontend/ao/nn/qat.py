"""`torch.ao.nn.qat`: layers that train with weights as their integers stand for them."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.nn.modules import conv, linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Linear"]


def need_qconfig(module: Any, qconfig: Any) -> Any:
    """The QConfig of a layer. Raises AssertionError where there is none."""
    if not qconfig:
        raise AssertionError(f"qconfig must be provided for QAT module {type(module).__name__}")
    return qconfig


def layer_of(cls: Any, module: Any) -> Any:
    """The layer with the weight, and checks: `module` is what `cls` is made from."""
    if type(module) is not cls._FLOAT_MODULE:
        raise AssertionError(
            f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}, got "
            f"{type(module).__name__}"
        )
    need_qconfig(module, getattr(module, "qconfig", None))
    return module if hasattr(module, "weight") else module[0]


class Linear(linear.Linear):
    """A Linear whose weight passes `qconfig.weight()`. Raises AssertionError without a qconfig."""

    _FLOAT_MODULE: ClassVar[Any] = linear.Linear

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = need_qconfig(self, qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = F.linear(input, self.weight_fake_quant(self.weight), self.bias)
        return result

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a layer with a qconfig, whose parameters it shares."""
        layer = layer_of(cls, mod)
        new = cls(layer.in_features, layer.out_features, layer.bias is not None, mod.qconfig)
        new.weight, new.bias = layer.weight, layer.bias
        return new


def conv_options(layer: Any) -> dict[str, Any]:
    """What makes a convolution like this one."""
    same = "in_channels out_channels kernel_size stride padding dilation groups padding_mode"
    return {name: getattr(layer, name) for name in same.split()} | {"bias": layer.bias is not None}


class _Conv(conv._Convolution):
    """A convolution whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE: ClassVar[Any]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", qconfig: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.qconfig = need_qconfig(self, qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a layer with a qconfig, whose parameters it shares."""
        layer = layer_of(cls, mod)
        new = cls(**conv_options(layer), qconfig=mod.qconfig)
        new.weight, new.bias = layer.weight, layer.bias
        return new


class Conv1d(_Conv, conv.Conv1d):
    """A Conv1d whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE: ClassVar[Any] = conv.Conv1d


class Conv2d(_Conv, conv.Conv2d):
    """A Conv2d whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE: ClassVar[Any] = conv.Conv2d


class Conv3d(_Conv, conv.Conv3d):
    """A Conv3d whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE: ClassVar[Any] = conv.Conv3d
