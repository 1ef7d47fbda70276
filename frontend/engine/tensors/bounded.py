"""A dict with a limit: what was put in longest ago goes when it is full."""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Bounded(dict[Key, Value]):
    """A cache of at most `limit` items, read as any dict. A full one drops its oldest eighth, so
    that a program whose keys never end pays for each a little, and none for all."""

    __slots__ = ("_drops", "_limit")

    def __init__(self, limit: int):
        super().__init__()
        self._limit = limit
        self._drops = max(limit // 8, 1)

    def __setitem__(self, key: Key, value: Value) -> None:
        if len(self) >= self._limit:
            for oldest in _first(self, self._drops):
                self.pop(oldest, None)
        super().__setitem__(key, value)


def _first(items: dict[Key, Any], count: int) -> list[Key]:
    """The oldest keys. Another thread may put one in meanwhile: then those of a copy."""
    try:
        return list(islice(items, count))
    except RuntimeError:
        return [*items.copy()][:count]
