"""Effects of a function that is traced, where eager code goes on in its place. Those that each call
can repeat are noted: what is printed, and appended to lists that no code reads. Others that nothing
can undo end the trace before they happen.

in : a trace under way
out: what each call does when it is over; TraceError from what logs, opens and changes files, sleeps
     or runs programs, in the thread that traces, where code of the user's or of a library of theirs
     calls it

What does it is a function of Python's library: another one stands in its place for as long as the
trace lasts. C code that writes for itself is not seen.
"""

from __future__ import annotations

import builtins
import functools
import gc
import io
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

from frontend.engine.outside.check import is_plain
from frontend.engine.outside.items import FirstCallError, Items
from frontend.engine.outside.kinds import STANDS_FOR
from frontend.engine.tensors import tree
from frontend.engine.tensors.handed_out import HandedOut, used
from frontend.engine.tensors.state import STATE, tracing
from frontend.engine.tensors.symbolic_numbers import is_open
from frontend.engine.tensors.tensor import Tensor, make
from graphc.errors import TraceError
from graphc.ir.builder import Var, user_location
from graphc.ir.nodes import Location
from graphc.ir.own_frames import is_own

_OF_OS = (
    "chmod", "chown", "execv", "execve", "fork", "ftruncate", "kill", "link", "makedirs", "mkdir",
    "open", "pipe", "posix_spawn", "putenv", "remove", "removedirs", "rename", "renames", "replace",
    "rmdir", "symlink", "system", "truncate", "unlink", "unsetenv", "utime", "write",
)  # fmt: skip
_CLOCKS = (
    "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
    "process_time_ns", "time", "time_ns",
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


class TracedEffectError(FirstCallError):
    """An effect that nothing can undo, in a trace."""


class RepeatedEffect(NamedTuple):
    """`run(*arguments, **keywords)`, after each call, on arguments of this structure with the
    values of these tensors."""

    run: Callable[..., Any]
    structure: Any
    tensors: Sequence[Tensor]
    histories: Sequence[_History] = ()
    """What a text tells of the histories of these tensors."""

    def __call__(self, tensors: Sequence[Tensor]) -> None:
        for tensor, history in zip(tensors, self.histories):
            tensor._requires_grad, tensor._edge = history.requires_grad, history.edge
        arguments, keywords = tree.build(self.structure, iter(tensors))
        self.run(*arguments, **keywords)


class _History:
    """What stands on the tape for a tensor that is printed: the name of what made it."""

    __slots__ = ("_name", "requires_grad")

    def __init__(self, tensor: Tensor):
        node = tensor.grad_fn if tensor._requires_grad else None
        self.requires_grad = tensor._requires_grad
        self._name = None if node is None else node.name()

    @property
    def edge(self) -> Any:
        return None if self._name is None else (self, 0)

    def shown(self) -> _History:
        return self

    def name(self) -> str | None:
        return self._name


class TracedEffects:
    """Of one trace. `enter` and `leave` done twice are done once. `recorded`: what each call is to
    do once it is over."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._handed: list[weakref.ref[HandedOut]] = []
        self.recorded: list[RepeatedEffect] = []
        # What deferred effects change: objects, and options by their groups.
        self.changing: dict[int, Any] = {}
        self.deferred_at: Location | None = None  # where the last such effect was

    # -- values ------------------------------------------------------------------------------

    def hand_out(self, tensor: Tensor, conversion: str) -> HandedOut | None:
        """What stands for a value until the call knows it; None for none a method would give."""
        shape = tensor.tensor_type.shape
        if conversion == "item" and not all(type(size) is int and size == 1 for size in shape):
            return None
        value = HandedOut(tensor, conversion)
        self._handed.append(weakref.ref(value))
        return value

    @property
    def hands_out(self) -> bool:
        """Whether there are such values: an error may come of one."""
        return bool(self._handed)

    def check(self, taps: Sequence[Any]) -> None:
        """At the end of a trace with these taps: raise TraceError for what no call could repeat."""
        if taps and self.recorded:
            raise TraceError(
                "tap() beside what is printed or appended: which comes first is not kept",
                hint="hand out all of it with tap()",
            )
        if any(reference() is not None for reference in self._handed):
            gc.collect()  # what only a cycle holds is not kept
            for reference in self._handed:
                if (value := reference()) is not None:
                    raise used(value, "kept")

    def printed(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Whether a call of `print` is noted, for each call to do."""
        if type(sys.stdout) is not _Stdout or not keywords.keys() <= {"sep", "end", "flush"}:
            return False
        mode: Any = STATE.mode
        if mode is None or getattr(mode, "ended", True):
            return False  # in a backward that is called outside, or among examples of a batch
        tensors: list[Tensor] = []
        if not all(map(_can_be_printed, (*arguments, *keywords.values()))):
            return False
        structure = tree.flatten((arguments, keywords), tensors)
        # What is printed is what the tensor is now.
        now = [make(mode.value(tensor), tensor.tensor_type) for tensor in tensors]
        histories = [_History(tensor) for tensor in tensors]
        self.recorded.append(RepeatedEffect(_print, structure, now, histories))
        return True

    def defer(self, method: Callable[..., Any], arguments: Sequence[Any], changes: Any) -> None:
        """Each call is to call this method once it is over, in its order among what is printed.
        Code that reads any of what it `changes` behind it is refused."""
        tensors: list[Tensor] = []
        structure = tree.flatten((tuple(arguments), {}), tensors)
        mode: Any = STATE.mode
        now = [make(mode.value(tensor), tensor.tensor_type) for tensor in tensors]
        self.recorded.append(RepeatedEffect(method, structure, now))
        self.changing |= {id(each): each for each in changes}
        self.deferred_at = user_location()

    def check_unchanged(self, value: Any, what: str) -> None:
        """Raise TraceError where an effect that is deferred changes `value`."""
        if id(value) in self.changing:
            raise TraceError(
                f"{what} is read behind a step of its scheduler: a compiled function takes that "
                "step once it is over",
                hint="read it ahead of the scheduler's step, or outside",
                location=user_location(),
            )

    def appended(self, containers: Iterable[Items]) -> None:
        """Within a trace: what lists were given that no code reads, each call gives them anew; they
        are as they were."""
        for items in containers:
            for place in items.new_places():
                held = place.read()
                if type(held) is list and any(type(each) is HandedOut for each in held):
                    raise FirstCallError(
                        f"{place.label}, which was not there, is given values of tensors",
                        hint="make the list outside, before the first call",
                        location=user_location(),
                    )
            new = items.appended()
            if not new:
                continue
            holder: Any = items.holder
            if not all(map(_can_be_appended, new)):
                raise TraceError(
                    f"{items.label} is given what each call would make anew",
                    hint="return it, and append it outside",
                    location=user_location(),
                )
            tensors: list[Tensor] = []
            structure = tree.flatten(((new,), {}), tensors)
            self.recorded.append(RepeatedEffect(holder.extend, structure, tensors))
            for _ in new:
                holder.pop()
            items.is_log = True

    # -- what happens ------------------------------------------------------------------------

    def enter(self) -> None:
        """From now on effects are errors."""
        for owner, name, stand_in in _stand_ins():
            before = vars(owner)[name]
            vars(stand_in)[STANDS_FOR] = before
            self._replaced.append((owner, name, before, stand_in))
            setattr(owner, name, stand_in)

    def leave(self) -> None:
        """From now on they happen."""
        for owner, name, before, stand_in in reversed(self._replaced):
            if vars(owner).get(name) is stand_in:
                setattr(owner, name, before)
        self._replaced = []


def _stand_ins() -> Iterator[tuple[Any, str, Any]]:
    """What is replaced, by what."""
    yield builtins, "print", Replacement(print, _noting(print))
    for name, what in (("input", "input()"), ("open", "open()")):
        yield builtins, name, Replacement.refusing(vars(builtins)[name], what)
    yield io, "open", Replacement.refusing(io.open, "open()")
    yield time, "sleep", Replacement.refusing(time.sleep, "time.sleep()")
    for name in _CLOCKS:
        clock = vars(time)[name]
        yield time, name, Replacement(clock, _frozen(clock, f"time.{name}()"))
    for name in _OF_OS:
        if name in vars(os):
            yield os, name, Replacement.refusing(vars(os)[name], f"os.{name}()")
    for module, kind, name, what in _OF_MODULES:
        if module in sys.modules:
            owner = vars(sys.modules[module])[kind]
            yield owner, name, _refusing(vars(owner)[name], what)
    yield sys, "stdout", _Stdout(sys.stdout)


class Replacement:
    """What stands for a function of C. Like those, it is no method where a class has it: a module
    that is imported meanwhile may keep it."""

    def __init__(self, function: Callable[..., Any], call: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._call = call

    @classmethod
    def refusing(cls, function: Callable[..., Any], what: str) -> Replacement:
        """One that is an effect, which `what` names."""
        return cls(function, _refusing(function, what))

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._call(*arguments, **keywords)


def _can_be_repeated(value: Any) -> bool:
    """Whether each call can make such a value: one of Python's that says all by its type and what
    it is, a number that is left open, a value that is handed out, a tuple of such."""
    if type(value) is HandedOut or is_open(value) or is_plain(value):
        return True
    return type(value) is tuple and all(map(_can_be_repeated, value))


def _can_be_appended(value: Any) -> bool:
    """The same, or a tensor that the call computes."""
    if type(value) is tuple:
        return all(map(_can_be_appended, value))
    mode: Any = STATE.mode
    if type(value) is Tensor:
        is_new = type(value._value) is Var and id(value) not in mode.captured
        return is_new and mode.holds(value._value)
    return _can_be_repeated(value)


def _can_be_printed(value: Any) -> bool:
    """Whether a call that is over can print such a value."""
    return type(value) is Tensor or _can_be_repeated(value)


def _print(*arguments: Any, **keywords: Any) -> None:
    print(*arguments, **keywords)


def _noting(function: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for `print`."""

    @functools.wraps(function)
    def noted(*arguments: Any, **keywords: Any) -> Any:
        mode: Any = STATE.mode
        if tracing() and users_frame() is not None:
            takes = not mode.in_region and not mode.ended
            if takes and mode.effects.printed(arguments, keywords):
                return None
            check_effect("print()")
        return function(*arguments, **keywords)

    return noted


def defer(method: Callable[..., Any], arguments: Sequence[Any], changes: Iterable[Any]) -> bool:
    """Have each call of what is traced call a method, once it is over; whether the trace under way
    can do so."""
    mode: Any = STATE.mode
    effects = getattr(mode, "effects", None)
    if effects is None or mode.in_region or mode.ended:
        return False
    if not all(map(_can_be_printed, arguments)):
        return False
    effects.defer(method, arguments, changes)
    return True


def _refusing(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def refused(*arguments: Any, **keywords: Any) -> Any:
        check_effect(what)
        return function(*arguments, **keywords)

    return refused


def _frozen(clock: Callable[..., Any], what: str) -> Callable[..., Any]:
    """What stands for a clock: a trace would read it once. Python's library reads it for itself."""

    @functools.wraps(clock)
    def refused() -> Any:
        frame = sys._getframe(2)  # behind the replacement
        if tracing() and not _is_of_library(frame) and users_frame() is frame:
            raise TraceError(
                f"{what} in a traced function is read once, and not at each call",
                hint="read it outside of the compiled function",
                location=user_location(),
            )
        return clock()

    return refused


class _Stdout:
    """Standard output, while a trace is under way."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> Any:
        check_effect("writing to sys.stdout")
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        check_effect("writing to sys.stdout")
        self._stream.writelines(lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def check_effect(what: str) -> None:
    """Raise TraceError where the thread that traces does this, and neither our own code nor what
    reads code."""
    frame = users_frame() if tracing() else None
    if frame is not None:
        raise TracedEffectError(
            f"{what} is an effect that a traced function would have once, and not at each call",
            hint="do it outside of the compiled function",
            location=Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name),
        )


def users_frame() -> FrameType | None:
    """The innermost frame outside of Python's library; None where it is one of ours, or a module is
    being imported, which happens once in any case."""
    frame: FrameType | None = sys._getframe(2)
    traced_by = getattr(STATE.mode, "outermost", None)
    innermost: FrameType | None = None
    while frame is not None and frame is not traced_by:
        if frame.f_globals.get("__name__", "") in _READING_CODE:
            return None
        if innermost is None and not _is_of_library(frame) and frame.f_globals is not globals():
            if is_own(frame):
                return None
            innermost = frame
        frame = frame.f_back
    return innermost


def _is_of_library(frame: FrameType) -> bool:
    """Whether a frame runs code of Python's library."""
    name = frame.f_globals.get("__name__", "")
    return name != "__main__" and name.partition(".")[0] in sys.stdlib_module_names
