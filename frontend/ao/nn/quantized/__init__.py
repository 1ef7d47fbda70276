"""`torch.ao.nn.quantized`: layers of integers.

layers has Quantize, DeQuantize and those with weights, rescaled those that compute in floats,
functional_modules sums and products of two tensors; dynamic those whose inputs are quantized as
they come.
"""

from __future__ import annotations

from typing import Any

from frontend.ao.nn.quantized.functional_modules import (
    FloatFunctional,
    FXFloatFunctional,
    QFunctional,
)
from frontend.ao.nn.quantized.layers import (
    Conv1d,
    Conv2d,
    Conv3d,
    DeQuantize,
    Linear,
    Quantize,
)
from frontend.ao.nn.quantized.rescaled import (
    ELU,
    BatchNorm2d,
    BatchNorm3d,
    Dropout,
    GroupNorm,
    Hardswish,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LeakyReLU,
    PReLU,
)
from frontend.nn.modules.activation import ReLU6
from frontend.nn.modules.pooling import MaxPool2d
from graphc.system import import_module

__all__ = [
    "ELU", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "DeQuantize", "Dropout",
    "FXFloatFunctional", "FloatFunctional", "GroupNorm", "Hardswish", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LeakyReLU", "Linear", "MaxPool2d", "PReLU",
    "QFunctional", "Quantize", "ReLU6",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "dynamic":
        return import_module("frontend.ao.nn.quantized.dynamic")
    raise AttributeError(f"module 'frontend.ao.nn.quantized' has no attribute {name!r}")
