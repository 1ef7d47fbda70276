"""Whether something was written that compiled functions rely on.

Guards on Modules and captured tensors are looked at again only when the mark is another one: a call
of a compiled function then costs no more for a large model than for a small one. Whoever changes
what such a guard sees sets a new mark after it: attributes and registries of Modules,
`requires_grad`, `data` and history of a tensor. What is written past them, into a Module's
`__dict__`, is not seen.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import OrderedDict
from typing import Any


class Changes:
    """`mark` is an object that was not there before the last change, in whatever thread."""

    mark: object = object()


CHANGES = Changes()


class Tracing:
    """While a thread traces, the tensors that it meets have no values. Compiled calls of other
    threads wait until it is over. `begun` counts traces: who reads values reads them again where
    one began meanwhile. `making` is held by a thread that makes an entry, so that none is made
    twice; `lock` only while it traces, ahead of compiling."""

    def __init__(self) -> None:
        self.begun = 0
        self.lock = threading.RLock()
        self.making = threading.RLock()

    def begin(self) -> None:
        self.lock.acquire()
        self.begun += 1

    def end(self) -> None:
        self.lock.release()


TRACING = Tracing()
# The thread that traces is not there after a fork.
os.register_at_fork(after_in_child=TRACING.__init__)  # type: ignore[misc]


def changed() -> None:
    """Say so after a change."""
    CHANGES.mark = object()


_WRITES = (
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
    "move_to_end", "append", "extend", "insert", "remove", "sort", "reverse", "__iadd__",
)  # fmt: skip


def _marking(base: Any) -> Any:
    """A class decorator: after a method of `base` that writes, a new mark."""

    def marked(plain: Any) -> Any:
        @functools.wraps(plain)
        def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
            result = plain(self, *arguments, **keywords)
            changed()
            return result

        return method

    def decorate(cls: Any) -> Any:
        for name in _WRITES:
            if hasattr(base, name):
                setattr(cls, name, marked(getattr(base, name)))
        return cls

    return decorate


@_marking(dict)
class Registry(dict):
    """A dict whose writes are marked: the parameters, buffers or submodules of a Module, or the
    options of a group of parameters."""


@_marking(list)
class Listing(list):
    """A list whose writes are marked: the groups of an optimizer, the parameters of one."""


@_marking(OrderedDict)
class HookRegistry(OrderedDict):
    """The same with an order that can be changed: the hooks of a Module."""
