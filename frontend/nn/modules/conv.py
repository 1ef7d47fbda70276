"""Convolution layers, and the transposed ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.functional.conv import same_padding
from frontend.nn.geometry import IntOrInts, ints
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

_PADDING_MODES = ("zeros", "replicate", "reflect", "circular")


class _ConvNd(Module):
    """What all convolutions share; a subclass says over how many axes and by which function."""

    axes: int
    function: Callable[..., Tensor]
    transposed = False
    weight: Any
    bias: Any

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, output_padding: Any, groups: int, bias: bool, padding_mode: str,
        device: Any, dtype: Any,
    ):  # fmt: skip
        super().__init__()
        _check_channels(in_channels, out_channels, groups)
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {{{', '.join(map(repr, _PADDING_MODES))}}}, but got "
                f"{padding_mode=}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = ints(kernel_size, self.axes, "kernel_size")
        self.stride = ints(stride, self.axes, "stride")
        self.padding = self._checked_padding(padding)
        self.dilation = ints(dilation, self.axes, "dilation")
        self.transposed = type(self).transposed
        self.output_padding = ints(output_padding, self.axes, "output_padding")
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._around()
        channels = (out_channels, in_channels // groups)
        if self.transposed:
            channels = (in_channels, out_channels // groups)
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(empty((*channels, *self.kernel_size), **options))
        parameter = Parameter(empty((out_channels,), **options)) if bias else None
        self.register_parameter("bias", parameter)
        self.reset_parameters()

    def _checked_padding(self, padding: IntOrInts | str) -> tuple[int, ...] | str:
        if not isinstance(padding, str):
            return ints(padding, self.axes, "padding")
        if padding not in ("valid", "same"):
            raise ValueError(
                f"Invalid padding string '{padding}', should be one of {{'valid', 'same'}}"
            )
        if padding == "same" and any(step != 1 for step in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        return padding

    def _around(self) -> Any:
        """The padding in the order of `F.pad`: before and after, the last axis first. PyTorch has
        a list where `padding` is a word, and a tuple elsewhere."""
        if self.padding == "valid":
            pairs = [(0, 0)] * self.axes
        elif self.padding == "same":
            pairs = same_padding(self.kernel_size, self.dilation)
        else:
            pairs = [(int(size), int(size)) for size in self.padding]
        sides = [size for pair in reversed(pairs) for size in pair]
        return sides if isinstance(self.padding, str) else tuple(sides)

    def reset_parameters(self) -> None:
        """Draw new initial values: U(-k, k) with k = 1/√(channels of the weight's second axis ·
        taps)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            init.default_bias_(self.bias, self.weight)

    def extra_repr(self) -> str:
        none, one = (0,) * self.axes, (1,) * self.axes
        parts = [
            f"{self.in_channels}, {self.out_channels}",
            f"kernel_size={self.kernel_size}, stride={self.stride}",
        ]
        for name, default in (
            ("padding", none), ("dilation", one), ("output_padding", none), ("groups", 1)
        ):  # fmt: skip
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Convolution(_ConvNd):
    """The signature of the plain convolutions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrInts,
        stride: IntOrInts = 1,
        padding: IntOrInts | str = 0,
        dilation: IntOrInts = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return type(self).function(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )


class Conv1d(_Convolution):
    """Cross-correlation over one axis: [N, in_channels, L], or without N. See `Conv2d`."""

    axes = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Convolution):
    """Cross-correlation over two axes: [N, in_channels, H, W], or without N.

    `weight` is [out_channels, in_channels/groups, *kernel_size], `bias` [out_channels]. `padding`
    is a number per axis, 'valid' or 'same'; `padding_mode` 'zeros', 'reflect', 'replicate' or
    'circular' says with what. Raises ValueError where channels, groups, strides and padding do not
    go together.
    """

    axes = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Convolution):
    """Cross-correlation over three axes: [N, in_channels, D, H, W], or without N. See `Conv2d`."""

    axes = 3
    function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """The signature of the transposed convolutions, and the size of their result."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrInts,
        stride: IntOrInts = 1,
        padding: IntOrInts = 0,
        output_padding: IntOrInts = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: IntOrInts = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        if isinstance(padding, str):
            raise TypeError(f"padding must be an int or a tuple of ints, not {padding!r}")
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding,
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """`output_size` says which of the sizes that the stride leaves open the result has. Raises
        ValueError for one that is none of them."""
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding,
            self._output_padding(input, output_size), self.groups, self.dilation,
        )  # fmt: skip

    def _output_padding(self, x: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        if output_size is None:
            return self.output_padding
        size = [int(n) for n in output_size]
        lead = x.ndim - self.axes
        if len(size) == x.ndim:
            size = size[lead:]
        if len(size) != self.axes:
            raise ValueError(
                f"{type(self).__name__}: for {x.ndim}D input, output_size must have {self.axes} or "
                f"{x.ndim} elements (got {len(size)})"
            )
        axes = zip(x.shape[lead:], self.kernel_size, self.stride, self.padding, self.dilation)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, k, s, p, d in axes]  # type: ignore[operator]
        most = [first + s - 1 for first, s in zip(least, self.stride)]
        if any(not low <= n <= high for low, n, high in zip(least, size, most)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to "
                f"{most} (for an input of {x.shape[2:]})"
            )
        return tuple(n - low for n, low in zip(size, least))


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over one axis: [N, in_channels, L], or without N. See
    `ConvTranspose2d`."""

    axes = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of a convolution by its input: [N, in_channels, H, W], or without N.

    `weight` is [in_channels, out_channels/groups, *kernel_size], `bias` [out_channels]. An axis of
    n elements becomes one of (n - 1)·stride - 2·padding + dilation·(kernel - 1) + output_padding +
    1. Raises ValueError where channels and groups do not go together.
    """

    axes = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over three axes: [N, in_channels, D, H, W], or without N. See
    `ConvTranspose2d`."""

    axes = 3
    function = staticmethod(F.conv_transpose3d)


def _check_channels(in_channels: int, out_channels: int, groups: int) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups:
        raise ValueError("out_channels must be divisible by groups")
