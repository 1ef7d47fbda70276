"""What the operating system offers, and what stands in where it does not offer it.

In: nothing, or a name. Out: functions of the C library, hooks for forks, the number of processors,
a digest of the files of this package.
Nothing here is looked up before it is asked for.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def c_function(name: str) -> Any:
    """A function of the C library of this process, a new one for each caller, who declares its
    types; None where there is no such function, or no way to ask."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, TypeError, AttributeError):
        return None


def after_fork(hook: Callable[[], object]) -> None:
    """Have `hook` called in each child of a fork; systems without forks have no such children."""
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=hook)


def processors() -> int:
    """Processors this process may use: its affinity, where the system knows one, else all."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@functools.cache
def source_digest() -> str:
    """A digest of the compiler's own files: of what it makes and keeps, all depends on them."""
    digest, root = hashlib.sha256(), Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
