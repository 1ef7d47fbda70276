"""`torch.cpu`: the device that there is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from frontend.namespace.stubs import stubs

globals().update(stubs("cpu"))


def __getattr__(name: str) -> Any:
    """`amp` is imported when first asked for."""
    if name == "amp":
        return import_module("frontend.cpu.amp")
    raise AttributeError(f"module 'frontend.cpu' has no attribute {name!r}")
