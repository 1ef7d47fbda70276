"""Blocks of memory of calls, lent from one size to the next.

A block that was used has its pages; those of a new one are cleared when they are first touched: a
quarter of a microsecond a kilobyte, for a training step as long as a tenth of the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LARGER = 8
"""A block of more than so many times the bytes that are needed is let go."""
SPARE = 4
"""Where a block proved too small, the next has this part of its bytes more: a context that grows
call by call outgrows few."""


def uninitialised(count: int) -> Array:
    """A block of so many bytes."""
    return np.empty(count, np.uint8)


class Blocks:
    """The blocks that calls of one executable gave back. None is larger than `most` bytes for what
    it may have to spare."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._free: list[Array] = []

    def take(self, count: int) -> Array:
        """A block of at least so many bytes."""
        try:
            block = self._free.pop()  # one step, so that two threads never get the same block
        except IndexError:
            return uninitialised(count)
        if count <= block.nbytes <= LARGER * count:
            return block
        too_small = block.nbytes < count
        del block  # before there is another: never the memory of both
        spare = count // SPARE if too_small else 0
        return uninitialised(count + min(spare, max((self._most or count + spare) - count, 0)))

    def give(self, block: Array) -> None:
        """Take back a block that no call uses."""
        self._free.append(block)
