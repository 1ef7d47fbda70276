"""Groups of parameters and the state of one: dicts that know when a trace reads or writes them.

What a traced step does with the options of its groups:

- Numbers (`lr`, `betas`, …) become 0-d inputs, read anew at each call: a schedule needs no new
  trace. Whether one is 0 is frozen where code leaves out what it would do.
- Anything else that is read is frozen into the compiled step. A change traces again.
- Writing is refused: compiled code would not repeat it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from frontend.engine.outside.check import Identical, ValueCheck, is_plain, same
from frontend.engine.outside.constants import Constants
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.items import FirstCallError
from frontend.engine.outside.source import MISSING, Call, Source
from frontend.engine.tensors.epoch import begins_epoch, changed
from frontend.engine.tensors.state import STATE, tracing
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.builder import user_location
from graphc.ir.types import DType


def _writing(plain: Any) -> Any:
    """A method of dict that writes: refused in a trace, and a new epoch."""

    @functools.wraps(plain)
    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if tracing():
            self.check_write(plain.__name__, arguments)
        before = self.marks()
        result = plain(self, *arguments, **keywords)
        if before is None or not all(map(same, self.marks() or (), before)):
            changed()
        return result

    return method


class Held(dict):
    """The state of a parameter: not written while tracing."""

    what = "state"
    hint = "make it a tensor before the first compiled step, and update that in place (add_, copy_)"

    for _name in ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "update",
                  "setdefault"):  # fmt: skip
        locals()[_name] = _writing(getattr(dict, _name))
    del _name

    def check_write(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Raise TraceError, unless the write changes nothing."""
        if method == "setdefault" and arguments[0] in self:
            return
        if method == "__setitem__":
            if dict.get(self, arguments[0], MISSING) is arguments[1]:
                return
            mode: Any = STATE.mode
            if type(self) is Held and mode.assigned.takes_state(self, *arguments):
                return
        name = f"{arguments[0]!r} " if arguments and isinstance(arguments[0], str) else ""
        raise FirstCallError(
            f"{self.what} {name}of an optimizer is assigned while tracing; compiled code would not "
            "repeat the assignment",
            hint=self.hint,
            location=user_location(),
        )

    def marks(self) -> list[Any] | None:
        """What specializations rely on, as it is now; None for everything."""
        return None

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)


@begins_epoch(defaultdict)
class States(defaultdict):
    """The state of each parameter."""


class ParameterGroup(Held):
    """Parameters that are optimised alike: their list under 'params', and options by name."""

    what = "option"
    hint = "assign it outside, around the compiled step: a changed number needs no new trace"

    def __init__(self, options: Any = ()):
        super().__init__(options)
        self.taken: dict[str, Any] = {"params": _exactly}
        self.raw = _Raw(self)

    def __getitem__(self, name: Any) -> Any:
        value = dict.__getitem__(self, name)
        if STATE.mode is not None and name != "params":
            self._check_unchanged(name)
            if is_plain(value):
                self.take(name, _exactly)
        return value

    def marks(self) -> list[Any]:
        return [how(dict.get(self, name, MISSING)) for name, how in self.taken.items()]

    def get(self, name: Any, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    def frozen(self, name: str) -> Any:
        """An option; in a trace its value is frozen."""
        if STATE.mode is not None:
            self._check_unchanged(name)
            self.take(name, _exactly)
        return dict.__getitem__(self, name)

    def number(self, name: str, index: int | None = None, *, optional: bool = False) -> Any:
        """A number (or one of a pair); in a trace a 0-d input. An `optional` one is None where it
        is 0."""
        value = dict.__getitem__(self, name)
        value = value if index is None else value[index]
        mode = STATE.mode
        if mode is not None:
            self._check_unchanged(name)
            self.take(name, _whether if optional else _kind)
        if isinstance(value, Tensor):
            return value.reshape(())
        if optional and not value:
            return None
        return value if mode is None else mode.number(self.raw, name, index, DType.f64)

    def _check_unchanged(self, name: str) -> None:
        """In a trace: raise TraceError behind a scheduler's step."""
        effects = getattr(STATE.mode, "effects", None)
        if effects is not None:
            effects.check_unchanged(self, f"option {name!r}")

    def take(self, name: str, how: Callable[[Any], Any]) -> None:
        """Have the trace under way rely on what `how` says of an option."""
        assert STATE.mode is not None
        STATE.mode.guard((id(self), name, how), lambda: option_guard(self, name, how))
        # What is compared exactly covers the rest.
        if self.taken.get(name) is not _exactly:
            self.taken[name] = how


class _Raw:
    """A group as compiled steps read it: past the guards."""

    __slots__ = ("group",)

    def __init__(self, group: ParameterGroup):
        self.group = group

    def __getitem__(self, name: str) -> Any:
        return dict.__getitem__(self.group, name)


# -- what a specialization relies on: Tensors are captured, so it matters which one it is ---------


def _exactly(value: Any) -> Any:
    return id(value) if isinstance(value, Tensor | list) else value


def _whether(value: Any) -> Any:
    return id(value) if isinstance(value, Tensor) else bool(value)


def _kind(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_kind, value))
    return id(value) if isinstance(value, Tensor) else None


class OptionSource(Source[object]):
    """One option of a group, which says when it changes."""

    __slots__ = ("group", "name")

    by_epoch = True

    def __init__(self, group: ParameterGroup, name: str):
        self.group = group
        self.name = name

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"option {self.name!r}"

    def read(self, call: Call = ()) -> object:
        return dict.get(self.group, self.name, MISSING)

    def code(self, constants: Constants) -> str:
        parts = map(constants.of, (dict.get, self.group, self.name, MISSING))
        return "{}({}, {}, {})".format(*parts)


class Marked(ValueCheck[object]):
    """What `how` says of an option is the same."""

    __slots__ = ("how", "mark", "name", "value")

    def __init__(self, name: str, value: object, how: Callable[[Any], Any]):
        self.name = name
        self.value = value
        self.how = how
        self.mark = how(value)

    def holds(self, now: object) -> bool:
        return same(self.how(now), self.mark)

    def reason(self, label: str, now: object) -> str:
        return f"{label} was {self.value!r}, is {now!r}"

    def text(self, label: str) -> str:
        if self.how is _exactly:
            return f"option {self.name}={self.value!r}"
        zero = "a number" if self.how is _kind else "not 0" if self.mark else "0"
        return f"option {self.name} is {zero}"


def option_guard(group: ParameterGroup, name: str, how: Callable[[Any], Any]) -> Guard:
    """On what `how` says of an option of a group."""
    source = OptionSource(group, name)
    return Guard(source, Marked(name, source.read(), how))


class OptimizerSource(Source[list[Any]]):
    """Which parameters the groups of an optimizer hold, with which state, and its hooks."""

    __slots__ = ("optimizer",)

    by_epoch = True

    def __init__(self, optimizer: Any):
        self.optimizer = optimizer

    def read(self, call: Call = ()) -> list[Any]:
        optimizer = self.optimizer
        members: list[Any] = []
        for group in optimizer.param_groups:
            members += [group, *dict.__getitem__(group, "params")]
        for state in optimizer.state.values():
            members += [None, *[value for value in state.values() if isinstance(value, Tensor)]]
        hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
        return [*members, *hooks[0].values(), None, *hooks[1].values()]


def optimizer_guard(optimizer: Any) -> Guard:
    """On parameters, state and hooks of an optimizer."""
    source = OptimizerSource(optimizer)
    name = type(optimizer).__name__
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    why = f"parameters, state or hooks of {name} changed"
    return Guard(source, Identical(source.read(), why, f"{name} of {count} parameters"))
