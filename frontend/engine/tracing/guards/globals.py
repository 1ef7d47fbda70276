"""Captured globals: what traced functions read by name from outside of themselves, and whether it
is what it was.

A function can name globals, closure variables and defaults, and attributes and items of what these
hold; what it calls can name more. All of that is followed from the function on, without running
anything, by a scan of its bytecode: through functions, bound methods, partials, objects with their
special methods, classes and Modules. Plain values are compared, anything else must be the same
object. Code of the frontend, of Python's library and of installed packages is not followed: it does
not change.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import io
import operator
import sys
import warnings
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from frontend.engine.outside import kinds
from frontend.engine.outside.bytecode import (
    ANY_ITEM,
    ITSELF,
    BytecodeScan,
    Path,
    is_item,
    item_of,
    scan_bytecode,
)
from frontend.engine.outside.check import is_plain
from frontend.engine.outside.containers import (
    HASHED,
    MAPPINGS,
    container_of,
    contents,
    keys_of,
    size_of,
)
from frontend.engine.outside.items import LARGEST_ARRAY, MANY_ITEMS, MOST_ITEMS, item_names
from frontend.engine.outside.kinds import LIBRARY, OURS, SELF, package, package_of
from frontend.engine.outside.reads import is_unassigned
from frontend.engine.outside.source import CellSource
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.current_trace import CurrentTrace
from frontend.engine.tracing.guards.attributes import Attributes
from frontend.engine.tracing.undoing import BeforeTrace
from graphc.errors import TraceError, UndecidedSizeError

_PARTS = [
    (operator.attrgetter(name), label)
    for name, label in (
        ("__code__", "{}()"), ("__defaults__", "the defaults of {}()"),
        ("__kwdefaults__", "the defaults of {}()"),
    )
]  # fmt: skip
_COMPARED: set[Path] = {(name,) for name in kinds.COMPARISONS}
_WRITING = {"add", "append", "appendleft", "extend", "insert", "update"}
_NOTHING = object()


class CapturedGlobals(Attributes):
    """Finds everything that the functions of a trace can read by name: `guards`. `trace` takes
    those on Modules that are found."""

    def __init__(self, trace: CurrentTrace):
        super().__init__(trace)
        self.generators: list[Any] = []  # of random numbers
        self.takes_types = self._compares_types = False
        self._kept_alive: list[Any] = []  # so that ids stay theirs
        self._uses: dict[int, set[str]] = {}  # of containers, what is read of them

    def is_open(self, holder: Any, key: Any) -> bool:
        return bool(self.trace.places.is_open(holder, key))

    # -- values ------------------------------------------------------------------------------

    def root(self, function: Any, arguments: Iterable[Any]) -> None:
        """The function that is traced, and those of its arguments that are no tensors."""
        self.name = kinds.name_in(function) or type(function).__name__
        self.value(function, SELF, "the function")
        for argument in arguments:
            self.value(argument, (), "an argument")
        self._compute_names()

    def _value(self, value: Any, paths: Iterable[Path], label: str) -> None:
        kind = type(value)
        if kind is str:
            self._texts.add(value)
        if is_plain(value) and package_of(kind) in LIBRARY:
            return
        first = self.first(("value", id(value)))
        if first:
            self._kept_alive.append(value)
            library = package_of(kind) != "builtins" and not self._is_followed(kind)
            if self.before is not None:
                self.before.note(value, library)
        if issubclass(kind, io.IOBase) and any(
            path[0] != ITSELF and not is_item(path[0]) for path in paths
        ):
            raise TraceError(
                f"{label} is a file: it would be read or written at the trace only",
                hint="use it outside, or print(), which each call repeats",
            )
        if issubclass(kind, Tensor):
            self._tensor(value, paths)
        elif kind is FunctionType:
            self._function(value)
            self._read(value, set(paths) - SELF)
        elif kind is MethodType:
            self._method(value.__func__, value.__self__, label)
        elif container_of(value) is not None and package_of(kind) not in OURS:
            self._container(value, paths, first, label)
        elif not first or not self._of_python(value, label):
            self._object(value, paths, first)

    def _of_python(self, value: Any, label: str) -> bool:
        """What is of a class of Python's or NumPy's that has ways of its own: whether it is."""
        kind = type(value)
        if issubclass(kind, functools.partial):
            for name in ("func", "args", "keywords"):  # `__setstate__` puts others there
                self.add((id(value), name), getattr(functools.partial, name).__get__, value, label)
                self.value(getattr(value, name), SELF, label)
        elif kind in kinds.BOUND:
            if not kinds.is_namespace(value.__self__):
                self.value(value.__self__, {(ITSELF,)}, label)
        elif kind in kinds.VIEWS:
            self.value(value.mapping, (), label)
        elif kind in kinds.NAMING:
            names = [name for name in value.__reduce__()[1] if isinstance(name, str)]
            self._loosen({tuple(name.split(".")) for name in names})
        elif kind is kinds.CONTEXT:
            self.add(("context", id(value)), value.get, _NOTHING, label)
            self.value(value.get(None), (), label)
        elif kind is kinds.CACHED:
            self.hold_cache(value, label)
            self.value(value.__wrapped__, SELF, label)
        elif issubclass(kind, np.ndarray):
            if value.dtype != object and value.nbytes <= LARGEST_ARRAY:
                self.hold_array(value, label)
        elif kinds.is_generator(value):
            self.generators.append(value)
        elif issubclass(kind, Iterator) and not issubclass(kind, io.IOBase):
            self._refuse_iterator(label)
        else:
            return False
        return True

    def _refuse_iterator(self, label: str) -> None:
        raise TraceError(
            f"{label} is an iterator: it would be advanced at the trace only, and every later call "
            "see the same item",
            hint="call next() outside, and pass what it gives",
        )

    def _tensor(self, value: Any, paths: Iterable[Path]) -> None:
        self.tensors[id(value)] = value
        self._tensor_methods(paths)
        own = {path for path in paths if not hasattr(Tensor, path[0])}
        self._read(value, own if type(value) is Tensor else paths)

    def _tensor_methods(self, paths: Iterable[Path]) -> None:
        """Attributes of Tensor that are read, which somebody may replace."""
        for name in sorted({name for path in paths for name in path if name[:2] != "__"}):
            held = next((kind for kind in Tensor.__mro__ if name in vars(kind)), None)
            if held not in (None, object):
                self.note(held, name, f"Tensor.{name}")

    # -- functions ---------------------------------------------------------------------------

    def _function(self, function: FunctionType, owner: Any = None) -> None:
        """A function, or, with `owner`, a method of that."""
        if not self.first(("function", id(function), owner is None)):
            return
        code = function.__code__
        reads = scan_bytecode(code)
        loose = reads.loose if owner is not None else reads.loose | reads.first
        if package(function.__globals__.get("__name__", "")) not in OURS:
            self._loosen(loose | _COMPARED if reads.compares else loose)
        if self._is_followed_module(function.__globals__.get("__name__", ""), code.co_filename):
            self._tensor_methods(loose)
            self._computed |= reads.computed
            self._refuse_types(function, reads)
            self.identities |= reads.identities
            self._names(function, reads)
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            if name == "__class__":  # of `super()`
                self._read(cell.cell_contents, reads.cells.get(name, ()))
            else:
                self._cell(cell, name, reads.cells.get(name, ()))
        for default in (function.__defaults__, function.__kwdefaults__):
            self.value(default, (), f"a default of {function.__name__}()")
        self.value(function.__dict__.get("__wrapped__"), SELF, "the function")

    def _refuse_types(self, function: FunctionType, reads: BytecodeScan) -> None:
        """Raise UndecidedSizeError where numbers are left open and types are compared by `is`: what
        stands for an int or float is of another."""
        space = {**vars(builtins), **function.__globals__} if reads.types else {}
        compares = any(name == ITSELF or space.get(name) in (int, float) for name in reads.types)
        self.takes_types |= reads.takes_types
        self._compares_types |= compares
        if self.takes_types and self._compares_types and self.trace.sizes is not None:
            raise UndecidedSizeError(
                f"{function.__name__}() compares a type() by `is`, or is called by what does",
                hint="isinstance(n, int), or type(n) == int",
            )

    def _names(self, function: FunctionType, reads: BytecodeScan) -> None:
        """What a function's code reads from the module around it. The code itself: tools that load
        an edited file again put the new one into the old function."""
        for part, label in _PARTS:
            if part(function) is not None:
                self.add((id(function), part), part, function, label.format(function.__name__))
        space = function.__globals__
        for name in sorted(reads.global_names & space.keys()):
            reads.globals.setdefault(name, set())
        for name, paths in sorted(reads.globals.items()):
            if self.note(space, name, f"global {name!r}"):
                self.value(space[name], paths, f"global {name!r}")
        for (level, name), paths in sorted(reads.imports.items()):
            around = space.get("__package__") or ""
            full = importlib.util.resolve_name("." * level + name, around) if level else name
            self.value(sys.modules.get(full), paths, f"module {full!r}")

    def _cell(self, cell: Any, name: str, paths: Iterable[Path]) -> None:
        label = f"variable {name!r}"
        if is_unassigned(cell):
            self.add((id(cell), "unassigned"), is_unassigned, cell, label)
            return
        if not self.is_open(cell, None):
            self.look_up(id(cell), CellSource(cell, label))
        self.value(cell.cell_contents, paths, label)

    def _method(self, function: Any, owner: Any, label: str) -> None:
        if not isinstance(function, FunctionType):
            self.value(function, (), label)
            self.value(owner, (), label)
            return
        self._function(function, owner)
        ours = package(function.__globals__.get("__name__", "")) in OURS
        self.value(owner, () if ours else scan_bytecode(function.__code__).first, label)

    # -- objects -----------------------------------------------------------------------------

    def _container(self, value: Any, paths: Iterable[Path], first: bool, label: str) -> None:
        if first and size_of(value) <= MOST_ITEMS:
            self._hold(value, label)
        elif first:
            self.add((id(value), "size"), size_of, value, f"the size of {label}")
            warnings.warn(
                f"{label} holds {size_of(value):,} items: of more than {MOST_ITEMS:,} a compiled "
                "function looks at the number again, and not at what they are",
                stacklevel=2,
            )
        self._uses.setdefault(id(value), set()).update(path[0] for path in paths)
        if size_of(value) <= MANY_ITEMS:
            self._items(value, paths, label)
        if package_of(type(value)) not in LIBRARY:
            self._object(value, paths, first)

    def _hold(self, value: Any, label: str) -> None:
        if not issubclass(type(value), tuple | frozenset):
            self.hold(value, label, self.trace.places.keys_of(value))
        if container_of(value) in HASHED:
            self.identities |= any(isinstance(key, Tensor) for key in keys_of(value))

    def _items(self, value: Any, paths: Iterable[Path], label: str) -> None:
        """What is read of the items of a container: where it is used otherwise than by taking one,
        each may be read."""
        below: dict[str, set[Path]] = {}
        for path in paths:
            if is_item(path[0]):
                below.setdefault(path[0], set()).update({path[1:]} - {()})
        of_any = below.get(ANY_ITEM, set())
        if not below or any(not is_item(path[0]) for path in paths):
            of_any = {*of_any, (ITSELF,)}
        known = frozenset((key, *each) for key, each in {**below, ANY_ITEM: of_any}.items())
        if not self.first(("items", id(value), known)):
            return
        held = contents(value)
        keys: list[object] = list(keys_of(value)) if container_of(value) in MAPPINGS else []
        for item, key, name in zip(held, [*keys, *keys] or held, item_names(value, label)):
            # Of others than containers attributes are read that no path leads to.
            used = {*of_any, *below.get(item_of(key) if isinstance(key, str) else "", ())}
            self.value(item, used if container_of(item) is not None else {(ITSELF,)}, name)

    def take_before(self) -> BeforeTrace | None:
        """What stood there ahead of the trace is kept by who asks, from now on."""
        before, self.before = self.before, None
        return before

    def put_back(self, before: BeforeTrace | None) -> bool:
        """What code can reach is as it was ahead of the trace; whether it was not."""
        before = before or self.before
        if before is None:
            return False
        return before.put_back(self.guards, self.appeared(), self.trace.places.keys_of)

    def note_logs(self) -> None:
        """Which containers no code reads."""
        self._compute_names()
        for items in self.containers:
            used = self._uses.get(id(items.holder), set())
            items.written_only = bool(used) and used <= _WRITING

    def settle(self) -> None:
        self.note_logs()
        super().settle()
