"""`torch.cuda.amp`: the former names of `torch.amp` with the device "cuda", which is not there."""

from __future__ import annotations

from functools import partial
from typing import Any

from frontend import amp
from frontend.engine.tensors.dtypes import float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

custom_fwd = partial(amp.custom_fwd, device_type="cuda")
custom_bwd = partial(amp.custom_bwd, device_type="cuda")


class GradScaler(amp.GradScaler):
    """`amp.GradScaler("cuda", …)`."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ):  # fmt: skip
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


class autocast(amp.autocast):
    """`amp.autocast("cuda", …)`."""

    def __init__(self, enabled: bool = True, dtype: Any = float16, cache_enabled: bool = True):
        super().__init__("cuda", dtype, enabled, cache_enabled)
