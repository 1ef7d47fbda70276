"""Layers whose weights are int8, from quantized tensors to quantized tensors: exact sums of
products of integers, scaled, with the bias and rounded once to the integers of the result.

In state dicts: `weight_int`, `weight_scale` ([] or a number for each output), `bias`, `scale` and
`zero_point`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from frontend.ao.nn.qat import conv_options
from frontend.engine.tensors.absent_dtypes import qint8
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty, tensor
from frontend.functions.quantization import int_mm, quantize_per_channel, quantize_per_tensor
from frontend.functions.quantized_tensor import QuantizedTensor
from frontend.nn import functional as F
from frontend.nn.functional.conv import same_padding
from frontend.nn.geometry import ints
from frontend.nn.modules import conv
from frontend.nn.modules.module import Module
from frontend.nn.utils.fusion import fuse_conv_bn_weights
from graphc.ir.types import DType
from graphc.ops.nn.int_convolution import int_conv

__all__ = ["Conv1d", "Conv2d", "Conv3d", "DeQuantize", "Linear", "Quantize"]


class Quantize(Module):
    """Floats to a quantized tensor of this scale, zero point and dtype."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, dtype: Any, factory_kwargs: Any = None
    ) -> None:
        super().__init__()
        self.register_buffer("scale", tensor([scale], dtype=DType.f32))
        self.register_buffer("zero_point", tensor([zero_point], dtype=DType.i64))
        self.dtype = dtype

    def forward(self, X: Tensor) -> Any:
        return quantize_per_tensor(X, self.scale, self.zero_point, self.dtype)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a QuantStub that has an observer."""
        observer = mod.activation_post_process
        scale, zero = observer.calculate_qparams()
        return cls(float(scale), int(zero), observer.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """A quantized tensor to floats."""

    def forward(self, Xq: Any) -> Tensor:
        result: Tensor = Xq.dequantize()
        return result

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a DeQuantStub."""
        return cls()


def need_quantized(layer: Any, x: Any) -> QuantizedTensor:
    """The operand of a layer. Raises TypeError where it is not quantized."""
    if not isinstance(x, QuantizedTensor):
        raise TypeError(
            f"the quantized {type(layer).__name__} takes a quantized tensor, got a "
            f"{type(x).__name__}: a QuantStub ahead of it becomes what quantizes"
        )
    return x


class Scaled(Module):
    """What has a `scale` and a `zero_point` for its results, buffers [] that can be assigned
    numbers."""

    scale: Tensor
    zero_point: Tensor

    def _scales(self) -> None:
        self.register_buffer("scale", tensor(1.0))
        self.register_buffer("zero_point", tensor(0, dtype=DType.i32))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("scale", "zero_point") and isinstance(value, int | float):
            value = tensor(value, dtype=DType.f32 if name == "scale" else DType.i32)
        super().__setattr__(name, value)


