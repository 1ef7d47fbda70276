"""Padding layers: elements put around the last one, two or three axes, or cut off."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.nn.modules.module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _PadNd(Module):
    """`padding` is one number for all sides, or (before, after) of the last axis, then of the one
    before it, and so on; negative numbers cut off."""

    axes: int
    mode: str

    def __init__(self, padding: Any):
        super().__init__()
        self.padding = _sides(padding, 2 * self.axes)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, type(self).mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


def _sides(padding: Any, count: int) -> tuple[int, ...]:
    return tuple(padding) if hasattr(padding, "__iter__") else (padding,) * count


class _ConstantPadNd(_PadNd):
    """Padding by `value`."""

    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """`value` around the last axis. See `F.pad`."""

    axes = 1


class ConstantPad2d(_ConstantPadNd):
    """`value` around the last two axes. See `F.pad`."""

    axes = 2


class ConstantPad3d(_ConstantPadNd):
    """`value` around the last three axes. See `F.pad`."""

    axes = 3


class ZeroPad1d(ConstantPad1d):
    """Zeros around the last axis."""

    def __init__(self, padding: Any):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Zeros around the last two axes."""

    def __init__(self, padding: Any):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Zeros around the last three axes."""

    def __init__(self, padding: Any):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    """What packages register rules for: reflection around any number of axes."""


class ReflectionPad1d(_ReflectionPadNd):
    """The last axis mirrored at its outermost elements: [N, C, L] or [C, L]."""

    axes, mode = 1, "reflect"


class ReflectionPad2d(_ReflectionPadNd):
    """The last two axes mirrored at their outermost elements: [N, C, H, W] or [C, H, W]."""

    axes, mode = 2, "reflect"


class ReflectionPad3d(_ReflectionPadNd):
    """The last three axes mirrored at their outermost elements: [N, C, D, H, W], or without N."""

    axes, mode = 3, "reflect"


class _ReplicationPadNd(_PadNd):
    """What packages register rules for: replication around any number of axes."""


class ReplicationPad1d(_ReplicationPadNd):
    """The outermost elements of the last axis repeated: [N, C, L] or [C, L]."""

    axes, mode = 1, "replicate"


class ReplicationPad2d(_ReplicationPadNd):
    """The outermost elements of the last two axes repeated: [N, C, H, W] or [C, H, W]."""

    axes, mode = 2, "replicate"


class ReplicationPad3d(_ReplicationPadNd):
    """The outermost elements of the last three axes repeated: [N, C, D, H, W], or without N."""

    axes, mode = 3, "replicate"


class _CircularPadNd(_PadNd):
    """Padding from the other end. Raises ValueError for an input of another rank."""

    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self.axes + 1, self.axes + 2):
            raise ValueError(
                f"expected {self.axes + 1}D or {self.axes + 2}D input (got {input.ndim}D input)"
            )
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """The last axis continued from its other end: [N, C, L] or [C, L]."""

    axes = 1


class CircularPad2d(_CircularPadNd):
    """The last two axes continued from their other ends: [N, C, H, W] or [C, H, W]."""

    axes = 2


class CircularPad3d(_CircularPadNd):
    """The last three axes continued from their other ends: [N, C, D, H, W], or without N."""

    axes = 3
