"""`frontend.accelerator`: there is none."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None."""


def synchronize(device: Any = None) -> None:
    """Raises RuntimeError: there is nothing to wait for."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_index = set_device_index = current_stream = synchronize
