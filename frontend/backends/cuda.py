"""CUDA is not there; its switches may be set and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from frontend.namespace.stubs import stubs


class _Matmul:
    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Matmul()
globals().update(stubs("backends.cuda"))


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:  # fmt: skip
    """The former `nn.attention.sdpa_kernel`: attention is one kernel, whichever is allowed."""
    yield
