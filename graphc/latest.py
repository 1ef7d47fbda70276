"""A memo that forgets: the latest entries, by when they were last asked for."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Latest(MutableMapping[K, V]):
    """A dict of at most `most` items: those that were set or got last. Threads may share it: what
    one looks for while another moves it is missed, as if it had been forgotten."""

    def __init__(self, most: int):
        self.most = most
        self._items: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        value = self._items.pop(key)
        self._items[key] = value
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._items.pop(key, None)
        self._items[key] = value
        while len(self._items) > self.most:
            self._items.pop(next(iter(self._items)), None)

    def __delitem__(self, key: K) -> None:
        del self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._items))  # to look at an item moves it

    def __len__(self) -> int:
        return len(self._items)
