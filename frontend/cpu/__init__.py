"""`torch.cpu`: the device that there is."""

from __future__ import annotations

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
