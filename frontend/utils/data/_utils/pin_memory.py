"""`torch.utils.data._utils.pin_memory`."""

from __future__ import annotations

from typing import Any


def pin_memory(data: Any, device: Any = None) -> Any:
    """The data as it is: memory needs no pinning without a device to copy to."""
    return data
