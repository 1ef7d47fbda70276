"""Convolution layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from frontend.creation import empty
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.checks import expanded
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from frontend.tensor import Tensor

__all__ = ["Conv1d", "Conv2d"]

IntOrInts = int | Sequence[int]


class _Convolution(Module):
    """What the convolutions share; a subclass names the number of axes and the function."""

    axes: int
    function: Callable[..., Tensor]

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
        *,
        dtype: Any = None,
    ):
        super().__init__()
        _check_channels(in_channels, out_channels, groups)
        if padding_mode != "zeros":
            raise NotImplementedError(f"padding_mode {padding_mode!r}: only 'zeros' is supported")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = expanded(kernel_size, self.axes, "kernel_size")
        self.stride = expanded(stride, self.axes, "stride")
        self.padding = self._checked_padding(padding)
        self.dilation = expanded(dilation, self.axes, "dilation")
        self.groups = groups
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(empty((out_channels,), dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def _checked_padding(self, padding: IntOrInts | str) -> tuple[int, ...] | str:
        if not isinstance(padding, str):
            return expanded(padding, self.axes, "padding")
        if padding not in ("valid", "same"):
            raise ValueError(
                f"Invalid padding string '{padding}', should be one of {{'valid', 'same'}}"
            )
        if padding == "same" and any(step != 1 for step in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        return padding

    def reset_parameters(self) -> None:
        """Draw new initial values: U(-k, k) with k = 1/√(in_channels/groups · taps)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            init.default_bias_(self.bias, self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}",
            f"kernel_size={self.kernel_size}, stride={self.stride}",
        ]
        if self.padding != (0,) * self.axes:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * self.axes:
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        return ", ".join(parts)


class Conv1d(_Convolution):
    """Cross-correlation over one axis: [N, in_channels, L], or without N. See `Conv2d`."""

    axes = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Convolution):
    """Cross-correlation over two axes: [N, in_channels, H, W], or without N.

    `weight` is [out_channels, in_channels/groups, *kernel_size], `bias` [out_channels]. `padding`
    is a number per axis, 'valid' or 'same'. Raises ValueError where channels, groups, strides and
    padding do not go together.
    """

    axes = 2
    function = staticmethod(F.conv2d)


def _check_channels(in_channels: int, out_channels: int, groups: int) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups:
        raise ValueError("out_channels must be divisible by groups")
