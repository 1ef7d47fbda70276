"""Whether something was written that compiled functions rely on.

An epoch is the time between two such writes. Guards on Modules and captured tensors are looked at
again only in another epoch: a call of a compiled function then costs no more for a large model than
for a small one. Whoever changes what such a guard sees begins a new epoch after it: attributes and
registries of Modules, `requires_grad`, `data` and history of a tensor. What is written past them,
into a Module's `__dict__`, is not seen.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import OrderedDict
from typing import Any

from graphc.system import after_fork


class Epoch:
    """`current` is an object that was not there before the last write, in whatever thread; a number
    that two threads raise at once could miss one."""

    current: object = object()


EPOCH = Epoch()


class TraceLock:
    """While a thread traces, the tensors that it meets have no values. Compiled calls of other
    threads wait until it is over. `session` is its trace. `traces` counts traces: who reads values
    reads them again where one began meanwhile. `specializing` is held by a thread that makes a
    specialization, so that none is made twice; `tracing` only while it traces, ahead of compiling.
    """

    def __init__(self) -> None:
        self.traces = 0
        self.tracing = threading.RLock()
        self.specializing = threading.RLock()
        self.session: Any = None
        self.thread = 0

    def begin(self, session: Any) -> None:
        self.tracing.acquire()
        self.traces += 1
        self.thread, self.session = threading.get_ident(), session

    def end(self) -> None:
        """No longer hold it, if this thread does."""
        if self.thread == threading.get_ident():
            self.session = None
        with contextlib.suppress(RuntimeError):
            self.tracing.release()

    def after_fork(self) -> None:
        """In the child a thread that traced is not there, nor will its trace ever end: tensors and
        containers are as before it. One that traced and forked goes on."""
        session, thread = self.session, self.thread
        traces = self.traces
        self.__init__()  # type: ignore[misc]
        if session is None:
            return
        if thread == threading.get_ident():
            self.begin(session)
        else:
            session.abandon()
            self.traces = traces + 1


TRACE_LOCK = TraceLock()
after_fork(TRACE_LOCK.after_fork)


def changed() -> None:
    """Begin a new epoch, after a write."""
    EPOCH.current = object()


_WRITES = (
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
    "move_to_end", "append", "extend", "insert", "remove", "sort", "reverse", "__iadd__",
)  # fmt: skip


def begins_epoch(base: Any) -> Any:
    """A class decorator: after a method of `base` that writes, a new epoch."""

    def counted(plain: Any) -> Any:
        @functools.wraps(plain)
        def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
            result = plain(self, *arguments, **keywords)
            changed()
            return result

        return method

    def decorate(cls: Any) -> Any:
        for name in _WRITES:
            if hasattr(base, name):
                setattr(cls, name, counted(getattr(base, name)))
        return cls

    return decorate


@begins_epoch(dict)
class Registry(dict):
    """A dict whose writes begin an epoch: the parameters, buffers or submodules of a Module, or the
    options of a group of parameters."""


@begins_epoch(list)
class Listing(list):
    """A list whose writes begin an epoch: the groups of an optimizer, the parameters of one."""


@begins_epoch(OrderedDict)
class HookRegistry(OrderedDict):
    """The same with an order that can be changed: the hooks of a Module."""
