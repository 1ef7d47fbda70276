"""`torch.cuda.amp`: the former names of `torch.amp` with the device "cuda", which is not there."""

from functools import partial
from typing import Any

from frontend import amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

GradScaler = partial(amp.GradScaler, "cuda")
custom_fwd = partial(amp.custom_fwd, device_type="cuda")
custom_bwd = partial(amp.custom_bwd, device_type="cuda")


def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> amp.autocast:
    """`amp.autocast("cuda", …)`."""
    return amp.autocast("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
