"""The packed copies of weights that compiled functions keep, of the whole process: how many bytes
they may take together, and which go first.

in : values that were computed from weights, by what tells their content from any other
out: the same for whoever asks for it, until a weight is written or room is needed
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from graphc.system import after_fork

DEFAULT_LIMIT = 1 << 30


class User(Protocol):
    """What uses copies: the packing of a specialization."""

    def forget(self, copy: PackedCopy) -> None: ...

    def last_used(self) -> int: ...


class PackedCopy:
    """One value computed from weights. `users` are told when it goes."""

    __slots__ = ("__weakref__", "array", "held", "users")

    def __init__(self, array: Any, held: Sequence[Any]):
        self.array = array
        self.held = held  # arrays and counters, so that their identities stay theirs
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()

    def drop(self) -> None:
        for user in list(self.users):
            user.forget(self)


class PackedCopies:
    """All packed copies of the process. Those that no function uses are gone. Beyond `limit` bytes
    the ones that were used longest ago go; those of frozen tensors alone do not count."""

    def __init__(self) -> None:
        self.limit = DEFAULT_LIMIT
        self.time = 0
        self.counted: weakref.WeakValueDictionary[Any, PackedCopy] = weakref.WeakValueDictionary()
        self.frozen: weakref.WeakValueDictionary[Any, PackedCopy] = weakref.WeakValueDictionary()
        self.unlocked()

    def unlocked(self) -> None:
        """Have a new lock: after a fork nobody gives back the one that was held."""
        self.lock = threading.RLock()

    @property
    def bytes(self) -> int:
        """Bytes that count against the limit."""
        with self.lock:
            return sum(copy.array.nbytes for copy in list(self.counted.values()))

    def make_room(self, size: int, keep: User | None = None) -> bool:
        """Drop copies until `size` bytes more are within the limit: those not used by `keep`, the
        least recently used first. False where that is not enough."""
        with self.lock:
            copies = list(self.counted.values())
            spare = self.limit - size - sum(copy.array.nbytes for copy in copies)
            others = [copy for copy in copies if keep is None or keep not in copy.users]
            if spare < 0:
                others.sort(key=lambda copy: _last_used(copy))
            for copy in others:
                if spare >= 0:
                    break
                spare += copy.array.nbytes
                copy.drop()
            return spare >= 0


PACKED = PackedCopies()
after_fork(PACKED.unlocked)


def _last_used(copy: PackedCopy) -> int:
    return max((user.last_used() for user in copy.users), default=0)
