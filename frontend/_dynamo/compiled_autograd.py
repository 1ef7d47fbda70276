"""`torch._dynamo.compiled_autograd`: backward passes as graphs of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def _enable(
    compiler_fn: Callable[..., Any], dynamic: bool = True, ignore_active_disable_ctx: bool = True
) -> Iterator[None]:
    """A block as any other: the backward of what is compiled is compiled with it, of other ops each
    by itself."""
    yield


@contextmanager
def _disable() -> Iterator[None]:
    """A block as any other."""
    yield
