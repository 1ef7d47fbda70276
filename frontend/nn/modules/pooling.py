"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.nn.geometry import IntOrInts, ints
from frontend.nn.modules.module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


# -- the greatest --------------------------------------------------------------------------------


class _MaxPoolNd(Module):
    """The maximum of each window. With `return_indices` also where it stands in the image."""

    function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: IntOrInts = 0,
        dilation: IntOrInts = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The maximum of each window over the last axis: see `F.max_pool1d`."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The maximum of each window over the last two axes: see `F.max_pool2d`."""

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The maximum of each window over the last three axes: see `F.max_pool3d`."""

    function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    """Zeros, with each element where the indices of a max pooling say."""

    axes: int
    function: Callable[..., Tensor]

    def __init__(
        self, kernel_size: IntOrInts, stride: IntOrInts | None = None, padding: IntOrInts = 0
    ):
        super().__init__()
        self.kernel_size = ints(kernel_size, self.axes, "kernel_size")
        step = kernel_size if stride is None else stride
        self.stride = ints(step, self.axes, "stride")
        self.padding = ints(padding, self.axes, "padding")

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return type(self).function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """The way back of `MaxPool1d`: see `F.max_unpool1d`."""

    axes, function = 1, staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """The way back of `MaxPool2d`: see `F.max_unpool2d`."""

    axes, function = 2, staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """The way back of `MaxPool3d`: see `F.max_unpool3d`."""

    axes, function = 3, staticmethod(F.max_unpool3d)


# -- means and norms -----------------------------------------------------------------------------


class AvgPool1d(Module):
    """The mean of each window over the last axis: see `F.avg_pool1d`."""

    def __init__(
        self,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: IntOrInts = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        super().__init__()
        self.kernel_size = ints(kernel_size, 1, "kernel_size")
        self.stride = self.kernel_size if stride is None else ints(stride, 1, "stride")
        self.padding = ints(padding, 1, "padding")
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(Module):
    """The mean of each window over two or three axes."""

    function: Callable[..., Tensor]

    def __init__(
        self,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: IntOrInts = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPoolNd):
    """The mean of each window over the last two axes: see `F.avg_pool2d`."""

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """The mean of each window over the last three axes: see `F.avg_pool3d`."""

    function = staticmethod(F.avg_pool3d)


class _LPPoolNd(Module):
    """(Σ x^norm_type)^(1/norm_type) of each window."""

    function: Callable[..., Tensor]

    def __init__(
        self,
        norm_type: float,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """A norm of each window over the last axis: see `F.lp_pool1d`."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """A norm of each window over the last two axes: see `F.lp_pool2d`."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """A norm of each window over the last three axes: see `F.lp_pool3d`."""

    function = staticmethod(F.lp_pool3d)


# -- adaptive ------------------------------------------------------------------------------------


class _AdaptiveAvgPoolNd(Module):
    """Means of as many windows as the result shall have places."""

    function: Callable[..., Tensor]

    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over the last axis: see `F.adaptive_avg_pool1d`."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means over the last two axes: see `F.adaptive_avg_pool2d`."""

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means over the last three axes: see `F.adaptive_avg_pool3d`."""

    function = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(Module):
    """Maxima of as many windows as the result shall have places."""

    function: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over the last axis: see `F.adaptive_max_pool1d`."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over the last two axes: see `F.adaptive_max_pool2d`."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over the last three axes: see `F.adaptive_max_pool3d`."""

    function = staticmethod(F.adaptive_max_pool3d)
