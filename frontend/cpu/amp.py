"""`torch.cpu.amp`: autocast of the CPU under its older name."""

from __future__ import annotations

from typing import Any

from frontend import amp
from frontend.engine.tensors.dtypes import bfloat16

__all__ = ["autocast"]


class autocast(amp.autocast):
    """`amp.autocast("cpu", …)`."""

    def __init__(self, enabled: bool = True, dtype: Any = bfloat16, cache_enabled: bool = True):
        super().__init__("cpu", dtype, enabled, cache_enabled)
