"""Buckets of gradients in memory that the ranks of one machine share.

in : the buckets of a model, as all ranks of a group have them
out: their arrays lie in that memory, and each rank has those of all; nothing, where ranks are on
     several machines, or there is too little of it

What lies there need not be sent: each rank adds up its part of all arrays and puts the sum into
them (`exchange.all_reduce`).
"""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from frontend.distributed.objects import all_gather_object

if TYPE_CHECKING:
    from frontend.distributed.groups import ProcessGroup
    from frontend.distributed.reducer import Bucket

FOLDER = "/dev/shm"


def share(buckets: Sequence[Bucket], chosen: ProcessGroup) -> None:
    """Have the buckets lie in shared memory, where all ranks can. Called by all of them at once."""
    if chosen.size() == 1:
        return
    page = mmap.PAGESIZE
    starts = [0, *itertools.accumulate(-(-bucket.flat.nbytes // page) * page for bucket in buckets)]
    path = _reserved(starts[-1], chosen.size())
    try:
        paths: list[str] = []
        all_gather_object(paths, path, chosen)
        memories = [_opened(each, starts[-1]) for each in paths]
        everywhere: list[bool] = []
        all_gather_object(everywhere, None not in memories, chosen)
    finally:  # from here on the name is not needed
        if path:
            os.unlink(path)
    if not all(everywhere):
        return
    for bucket, start in zip(buckets, starts):
        arrays = [
            np.frombuffer(memory, bucket.dtype.numpy, bucket.flat.size, start)
            for memory in memories
            if memory is not None
        ]
        bucket.lie_in(arrays, chosen.rank(), paths[0])


def _reserved(nbytes: int, ranks: int) -> str:
    """A file of so many bytes that are there. "": there are none, or ranks would take more than
    half of what is free (containers give 64 MB for all uses)."""
    if not os.access(FOLDER, os.W_OK):
        return ""
    free = os.statvfs(FOLDER)
    if 2 * nbytes * ranks > free.f_bavail * free.f_frsize:
        return ""
    descriptor, path = tempfile.mkstemp(prefix="buckets-", dir=FOLDER)
    try:
        os.posix_fallocate(descriptor, 0, nbytes)
    except OSError:
        os.unlink(path)
        return ""
    finally:
        os.close(descriptor)
    return path


def _opened(path: str, nbytes: int) -> mmap.mmap | None:
    """The memory of a file that a rank reserved; None where this machine has no such file."""
    try:
        with open(path, "r+b") as file:
            return mmap.mmap(file.fileno(), nbytes)
    except OSError:
        return None
