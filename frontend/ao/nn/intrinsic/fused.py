"""Layers that `fuse_modules` puts in the place of several: each a Sequential of them, observed and
quantized as one."""

from __future__ import annotations

from typing import ClassVar

from frontend.nn.modules.activation import ReLU
from frontend.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from frontend.nn.modules.container import Sequential
from frontend.nn.modules.conv import Conv1d, Conv2d, Conv3d
from frontend.nn.modules.linear import Linear
from frontend.nn.modules.module import Module


class _FusedModule:
    """What is observed and converted as one layer."""


class _Fused(_FusedModule, Sequential):
    parts: ClassVar[tuple[type[Module], ...]]

    def __init__(self, *modules: Module) -> None:
        types = tuple(type(module) for module in modules)
        if types != self.parts:
            names = ", ".join(each.__name__ for each in self.parts)
            raise TypeError(
                f"{type(self).__name__} is fused of {names}, got "
                f"{', '.join(each.__name__ for each in types)}"
            )
        super().__init__(*modules)


class ConvReLU1d(_Fused):
    """A Conv1d and a ReLU."""

    parts = (Conv1d, ReLU)


class ConvReLU2d(_Fused):
    """A Conv2d and a ReLU."""

    parts = (Conv2d, ReLU)


class ConvReLU3d(_Fused):
    """A Conv3d and a ReLU."""

    parts = (Conv3d, ReLU)


class ConvBn1d(_Fused):
    """A Conv1d and its batch normalization, for training."""

    parts = (Conv1d, BatchNorm1d)


class ConvBn2d(_Fused):
    """A Conv2d and its batch normalization, for training."""

    parts = (Conv2d, BatchNorm2d)


class ConvBn3d(_Fused):
    """A Conv3d and its batch normalization, for training."""

    parts = (Conv3d, BatchNorm3d)


class ConvBnReLU1d(_Fused):
    """A Conv1d, its batch normalization and a ReLU, for training."""

    parts = (Conv1d, BatchNorm1d, ReLU)


class ConvBnReLU2d(_Fused):
    """A Conv2d, its batch normalization and a ReLU, for training."""

    parts = (Conv2d, BatchNorm2d, ReLU)


class ConvBnReLU3d(_Fused):
    """A Conv3d, its batch normalization and a ReLU, for training."""

    parts = (Conv3d, BatchNorm3d, ReLU)


class LinearReLU(_Fused):
    """A Linear and a ReLU."""

    parts = (Linear, ReLU)
