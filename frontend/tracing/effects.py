"""Effects that nothing can undo, of a function that is traced: they end the trace before they
happen, where eager code goes on in its place.

in : a trace under way
out: TraceError from what prints, logs, opens and changes files, sleeps or runs programs, in the
     thread that traces and where code of the user's or of a library of theirs calls it

What does it is a function of Python's library: another one stands in its place for as long as the
trace lasts. C code that writes for itself is not seen.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from frontend.tensors.state import tracing
from graphc.errors import TraceError
from graphc.ir.nodes import Location
from graphc.ir.own_frames import is_own

_OF_OS = (
    "chmod", "chown", "execv", "execve", "fork", "ftruncate", "kill", "link", "makedirs", "mkdir",
    "open", "pipe", "posix_spawn", "putenv", "remove", "removedirs", "rename", "renames", "replace",
    "rmdir", "symlink", "system", "truncate", "unlink", "unsetenv", "utime", "write",
)  # fmt: skip
_OF_MODULES = (
    ("logging", "Logger", "callHandlers", "logging"),
    ("subprocess", "Popen", "__init__", "running a program"),
    ("socket", "socket", "__init__", "opening a connection"),
)
"""Methods of classes of modules that may be imported, and what errors call them."""
_READING_CODE = {"linecache", "importlib._bootstrap", "importlib._bootstrap_external"}
"""Modules below which files are read as they are in no traced function: lines of source for a
warning, modules that are imported."""


class TracedEffects:
    """Of one trace. `enter` and `leave` done twice are done once."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def enter(self) -> None:
        """From now on effects are errors."""
        for owner, name, stand_in in _stand_ins():
            self._replaced.append((owner, name, vars(owner)[name], stand_in))
            setattr(owner, name, stand_in)

    def leave(self) -> None:
        """From now on they happen."""
        for owner, name, before, stand_in in reversed(self._replaced):
            if vars(owner).get(name) is stand_in:
                setattr(owner, name, before)
        self._replaced = []


def _stand_ins() -> Iterator[tuple[Any, str, Any]]:
    """What is replaced, by what."""
    for name, what in (("print", "print()"), ("input", "input()"), ("open", "open()")):
        yield builtins, name, _refusing(vars(builtins)[name], what)
    yield io, "open", _refusing(io.open, "open()")
    yield time, "sleep", _refusing(time.sleep, "time.sleep()")
    for name in _OF_OS:
        if name in vars(os):
            yield os, name, _refusing(vars(os)[name], f"os.{name}()")
    for module, kind, name, what in _OF_MODULES:
        if module in sys.modules:
            owner = vars(sys.modules[module])[kind]
            yield owner, name, _refusing(vars(owner)[name], what)
    yield sys, "stdout", _Stdout(sys.stdout)


def _refusing(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def refused(*arguments: Any, **keywords: Any) -> Any:
        _check(what)
        return function(*arguments, **keywords)

    return refused


class _Stdout:
    """Standard output, while a trace is under way."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> Any:
        _check("writing to sys.stdout")
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        _check("writing to sys.stdout")
        self._stream.writelines(lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _check(what: str) -> None:
    """Raise TraceError where the thread that traces does this, and neither our own code nor what
    reads code."""
    frame = _users_frame() if tracing() else None
    if frame is not None:
        raise TraceError(
            f"{what} is an effect that a traced function would have once, and not at each call",
            hint="do it outside of the compiled function",
            location=Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name),
        )


def _users_frame() -> FrameType | None:
    """The innermost frame outside of Python's library; None where it is one of ours."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name in _READING_CODE:
            return None
        of_library = name != "__main__" and name.partition(".")[0] in sys.stdlib_module_names
        if not of_library and frame.f_globals is not globals():
            return None if is_own(frame) else frame
        frame = frame.f_back
    return None
