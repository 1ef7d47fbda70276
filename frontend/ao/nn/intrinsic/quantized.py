"""`torch.ao.nn.intrinsic.quantized`: layers of integers whose negative results are 0."""

from __future__ import annotations

from frontend.ao.nn.quantized import layers

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"]


class ConvReLU1d(layers.Conv1d):
    """A quantized Conv1d and a ReLU."""

    relu = True


class ConvReLU2d(layers.Conv2d):
    """A quantized Conv2d and a ReLU."""

    relu = True


class ConvReLU3d(layers.Conv3d):
    """A quantized Conv3d and a ReLU."""

    relu = True


class LinearReLU(layers.Linear):
    """A quantized Linear and a ReLU."""

    relu = True
