"""`torch.ao.nn.intrinsic`: layers fused of several, in floats.

fused has them, qat those that train with quantized weights, quantized those of integers.
"""

from __future__ import annotations

from typing import Any

from frontend.ao.nn.intrinsic.fused import (
    ConvBn1d,
    ConvBn2d,
    ConvBn3d,
    ConvBnReLU1d,
    ConvBnReLU2d,
    ConvBnReLU3d,
    ConvReLU1d,
    ConvReLU2d,
    ConvReLU3d,
    LinearReLU,
    _FusedModule,
)
from graphc.system import import_module

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU", "_FusedModule",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("qat", "quantized"):
        return import_module(f"frontend.ao.nn.intrinsic.{name}")
    raise AttributeError(f"module 'frontend.ao.nn.intrinsic' has no attribute {name!r}")
