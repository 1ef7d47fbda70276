"""Names of PyTorch that are about where and how it runs. Here there is one place, and every result
is the same bits each time, so most of them only remember what they were told."""

from __future__ import annotations

import math
import warnings
from importlib import import_module
from typing import Any

from frontend.engine.tensors.dtypes import device, place_of
from frontend.engine.tensors.state import STATE, swap_devices
from frontend.engine.tensors.threads import check_threads, get_num_threads, set_num_threads

__all__ = [
    "are_deterministic_algorithms_enabled", "e", "get_default_device",
    "get_deterministic_debug_mode", "get_device_module", "get_float32_matmul_precision",
    "get_num_interop_threads", "get_num_threads", "inf",
    "is_deterministic_algorithms_warn_only_enabled", "nan", "newaxis", "pi", "set_default_device",
    "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
    "set_num_interop_threads", "set_num_threads", "use_deterministic_algorithms",
]  # fmt: skip

inf, nan, pi, e, newaxis = math.inf, math.nan, math.pi, math.e, None

_deterministic = [0]
_MODES = ("default", "warn", "error")
_matmul_precision = ["highest"]


def get_num_interop_threads() -> int:
    """1: no two operations run side by side but inside a call of a compiled function."""
    return 1


def set_num_interop_threads(int: Any) -> None:
    """Changes nothing: see `get_num_interop_threads`."""
    check_threads("set_num_interop_threads", int)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remembered, and true anyway: no op here depends on chance or on the order of threads."""
    _deterministic[0] = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was told last."""
    return _deterministic[0] > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` was told last."""
    return _deterministic[0] == 1


def get_deterministic_debug_mode() -> int:
    """0, 1 (warn) or 2 (error)."""
    return _deterministic[0]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0, 1, 2 or "default", "warn", "error": remembered. Raises RuntimeError for others."""
    if debug_mode not in (0, 1, 2, *_MODES):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, 2 or {', '.join(_MODES)}, but got "
            f"{debug_mode}"
        )
    _deterministic[0] = _MODES.index(debug_mode) if isinstance(debug_mode, str) else debug_mode


def set_float32_matmul_precision(precision: str) -> None:
    """Remembered: products of float32 are always computed in float32 ("highest")."""
    if precision in ("highest", "high", "medium"):
        _matmul_precision[0] = precision
        return
    warnings.warn(
        f"{precision} is not one of 'highest', 'high', or 'medium'; the call has no effect.",
        UserWarning,
        stacklevel=2,
    )


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was told last."""
    return _matmul_precision[0]


def set_default_device(device: Any) -> None:
    """Have tensors made on "cpu", as at the start (also for None), or without data on "meta", where
    no `device=` and no `with device(…)` says otherwise. Raises as `device` does for others."""
    swap_devices((None if device is None else place_of(device), *STATE.devices[1:]))


def get_default_device() -> device:
    """Where tensors are made that no `device=` places."""
    return place_of(None)


def get_device_module(device: Any = None) -> Any:
    """`torch.cpu`, which None asks for, `torch.cuda` and the like. Raises RuntimeError for what is
    no device or has no module."""
    kind = str(getattr(device, "type", device or "cpu")).partition(":")[0]
    try:
        return import_module(f"frontend.{kind}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        ) from None


def set_flush_denormal(mode: bool) -> bool:
    """Whether `mode` is what is done: subnormal numbers are always kept."""
    return not mode
