"""`torch.cpu`: the device that there is."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """The name "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing to choose."""


def synchronize(device: Any = None) -> None:
    """Every call has finished when it returns."""


def __getattr__(name: str) -> Any:
    """`amp` is imported when first asked for."""
    if name == "amp":
        return import_module("frontend.cpu.amp")
    raise AttributeError(f"module 'frontend.cpu' has no attribute {name!r}")
