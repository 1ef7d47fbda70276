"""`torch.ao.quantization`: not here; each name raises NotImplementedError when used."""

from __future__ import annotations

from typing import Any, NoReturn

from frontend.namespace.stubs import stubs


def _absent(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("torch.ao.quantization: there is no quantization; compute in floats")


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
    "get_default_qconfig", "prepare", "prepare_qat", "quantize", "quantize_dynamic",
)  # fmt: skip
globals().update(dict.fromkeys(_FUNCTIONS, _absent))
__all__ = ["DeQuantStub", "QConfig", "QuantStub", *_FUNCTIONS]
