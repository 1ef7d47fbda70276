"""Hooks for `DistributedDataParallel.register_comm_hook`: averages, plain or in half precision.
`state` is the process group, None for all processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.distributed.collectives import ReduceOp, all_reduce
from frontend.distributed.groups import get_world_size
from frontend.distributed.world import Work
from graphc.ir.types import DType


def _averaged(group: Any, buffer: Any) -> Any:
    work = all_reduce(buffer, ReduceOp.AVG, group, async_op=True)
    assert isinstance(work, Work)
    return work.get_future()


def allreduce_hook(process_group: Any, bucket: Any) -> Any:
    """The average."""
    return _averaged(process_group, bucket.buffer()).then(lambda future: future.value()[0])


def _compressed(dtype: DType) -> Callable[[Any, Any], Any]:
    def hook(process_group: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        # Divided first: the sum of many gradients may be beyond half precision.
        small = (buffer / get_world_size(process_group)).to(dtype)
        work = all_reduce(small, ReduceOp.SUM, process_group, async_op=True)
        assert isinstance(work, Work)
        return work.get_future().then(lambda future: future.value()[0].to(buffer.dtype))

    return hook


fp16_compress_hook = _compressed(DType.f16)
bf16_compress_hook = _compressed(DType.bf16)


def _wrapper(dtype: DType) -> Callable[[Any], Any]:
    def wrap(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def wrapped(state: Any, bucket: Any) -> Any:
            dtype_before = bucket.buffer().dtype
            bucket.set_buffer(bucket.buffer().to(dtype).to(dtype_before))
            return hook(state, bucket)

        return wrapped

    return wrap


fp16_compress_wrapper = _wrapper(DType.f16)
bf16_compress_wrapper = _wrapper(DType.bf16)
