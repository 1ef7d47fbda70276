"""Memory of compiled calls between fences: what native code writes beyond its memory shows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from graphc.runtime import blocks, executable
from graphc.runtime.executable import Executable
from tests.fuzz.frame import Broken

Array = np.ndarray[Any, Any]
WIDTH = 1 << 16
"""Bytes of a fence, a whole number of cache lines."""
MARK = 0xA5


class Fences:
    """Arrays, each between two fences of `WIDTH` bytes."""

    def __init__(self) -> None:
        self._made: list[tuple[Array, int, int, str]] = []

    def array(self, shape: tuple[int, ...], dtype: Any, of: str = "a result") -> Array:
        """An array that starts at a cache line."""
        dtype = np.dtype(dtype)
        count = math.prod(shape) * dtype.itemsize
        block = np.full(count + 2 * WIDTH + executable.CACHE_LINE, MARK, np.uint8)
        first = WIDTH + -(block.ctypes.data + WIDTH) % executable.CACHE_LINE
        self._made.append((block, first, count, of))
        return block[first : first + count].view(dtype).reshape(shape)

    def check(self) -> None:
        """Raises Broken where a fence was written."""
        for block, first, count, of in self._made:
            for part, where in ((block[:first], "before"), (block[first + count :], "behind")):
                if (part != MARK).any():
                    raise Broken(f"native code wrote {where} the {count} bytes of {of}")


@contextmanager
def fenced() -> Iterator[Fences]:
    """While this lasts, the results of executables that are made, and the memory of their calls,
    lie between fences. Afterwards they are checked."""
    fences = Fences()
    original = Executable.__init__

    def init(self: Executable, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        self._fresh = [(fences.array, shape, dtype) for _, shape, dtype in self._fresh]

    def memory(count: int) -> Array:
        return fences.array((count,), np.uint8, "a call's memory")

    with (
        mock.patch.object(Executable, "__init__", init),
        mock.patch.object(executable, "uninitialised", memory),
        mock.patch.object(blocks, "uninitialised", memory),
    ):
        yield fences
    fences.check()
