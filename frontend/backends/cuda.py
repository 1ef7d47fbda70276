"""CUDA is not there; its switches may be set and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class _Matmul:
    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Matmul()


def is_built() -> bool:
    """False."""
    return False


def _enabled() -> bool:
    """True: attention is one kernel, whichever is allowed."""
    return True


flash_sdp_enabled = mem_efficient_sdp_enabled = math_sdp_enabled = cudnn_sdp_enabled = _enabled


def _enable(enabled: bool) -> None:
    """Nothing to switch: attention is one kernel, whichever is allowed."""


enable_flash_sdp = enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = _enable


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:  # fmt: skip
    """The former `nn.attention.sdpa_kernel`: attention is one kernel, whichever is allowed."""
    yield
