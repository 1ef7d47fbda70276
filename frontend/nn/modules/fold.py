"""Patches of images as columns, and back."""

from __future__ import annotations

from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.nn.geometry import IntOrInts
from frontend.nn.modules.module import Module

__all__ = ["Fold", "Unfold"]


class Unfold(Module):
    """[N, C, H, W] to [N, C·KH·KW, L]: what a sliding kernel sees, as columns. See `F.unfold`."""

    def __init__(
        self,
        kernel_size: IntOrInts,
        dilation: IntOrInts = 1,
        padding: IntOrInts = 0,
        stride: IntOrInts = 1,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """[N, C·KH·KW, L] to [N, C, *output_size]: columns added up to an image. See `F.fold`."""

    def __init__(
        self,
        output_size: IntOrInts,
        kernel_size: IntOrInts,
        dilation: IntOrInts = 1,
        padding: IntOrInts = 0,
        stride: IntOrInts = 1,
    ):
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )
