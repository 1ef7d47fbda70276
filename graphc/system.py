"""What the operating system offers, and what stands in where it does not offer it.

In: nothing, or a name. Out: functions of the C library, hooks for forks, the number of processors,
a digest of the files of this package.
Nothing here is looked up before it is asked for.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import hashlib
import importlib
import logging  # noqa: F401  # ahead of `forks_wait_for`
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE = 20.0
"""Seconds that a fork waits at most. What it waits for takes tenths of one."""


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


def forks_wait_for(lock: Any) -> None:
    """Have forks wait until no other thread holds a reentrant lock: what is done under it is not
    cut in two. Whoever holds several takes the one that was registered last first.

    Others have forks wait, too, and who holds this lock may wait for what they hold: then a fork
    goes on after `PATIENCE`, and the child has the lock anew. Logging does so and is imported
    ahead, so that its turn comes later.
    """
    held: dict[int, bool] = {}  # by thread

    def before() -> None:
        held[threading.get_ident()] = lock.acquire(timeout=PATIENCE)

    def in_parent() -> None:
        if held.pop(threading.get_ident(), False):
            lock.release()

    def in_child() -> None:
        if held.get(threading.get_ident()):
            lock.release()
        else:
            lock._at_fork_reinit()
        held.clear()

    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(before=before, after_in_parent=in_parent, after_in_child=in_child)


IMPORTING = threading.RLock()
"""Held while a module is imported late, inside of a function: a module that a thread imports while
another forks stays locked in the child, and whoever needs it there waits forever."""
forks_wait_for(IMPORTING)


def import_module(name: str) -> Any:
    """The module of a name, imported late."""
    with IMPORTING:
        return importlib.import_module(name)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's search for cycles: compiling makes many objects that stay, and looking
    through them again and again is a fifth of its time in Python. By the threshold, so that code of
    the user's which runs inside and switches collection on or off is not overruled."""
    threshold, *others = gc.get_threshold()
    try:
        gc.set_threshold(0, *others)
        yield
    finally:
        if gc.get_threshold()[0] == 0:  # else set meanwhile, by that code or another thread's end
            gc.set_threshold(threshold, *others)


def processors() -> int:
    """Processors this process may use: its affinity, where the system knows one, else all."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@functools.cache
def source_digest() -> str:
    """A digest of the compiler's own files: of what it makes and keeps, all depends on them."""
    digest, root = hashlib.sha256(), os.path.dirname(__file__)
    for path in sorted(_sources(root)):
        with open(path, "rb", buffering=0) as file:
            content = file.read()
        digest.update(f"{path[len(root) :]}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _sources(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir():
                yield from _sources(entry.path)
