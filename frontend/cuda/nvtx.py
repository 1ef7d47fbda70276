"""`torch.cuda.nvtx`: marks for CUDA's profiler. As in a PyTorch without CUDA, using them raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["mark", "range", "range_pop", "range_push"]


def mark(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError."""
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


range_push = range_pop = range_start = range_end = mark


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block or function that is marked. Raises RuntimeError when it is entered."""
    mark(msg)
    yield
