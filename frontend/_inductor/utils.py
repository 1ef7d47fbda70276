"""`torch._inductor.utils`: PyTorch's compiler's cache on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def fresh_cache(cache_entries: Any = None, dir: Any = None, delete: bool = True) -> Iterator[None]:
    """A block as any other: there is no such cache. That of graphc stays (`graphc cache` tells of
    it, and empties it)."""
    yield


fresh_inductor_cache = fresh_cache
