"""`frontend.accelerator`: there is none."""

from __future__ import annotations

from typing import Any, NoReturn

from frontend.namespace.stubs import stubs

globals().update(stubs("accelerator"))


def synchronize(device: Any = None) -> NoReturn:
    """Raises RuntimeError: there is nothing to wait for."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_index = set_device_index = current_stream = synchronize
