"""`torch.ao.nn`: layers that observe, and layers of integers.

intrinsic has layers fused of several, qat those that train with quantized weights, quantized those
of integers.
"""

from __future__ import annotations

from typing import Any

from graphc.system import import_module

_MODULES = ("intrinsic", "qat", "quantized")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"frontend.ao.nn.{name}")
    raise AttributeError(f"module 'frontend.ao.nn' has no attribute {name!r}")