class _Weighted(Scaled):
    """What they share: `shape`, that of the weight; `relu`, whether negative results are 0."""

    weight_int: Tensor
    weight_scale: Tensor
    relu: ClassVar[bool] = False

    def _empty(self, shape: tuple[int, ...], bias: bool) -> None:
        self.register_buffer("weight_int", empty(shape, dtype=DType.i8).zero_())
        self.register_buffer("weight_scale", tensor(1.0))
        self.register_buffer("bias_float", empty(shape[0]).zero_() if bias else None)
        self._scales()

    def weight(self) -> QuantizedTensor:
        """The weight, as torch.qint8."""
        scale = self.weight_scale.to(DType.f64)
        axis = 0 if scale.dim() else None
        return QuantizedTensor(
            self.weight_int, scale, scale.new_zeros(scale.shape, dtype=DType.i64), axis, qint8
        )

    def bias(self) -> Any:
        """The bias in floats, or None."""
        return self.bias_float

    def set_weight_bias(self, w: QuantizedTensor, b: Tensor | None) -> None:
        """Take a weight of torch.qint8, symmetric, and a bias in floats. Raises TypeError and
        ValueError for other weights."""
        if not isinstance(w, QuantizedTensor) or w.dtype is not qint8:
            raise TypeError(f"the weight of {type(self).__name__} is a quantized tensor of qint8")
        if bool((w.zero_points != 0).any()):
            raise ValueError(
                "weights with zero points other than 0: there are symmetric ones, "
                "qscheme=torch.per_tensor_symmetric or per_channel_symmetric"
            )
        self.weight_int, self.weight_scale = w.int_repr(), w.scales.to(DType.f32)
        self.bias_float = None if b is None else b.detach().to(DType.f32).clone()

    def _scaled(self, summed: Tensor, x_scale: Tensor, axes: int, dtype: Any) -> QuantizedTensor:
        """Sums [N, O, …] as integers of the result."""

        def spread(each: Tensor) -> Tensor:
            return each.reshape(-1, *(1,) * axes) if each.dim() else each

        result = summed.to(DType.f32) * (x_scale * spread(self.weight_scale))
        if self.bias_float is not None:
            result = result + spread(self.bias_float)
        if self.relu:
            result = F.relu(result)
        return QuantizedTensor.of(result, self.scale, self.zero_point, dtype)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a layer that was observed, or trained with a quantized weight."""
        observer = mod.activation_post_process
        layer = mod if hasattr(mod, "weight") else mod[0]
        with no_grad():
            weight, bias = layer.weight, layer.bias
            if hasattr(mod, "bn"):
                bn = mod.bn
                weight, bias = fuse_conv_bn_weights(
                    weight, bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
                )
            watch = getattr(mod, "weight_fake_quant", None) or mod.qconfig.weight()
            if not use_precomputed_fake_quant:
                watch(weight)
            new = cls._like(layer)
            new.set_weight_bias(quantized_weight(weight.detach().to(DType.f32), watch), bias)
            scale, zero = observer.calculate_qparams()
            new.scale = scale.reshape(()).to(DType.f32).clone()
            new.zero_point = zero.reshape(()).to(DType.i32)
        return new

    @classmethod
    def _like(cls, layer: Any) -> Self:
        raise NotImplementedError(f"{cls.__name__} is made of no layer")

    def _quantized_repr(self) -> str:
        return f"scale={float(self.scale)}, zero_point={int(self.zero_point)}"


def quantized_weight(weight: Tensor, watch: Any) -> QuantizedTensor:
    """A weight by the scales of an observer that saw it. Raises AssertionError for one that is not
    for torch.qint8."""
    if watch.dtype is not qint8:
        raise AssertionError(f"Weight observer must have dtype torch.qint8, got {watch.dtype}")
    scale, zero = watch.calculate_qparams()
    quantized: QuantizedTensor
    if watch.qscheme.is_per_channel:
        quantized = quantize_per_channel(weight, scale, zero, watch.ch_axis, qint8)
    else:
        quantized = quantize_per_tensor(weight, scale, zero, qint8)
    return quantized


class Linear(_Weighted):
    """[*, in_features] to [*, out_features], quantized tensors both."""

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = qint8
    ) -> None:
        super().__init__()
        if dtype is not qint8:
            raise NotImplementedError(f"quantized Linear: weights of torch.qint8, not {dtype}")
        self.in_features, self.out_features = in_features, out_features
        self._empty((out_features, in_features), bias_)

    def forward(self, x: Any) -> QuantizedTensor:
        whole, scale, zero = need_quantized(self, x).parts()
        rows = whole.reshape(-1, self.in_features)
        summed = int_mm(rows, self.weight_int.t())
        summed = summed - zero * self.weight_int.sum(1, dtype=DType.i32)
        summed = summed.reshape(*whole.shape[:-1], self.out_features)
        return self._scaled(summed, scale, 0, x.dtype)

    @classmethod
    def _like(cls, layer: Any) -> Self:
        return cls(layer.in_features, layer.out_features, layer.bias is not None)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"{self._quantized_repr()}, qscheme={self.weight().qscheme()}"
        )


class _QuantizedConv(_Weighted):
    """[N, in_channels, *size] to [N, out_channels, *positions], or without N. `padding` is filled
    with the zero point, which stands for 0."""

    axes: ClassVar[int]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = ints(kernel_size, self.axes, "kernel_size")
        self.stride = ints(stride, self.axes, "stride")
        self.dilation = ints(dilation, self.axes, "dilation")
        self.padding = padding if isinstance(padding, str) else ints(padding, self.axes, "padding")
        self.padding_mode = padding_mode
        self._empty((out_channels, in_channels // groups, *self.kernel_size), bias)

    def forward(self, input: Any) -> QuantizedTensor:
        x: Any = need_quantized(self, input)
        lone = x.dim() == self.axes + 1
        x = x.unsqueeze(0) if lone else x
        sides = self._sides()
        padding = tuple(low for low, _ in sides)
        if self.padding_mode != "zeros" or any(low != high for low, high in sides):
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            x = F.pad(x, [size for pair in reversed(sides) for size in pair], mode=mode)
            padding = (0,) * self.axes
        whole, scale, zero = x.parts()
        summed = int_conv(
            whole, self.weight_int, zero.to(whole.dtype), stride=self.stride, padding=padding,
            dilation=self.dilation, groups=self.groups,
        )  # fmt: skip
        result = self._scaled(summed, scale, self.axes, x.dtype)
        return result[0] if lone else result

    def _sides(self) -> list[tuple[int, int]]:
        if self.padding == "same":
            return same_padding(self.kernel_size, self.dilation)
        if isinstance(self.padding, str):
            return [(0, 0)] * self.axes
        return [(int(size), int(size)) for size in self.padding]

    @classmethod
    def _like(cls, layer: Any) -> Self:
        return cls(**conv_options(layer))

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, {self._quantized_repr()}, padding={self.padding}, "
            f"dilation={self.dilation}, groups={self.groups}, bias={self.bias() is not None}"
        )


class Conv1d(_QuantizedConv):
    """A convolution over one axis. See nn.Conv1d for its arguments."""

    axes = conv.Conv1d.axes


class Conv2d(_QuantizedConv):
    """A convolution over two axes. See nn.Conv2d for its arguments."""

    axes = conv.Conv2d.axes


class Conv3d(_QuantizedConv):
    """A convolution over three axes. See nn.Conv3d for its arguments."""

    axes = conv.Conv3d.axes
