"""`autocast`: which dtype functions compute in, inside a block.

In a region enabled for the CPU, products, convolutions and attention take their operands in the
region's dtype (bfloat16 unless it says otherwise), losses and what needs range in float32, all else
as it comes: the functions say which they are (`frontend.engine.eager.autocasting`).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from frontend.engine.eager.autocasting import casted_tensors
from frontend.engine.tensors.dtypes import as_dtype, device
from frontend.engine.tensors.state import STATE, swap_autocast
from graphc.ir.types import DType

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_PLACES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "maia", "ipu", "xla", "privateuseone")
_SUPPORTED = (DType.bf16, DType.f16)


def is_autocast_available(device_type: str) -> bool:
    """True for the CPU; also, as in PyTorch, for devices that have the mode and are not there."""
    return device_type in _PLACES


class autocast:
    """A block, or decorated function, in which functions choose the dtype they compute in.

    For "cuda" and other devices that are not there it does nothing and warns, as in PyTorch. With
    `enabled=False` functions inside take their operands as they are. `cache_enabled` changes
    nothing: casts are not kept. Raises RuntimeError for a device type PyTorch does not have."""

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True,
        cache_enabled: bool | None = None,
    ):  # fmt: skip
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else as_dtype(dtype)
        if enabled and device_type != "cpu":
            warnings.warn(
                f"User provided device_type of '{device_type}', but "
                f"{device_type.upper()} is not available. Disabling",
                UserWarning,
                stacklevel=2 if type(self) is autocast else 3,
            )
            enabled = False
        if enabled and self.fast_dtype not in _SUPPORTED:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU "
                "Autocast only supports dtype of torch.bfloat16, torch.float16 currently.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list[DType | None] = []

    def __enter__(self) -> autocast:
        mode = self.fast_dtype if self._enabled else None
        # A block for a device that is not there leaves the CPU's mode as it is.
        self._before.append(swap_autocast(mode if self.device == "cpu" else STATE.autocast))
        return self

    def __exit__(self, *error: Any) -> None:
        swap_autocast(self._before.pop())

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapped


def custom_fwd(
    fwd: Any = None, *, device_type: str = "cpu", cast_inputs: Any = None
) -> Callable[..., Any]:
    """For `forward` of a custom Function: with `cast_inputs`, its float tensors come in that dtype
    and it runs outside of autocast, where an enabled region of that device called it."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        mode = STATE.autocast if device_type == "cpu" else None
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = mode is not None if cast_inputs is None else False
        if cast_inputs is None or mode is None:
            return fwd(*args, **kwargs)
        kind = as_dtype(cast_inputs)
        with autocast(device_type, enabled=False):
            return fwd(*casted_tensors(args, kind), **casted_tensors(kwargs, kind))

    return wrapped


def custom_bwd(bwd: Any = None, *, device_type: str = "cpu") -> Callable[..., Any]:
    """For `backward` of a custom Function: it runs in the mode its `forward` ran in."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        used = args[0]._fwd_used_autocast
        before = swap_autocast(args[0]._dtype if used else None)
        try:
            return bwd(*args, **kwargs)
        finally:
            swap_autocast(before)

    return wrapped


# -- what torch.* asks and sets ------------------------------------------------------------------


def is_autocast_enabled(device_type: Any = "cuda") -> bool:
    """Whether an enabled region of that device's is under way; CUDA's without an argument."""
    return device(device_type).type == "cpu" and STATE.autocast is not None


def is_autocast_cpu_enabled() -> bool:
    """Whether an enabled region of the CPU is under way."""
    return STATE.autocast is not None


def get_autocast_dtype(device_type: Any) -> DType:
    """The dtype of a region that names none: bfloat16 on the CPU, float16 on others."""
    if STATE.autocast is not None and device(device_type).type == "cpu":
        return STATE.autocast
    return DType.bf16 if device(device_type).type == "cpu" else DType.f16


def get_autocast_cpu_dtype() -> DType:
    """`get_autocast_dtype("cpu")`."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """`get_autocast_dtype("cuda")`."""
    return get_autocast_dtype("cuda")


def is_autocast_cache_enabled() -> bool:
    """False: casts are not kept."""
    return False


def clear_autocast_cache() -> None:
    """Nothing to clear."""
