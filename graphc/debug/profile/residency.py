"""In which level of the memory what a launch touches lies when it does.

in : ranges of memory in the order in which they are touched, and the levels' sizes
out: for each touch, the level it is served from

A range lies in the first level that has room for it and for all that was touched since it was
touched last: the distance of a least-recently-used cache. What was never touched comes from behind
the last cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.schedule.dependences import MemoryRange


class CacheModel:
    """Caches that keep what was touched last."""

    def __init__(self, rooms: Sequence[float]):
        self._rooms = list(rooms)
        self._recent: list[MemoryRange] = []  # the last one touched is at the end

    def touch(self, touched: MemoryRange) -> int:
        """The number of the level that serves it; afterwards it is the one touched last."""
        level = self._level(touched)
        self._recent = [r for r in self._recent if not _within(r, touched)]
        self._recent.append(touched)
        return level

    def _level(self, touched: MemoryRange) -> int:
        between = _nbytes(touched)
        finite = [room for room in self._rooms if room != float("inf")]
        most = max(finite, default=0)
        for known in reversed(self._recent):
            if _meet(known, touched):
                return self._first_with_room(between)
            between += _nbytes(known)
            if between > most:
                break
        return len(self._rooms) - 1

    def _first_with_room(self, nbytes: int) -> int:
        return next(i for i, room in enumerate(self._rooms) if nbytes <= room)


def _nbytes(touched: MemoryRange) -> int:
    return touched[2] - touched[1]


def _meet(one: MemoryRange, other: MemoryRange) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _within(one: MemoryRange, other: MemoryRange) -> bool:
    return one[0] == other[0] and other[1] <= one[1] and one[2] <= other[2]
