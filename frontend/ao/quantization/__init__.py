"""`torch.ao.quantization`: `quantize_dynamic`, and `quantize_` as torchao has it. What observes and
converts models raises NotImplementedError when used.

integers chooses scales, linear has the layers, quantize_api puts them into models.
"""

from __future__ import annotations

from typing import Any, NoReturn

from frontend.ao.quantization.quantize_api import (
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    quantize_,
    quantize_dynamic,
)
from frontend.namespace.stubs import stubs

INSTEAD = "there are quantize_ and quantize_dynamic; else compute in floats"


def _absent(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(f"torch.ao.quantization: {INSTEAD}")


class QConfig:
    """Raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any):
        _absent()


class QuantStub(QConfig):
    """Raises NotImplementedError."""


class DeQuantStub(QConfig):
    """Raises NotImplementedError."""


globals().update(stubs("ao.quantization"))

_FUNCTIONS = (
    "convert", "default_observer", "default_per_channel_weight_observer",
    "default_weight_observer", "fuse_modules", "fuse_modules_qat", "get_default_qat_qconfig",
    "get_default_qconfig", "prepare", "prepare_qat", "quantize",
)  # fmt: skip
globals().update(dict.fromkeys(_FUNCTIONS, _absent))
__all__ = [
    "DeQuantStub", "Int4WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig",
    "Int8WeightOnlyConfig", "QConfig", "QuantStub", "quantize_", "quantize_dynamic", *_FUNCTIONS,
]  # fmt: skip
