"""Memory that processes share: what `share_memory_` moves a tensor to, and what large tensors go
through from one process to another.

in : arrays
out: arrays over a block that other processes can map, too

A block is a file without a name, held open by the processes that use it: nothing is left behind by
one that is killed. Children of a fork have it as it is; to others its descriptor is handed on by
multiprocessing (queues, pipes, arguments of processes that are spawned).
"""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

LEAST = 1 << 18
"""Bytes from which on a tensor that is sent goes through shared memory."""


class Block(mmap.mmap):
    """A mapping of a file without a name, and the descriptor by which others get it."""

    descriptor: int

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


def _descriptor(size: int) -> int:
    make = getattr(os, "memfd_create", None)
    if make is not None:
        descriptor = make("tensor")
    else:
        import tempfile  # not before it is needed

        descriptor, path = tempfile.mkstemp(prefix="tensor-")
        os.unlink(path)
    os.ftruncate(descriptor, size)
    return int(descriptor)


def map_block(descriptor: int, size: int) -> Block:
    """The block of a descriptor, which it takes over."""
    block = Block(descriptor, max(size, 1))
    block.descriptor = descriptor
    return block


def block_of(array: Any) -> Block | None:
    """The block that an array lies in; None where that is memory of this process."""
    base = array
    while base is not None and not isinstance(base, Block):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base


def shared_copy(array: np.ndarray) -> np.ndarray:
    """An array like this one in a new block."""
    block = map_block(_descriptor(max(array.nbytes, 1)), array.nbytes)
    copy = over(block, 0, array.shape, array.dtype)
    copy[...] = array
    return copy


def over(block: Block, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array over a part of a block."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(block, dtype, count, offset).reshape(shape)


def offset_in(block: Block, array: np.ndarray) -> int:
    """Where in its block an array begins."""
    if not array.size:
        return 0
    start = np.frombuffer(block, np.uint8, 1).ctypes.data
    return int(array.ctypes.data - start)
