"""Captured globals: what traced functions read by name from outside of themselves, and whether it
is what it was.

A function can name globals, closure variables and defaults, and attributes and items of what these
hold; what it calls can name more. All of that is followed from the function on, without running
anything, by a scan of its bytecode: through functions, bound methods, partials, objects, classes
and Modules. Plain values are compared, anything else must be the same object. Code of the
frontend, of Python's library and of installed packages is not followed: it does not change.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from frontend.tensors.tensor import Tensor
from frontend.tracing.guards.bytecode import Path, scan_bytecode
from frontend.tracing.guards.checks import ModuleGuard, is_plain, same
from graphc.errors import TraceError
from graphc.ir.builder import Var

MANY_ITEMS = 1000
"""A container with more items than this is not looked into: its items are frozen."""

_OURS = {"frontend", "graphc", "numpy"}
_LIBRARY = {*_OURS, "builtins", *sys.stdlib_module_names}
_CONTENTS = operator.attrgetter("cell_contents")
_CODE = operator.attrgetter("__code__")
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_SELF: set[Path] = {("forward",), ("__call__",)}


class Items:
    """What a list, dict or set holds."""

    def __init__(self, holder: Any, label: str):
        self.holder = holder
        self.label = label
        self.then = _items(holder)

    def holds(self) -> bool:
        now, then = _items(self.holder), self.then
        return len(now) == len(then) and (
            all(map(operator.is_, now, then)) or all(map(same, now, then))
        )

    def only_grown(self) -> bool:
        """Whether all plain items that were there are still there, as in a log of what happened."""
        now, then = _items(self.holder), self.then
        return len(now) >= len(then) and all(same(a, b) for a, b in zip(now, then) if is_plain(b))

    def refuse_traced(self) -> None:
        """Raise TraceError where a trace put a tensor of its own here: it is computed anew at each
        call, and what is here would stay without a value."""
        known = set(map(id, self.then))
        for item in _items(self.holder):
            if isinstance(item, Tensor) and type(item._value) is Var and id(item) not in known:
                raise TraceError(
                    f"{self.label} keeps a tensor {item.tensor_type} that is being traced",
                    hint="make state outside, before the first call; return the value, or hand it "
                    "out with frontend.tap(t, fn)",
                )

    def reasons(self) -> Iterator[str]:
        now, then = _items(self.holder), self.then
        if len(now) != len(then):
            yield f"{self.label} was given items, or lost some"
            return
        for new, old in zip(now, then):
            if not same(new, old):
                yield f"an item of {self.label} was {_shown(old)}, is {_shown(new, old)}"


class CapturedGlobals:
    """The guard on everything that the functions of a trace can read by name. `session` takes the
    guards on Modules that are found."""

    by_epoch = False

    def __init__(self, session: Any):
        self.session = session
        # What is read: getter(key), what that was, and what it is called.
        self.reads: list[tuple[Callable[[Any], Any], Any, Any]] = []
        self.labels: list[str] = []
        self.items: list[Items] = []
        self.tensors: dict[int, Tensor] = {}  # those that code can reach, by id
        self._known: set[Any] = set()
        self._objects: list[Any] = []  # whose attributes are looked at: loose paths may be theirs
        self._loose: set[Path] = set()
        self._kept: list[Any] = []  # so that ids stay theirs
        self._package = ""

    # -- looking again -----------------------------------------------------------------------

    def holds(self) -> bool:
        try:
            for getter, key, then in self.reads:
                if getter(key) is not then and not same(getter(key), then):
                    return False
        except (ValueError, AttributeError):  # a cell that was emptied, a slot that was deleted
            return False
        return not self.items or all([items.holds() for items in self.items])

    def reason(self) -> str:
        return "; ".join([*self._reasons(), *(text for i in self.items for text in i.reasons())])

    def _reasons(self) -> Iterator[str]:
        for (getter, key, then), label in zip(self.reads, self.labels):
            try:
                now = getter(key)
            except (ValueError, AttributeError):
                yield f"{label} was deleted"
                continue
            if not same(now, then):
                yield f"{label} was {_shown(then)}, is {_shown(now, then)}"

    def settle(self) -> None:
        """After a trace: no longer look at what the trace itself only added to. Python's effects
        happen once, at the trace."""
        for items in self.items:
            items.refuse_traced()
        self.items = [items for items in self.items if items.holds() or not items.only_grown()]

    def __str__(self) -> str:
        labelled = zip(self.labels, self.reads)
        return "\n".join(f"{label}={value!r}" for label, (*_, value) in labelled if is_plain(value))

    # -- following names ---------------------------------------------------------------------

    def root(self, function: Any, arguments: Iterable[Any]) -> None:
        """The function that is traced, and those of its arguments that are no tensors."""
        inner = function
        while isinstance(inner, functools.partial):
            inner = inner.func
        self._package = _package(getattr(inner, "__module__", None) or "")
        self.value(function, _SELF, "the function")
        for argument in arguments:
            self.value(argument, (), "an argument")

    def value(self, value: Any, paths: Iterable[Path], label: str) -> None:
        """What code may read of a value; `paths`: attributes that it does read."""
        if isinstance(value, Tensor):
            self.tensors[id(value)] = value
        if is_plain(value) or isinstance(value, Tensor):
            return
        first = self._first(("value", id(value)))
        if first:
            self._kept.append(value)
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self._method(value.__func__, value.__self__, label)
        elif isinstance(value, functools.partial) and first:
            for part in (value.func, value.args, value.keywords):
                self.value(part, _SELF, label)
        elif isinstance(value, _CONTAINERS) and _package(type(value).__module__) not in _OURS:
            if first:
                self._container(value, label)
        elif isinstance(value, Iterator):
            self._iterator(label)
        else:
            self._object(value, paths, first)

    def _function(self, function: FunctionType, owner: Any = None) -> None:
        """A function, or, with `owner`, a method of that."""
        if not self._first(("function", id(function), id(owner))):
            return
        code = function.__code__
        reads = scan_bytecode(code)
        self._loosen(reads.loose if owner is not None else reads.loose | reads.first)
        followed = self._is_followed(function.__globals__.get("__name__", ""), code.co_filename)
        if followed:
            # The code: tools that load an edited file again put the new one into the old function.
            self._add((id(function), "code"), _CODE, function, f"{function.__name__}()")
        for name, paths in sorted(reads.globals.items()) if followed else ():
            held = function.__globals__.get(name)
            if name in function.__globals__ and not isinstance(held, ModuleType):
                self._note(function.__globals__, name, f"global {name!r}")
            self.value(held, paths, f"global {name!r}")
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                held = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            self._add(id(cell), _CONTENTS, cell, f"variable {name!r}")
            self.value(held, reads.cells.get(name, ()), f"variable {name!r}")
        for default in (function.__defaults__, function.__kwdefaults__):
            self.value(default, (), f"a default of {function.__name__}()")
        self.value(function.__dict__.get("__wrapped__"), _SELF, "the function")

    def _method(self, function: Any, owner: Any, label: str) -> None:
        if isinstance(function, FunctionType):
            self._function(function, owner)
            self.value(owner, scan_bytecode(function.__code__).first, label)

    def _container(self, value: Any, label: str) -> None:
        if len(value) > MANY_ITEMS:
            return
        if not isinstance(value, tuple | frozenset):
            self.items.append(Items(value, label))
        for item in value.values() if isinstance(value, dict) else value:
            self.value(item, (), f"an item of {label}")

    def module(self, module: Any) -> None:
        """A Module that may run: its attributes, and what its methods read from outside."""
        if not self._first(("module", id(module))):
            return
        self.session.guard(id(module), ModuleGuard(module))
        held = [*module.__dict__.values(), *module._parameters.values(), *module._buffers.values()]
        self.tensors |= {id(item): item for item in held if isinstance(item, Tensor)}
        self._read(module, _SELF)
        self.value(module.__dict__.get("forward"), (), "forward")

    def _iterator(self, label: str) -> None:
        raise TraceError(
            f"{label} is an iterator: it would be advanced at the trace only, and every later call "
            "see the same item",
            hint="call next() outside, and pass what it gives",
        )

    def _object(self, value: Any, paths: Iterable[Path], first: bool) -> None:
        kind = type(value)
        if hasattr(kind, "named_modules"):
            for _, each in value.named_modules() if first else ():
                self.module(each)
            self._read(value, paths)
            return
        if isinstance(value, ModuleType):
            if self._is_followed(value.__name__, getattr(value, "__file__", None) or ""):
                self._read(value, paths)
            return
        if isinstance(value, type):
            self._class(value, paths)
            return
        state = getattr(value, "__dict__", None)
        if isinstance(state, dict) and "__wrapped__" in state:
            self.value(state["__wrapped__"], _SELF, "the function")
        if _package(kind.__module__) in _OURS:
            return
        if first:
            self._objects.append(value)
        self._read(value, [("__call__",), *paths, *(self._loose if first else ())])

    def _loosen(self, paths: Iterable[Path]) -> None:
        """Paths of what is not known: of every object there is."""
        new = set(paths) - self._loose
        self._loose |= new
        for value in list(self._objects) if new else ():
            self._read(value, new)

    def _read(self, value: Any, paths: Iterable[Path]) -> None:
        """Attributes that are read of an object."""
        state = getattr(value, "__dict__", {})
        guarded = hasattr(type(value), "named_modules")  # its guard sees its attributes
        for head, *rest in sorted(p for p in paths if self._first(("path", id(value), p))):
            label = f"attribute {head!r} of {_owner(value)}"
            # All of them: a method may call that of a base class.
            kinds = [k for k in type(value).__mro__ if head in vars(k)]
            if head in state:
                if not guarded:
                    self._note(state, head, label)
                self.value(state[head], [tuple(rest)] if rest else (), label)
                continue
            for kind in (k for k in kinds if self._is_followed(k.__module__, "")):
                if not guarded and hasattr(value, "__dict__"):
                    self._note(state, head, label)  # it may come to have one of its own
                self._member(value, kind, head, rest)

    def _member(self, value: Any, kind: type, name: str, rest: list[str]) -> None:
        """What the class of an object has under a name."""
        member, label = vars(kind)[name], f"attribute {name!r} of {kind.__name__}"
        if isinstance(member, MemberDescriptorType):
            if hasattr(value, name):
                getter = functools.partial(getattr, value)
                self._add((id(value), name), getter, name, label)
                self.value(getattr(value, name), [tuple(rest)] if rest else (), label)
            return
        self._note(kind, name, label)
        if isinstance(member, property):
            member = member.fget
        if isinstance(member, FunctionType):
            self._method(member, value, label)
        elif isinstance(member, staticmethod | classmethod):
            self.value(member.__func__, (), label)
        else:
            self.value(member, [tuple(rest)] if rest else (), label)

    def _class(self, kind: type, paths: Iterable[Path]) -> None:
        """A class that is named: what is read of it, and what its methods read."""
        if not self._is_followed(kind.__module__, ""):
            return
        first = self._first(("class", id(kind)))
        for member in list(vars(kind).values()) if first else ():
            function = getattr(member, "__func__", member)
            if isinstance(function, FunctionType):
                self._function(function)
        for head, *rest in sorted(paths):
            held = next((k for k in kind.__mro__ if head in vars(k)), None)
            if held is not None and self._is_followed(held.__module__, ""):
                self._member(kind, held, head, rest)

    # -- adding to what is read --------------------------------------------------------------

    def _first(self, known: Any) -> bool:
        if known in self._known:
            return False
        self._known.add(known)
        return True

    def _note(self, space: Any, name: str, label: str) -> None:
        """A name in a dict, or in a class."""
        get = vars(space).get if isinstance(space, type) else space.get
        self._add((id(space), name), get, name, label)

    def _add(self, known: Any, getter: Callable[[Any], Any], key: Any, label: str) -> None:
        if self._first(("read", known)):
            self.reads.append((getter, key, getter(key)))
            self.labels.append(label)

    def _is_followed(self, module: str, file: str) -> bool:
        package = _package(module)
        if package in _LIBRARY:
            return False
        return package == self._package or "-packages" not in (file or _file_of(module))


def _items(holder: Any) -> list[Any]:
    return [*holder, *holder.values()] if isinstance(holder, dict) else list(holder)


def _owner(value: Any) -> str:
    return str(value.__name__) if isinstance(value, ModuleType) else type(value).__name__


def _package(module: str) -> str:
    return module.partition(".")[0]


def _file_of(module: str) -> str:
    return getattr(sys.modules.get(module), "__file__", None) or ""


def _shown(value: Any, then: Any = None) -> str:
    if is_plain(value):
        return repr(value)
    return f"{'another' if type(value) is type(then) else 'a'} {type(value).__name__}"
