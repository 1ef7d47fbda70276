"""`torch.nn.attention`: which implementation of attention may run. There is one, the formula's.

bias has causal masks as tensors; flex_attention is not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """PyTorch's implementations of `scaled_dot_product_attention`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Choose implementations for the block. All compute the same; here it is one kernel whichever
    is asked for. Raises TypeError for what is no SDPBackend, RuntimeError for none at all."""
    wanted = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in wanted:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"Backend must be an instance of SDPBackend, got {type(backend)}")
    if not wanted:
        raise RuntimeError("At least one backend must be provided")
    yield
