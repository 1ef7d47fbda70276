"""Memory that arrays gave back is kept for those of the next step.

A step's results and gradients are fresh arrays of the same sizes as the last step's. glibc gives
large blocks back to the system as they are freed, and the pages of the next ones are cleared anew:
a quarter of a microsecond a kilobyte, often more than computing what they hold. It stops doing so
once it has seen a block of 32 MB freed; here it is told at once.
"""

from __future__ import annotations

import functools
import os

from graphc.system import c_function

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, see its manual page
LARGEST = 32 << 20
"""Bytes of a block from which on it is mapped by itself: the most that glibc comes to by itself."""


@functools.cache
def keep_freed_memory() -> None:
    """Tell the C library, where it is glibc and the user's environment says nothing of it."""
    told = os.environ.get("GLIBC_TUNABLES", "")
    if "glibc.malloc" in told or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = c_function("mallopt")
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGEST)
        mallopt(_TRIM_THRESHOLD, 2 * LARGEST)
