"""Attributes: what code reads of objects, classes and Python modules, by paths, without running
anything. Which objects a loose path belongs to is not known: it is read of all of them.
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from frontend.tensors.tensor import Tensor
from frontend.tracing.guards import kinds
from frontend.tracing.guards.bytecode import ITSELF, Path
from frontend.tracing.guards.kinds import LIBRARY, OURS, SELF, package, package_of, state_of
from frontend.tracing.guards.reads import Reads, is_empty_slot, lacks
from frontend.tracing.outside.guard import module_guard
from frontend.tracing.undoing import BeforeTrace

_MRO = operator.attrgetter("__mro__")

if TYPE_CHECKING:
    from frontend.tracing.session import Session


class Attributes(Reads):
    """Reads of attributes. `session` takes the guards on Modules that are found."""

    def __init__(self, session: Session):
        super().__init__()
        self.session = session
        self._objects: list[Any] = []  # whose attributes are looked at: loose paths may be theirs
        self._loose: set[Path] = set()
        self._computed: set[str] = set()  # beginnings of names that code puts together
        self._texts: set[str] = set()  # that code can reach: names, where it computes some
        self._package = ""
        self.modules: list[Any] = []  # that may run
        self.before: BeforeTrace | None = BeforeTrace()
        self.tensors: dict[int, Tensor] = {}  # those that code can reach, by id

    def value(self, value: Any, paths: Iterable[Path], label: str) -> None:
        raise NotImplementedError

    def _function(self, function: FunctionType, owner: Any = None) -> None:
        raise NotImplementedError

    def _method(self, function: Any, owner: Any, label: str) -> None:
        raise NotImplementedError

    # -- objects -----------------------------------------------------------------------------

    def module(self, module: Any) -> None:
        """A Module that may run: its attributes, and what its methods read from outside."""
        if not self.first(("module", id(module))):
            return
        self.modules.append(module)
        open_ = self.session.numbers.places.keys_of(module.__dict__)
        self.session.guard(id(module), lambda: module_guard(module, open_))
        held = [*module.__dict__.values(), *module._parameters.values(), *module._buffers.values()]
        self.tensors |= {id(item): item for item in held if isinstance(item, Tensor)}
        self._read(module, SELF)
        if package_of(type(module)) not in OURS:
            self._known_object(module)
        self.value(module.__dict__.get("forward"), (), "forward")

    def _object(self, value: Any, paths: Iterable[Path], first: bool) -> None:
        kind = type(value)
        if kinds.is_nn_module(kind):
            for _, each in value.named_modules() if first else ():
                self.module(each)
        elif kinds.is_namespace(value):
            self._namespace(value, paths, first)
            return
        elif issubclass(kind, type):
            self._class(value, first)
        else:
            self.value((state_of(value) or {}).get("__wrapped__"), SELF, "the function")
            if package_of(kind) in OURS:
                return
            if first:
                self.add((id(value), "class"), type, value, f"the class of a {kind.__name__}")
                if state_of(value) is not None:
                    held = functools.partial(object.__getattribute__, value)
                    self.add((id(value), "dict"), held, "__dict__", f"a {kind.__name__}.__dict__")
                self._known_object(value)
        self._read(value, paths)

    def _known_object(self, value: Any) -> None:
        """An object whose attributes code may read without a path from a name to it, and whose
        special methods it may run."""
        self._objects.append(value)
        followed = [kind for kind in type(value).__mro__ if self._is_followed(kind)]
        if followed:
            self.add((id(type(value)), "bases"), _MRO, type(value), "the bases of a class")
        special = {(name,) for kind in followed for name in self._special(kind)}
        self._read(value, special | self._loose)
        if kinds.holds_items(type(value)) and any(
            package_of(kind) not in ("builtins", *OURS) and kind not in followed
            for kind in type(value).__mro__
        ):
            self._whole(value)

    def _whole(self, value: Any) -> None:
        """All attributes that an object has of its own."""
        state = state_of(value)
        if state is None or not self.first(("whole", id(value))):
            return
        label = f"the attributes of a {type(value).__name__}"
        if not kinds.is_nn_module(type(value)):
            self.hold(state, label, self.session.numbers.places.keys_of(state))
        for item in list(state.values()):
            self.value(item, {(ITSELF,)}, label)

    def _class(self, kind: type, first: bool) -> None:
        """A class that is named: what its methods read, and what is read of it."""
        if not first or not self._is_followed(kind):
            return
        self._objects.append(kind)
        for member in list(vars(kind).values()):
            function = getattr(member, "__func__", member)
            if isinstance(function, FunctionType):
                self._function(function)
        special = {(name,) for each in _MRO(type(kind)) for name in self._special(each)}
        names = {(name,) for each in kind.__mro__ for name in self._special(each)}
        self._read(kind, {("__init__",), ("__new__",)} | names | special | self._loose)

    def _special(self, kind: type) -> Iterator[str]:
        return kinds.special_methods(kind) if self._is_followed(kind) else iter(())

    def _namespace(self, module: Any, paths: Iterable[Path], first: bool) -> None:
        """Attributes that are read of a Python module. Of one that is not followed, itself."""
        if self._is_followed_module(module.__name__, vars(module).get("__file__") or ""):
            if first:
                self._objects.append(module)
                self._read(module, self._loose)
                self.value(vars(module).get("__getattr__"), (), "a module's __getattr__()")
            self._read(module, paths)
            return
        for path in sorted(p for p in paths if self.first(("path", id(module), p))):
            head, below = path[0], {path[1:]} - {()}
            if package(module.__name__) in OURS:
                getattr(module, head, None)  # some are imported when they are first asked for
            if head == ITSELF or not self.note(vars(module), head, f"{module.__name__}.{head}"):
                self.kept.add((id(vars(module)), head))
                continue
            held = vars(module)[head]
            if not isinstance(held, type) and module is not sys:
                self.value(held, below, f"{module.__name__}.{head}")

    def _loosen(self, paths: Iterable[Path]) -> None:
        """Paths of what is not known: of every object there is."""
        new = set(paths) - self._loose
        self._loose |= new
        for value in list(self._objects) if new else ():
            self._read(value, new)

    def _compute_names(self) -> None:
        """Names of attributes that code computes: texts that it can reach, and what begins as the
        texts do that it puts together."""
        if not self._computed:
            return
        texts = {tuple(text.split(".")) for text in self._texts if text.isidentifier()}
        begins = tuple(self._computed - {ITSELF})
        for value in [*self._objects] if begins else ():
            names = {*(state_of(value) or ()), *(n for k in type(value).__mro__ for n in vars(k))}
            texts |= {(name,) for name in names if name.startswith(begins)}
        self._loosen(texts)

    def _read(self, value: Any, paths: Iterable[Path]) -> None:
        """Attributes that are read of an object."""
        for path in sorted(p for p in paths if self.first(("path", id(value), p))):
            head, below = path[0], {path[1:]} - {()}
            if head == "__dict__":
                self._whole(value)
            elif head == "__class__":
                self.value(type(value), below, "a class")
            elif head != ITSELF:
                self._attribute(value, head, below)

    def _attribute(self, value: Any, name: str, below: set[Path]) -> None:
        label = f"attribute {name!r} of {_owner(value)}"
        is_class = isinstance(value, type)
        state = None if is_class else state_of(value)
        # The guard of a Module sees its attributes.
        guarded = kinds.is_nn_module(type(value))
        if issubclass(type(value), threading.local):
            self._of_thread(value, name, below, label)
            return
        if state is not None and (name in state if guarded else self.note(state, name, label)):
            self.value(state[name], below, label)
            return
        # All of them: a method may call that of a base class.
        is_there = False
        for kind in (*(value.__mro__ if is_class else ()), *type(value).__mro__):
            if self._is_followed(kind):
                is_there |= self._class_attribute(value, kind, name, below)
            elif guarded and not is_there and (name,) in SELF and name in vars(kind):
                is_there = self._class_attribute(value, kind, name, below)

    def _of_thread(self, value: Any, name: str, below: set[Path], label: str) -> None:
        """An attribute that each thread has of its own."""
        getter = functools.partial(threading.local.__getattribute__, value)
        try:
            held = getter(name)
        except AttributeError:
            self.add((id(value), name), lacks, (value, name), label)
            return
        self.add((id(value), name), getter, name, label)
        self.value(held, below, label)

    def _class_attribute(self, value: Any, kind: type, name: str, below: set[Path]) -> bool:
        """What a class of an object has under a name: whether it has it."""
        if self.before is not None:
            self.before.note_class(kind)
        label = f"attribute {name!r} of {kind.__name__}"
        member: Any = vars(kind).get(name)
        if isinstance(member, MemberDescriptorType) and not isinstance(value, type):
            self._slot(value, member, name, below, label)
            return True
        if not self.note(kind, name, label):
            return False
        if type(member) in kinds.DESCRIPTORS:
            if isinstance(member, functools.cached_property):
                self.kept.add((id(state_of(value)), name))
            for part in kinds.DESCRIPTORS[type(member)]:
                self._method(getattr(member, part), value, label)
        elif isinstance(member, FunctionType):
            if self._is_followed_module(member.__module__ or "", member.__code__.co_filename):
                self._method(member, value, label)
        elif isinstance(member, classmethod):
            owner = value if isinstance(value, type) else type(value)
            self._method(member.__func__, owner, label)
        else:
            self.value(getattr(member, "__func__", member), below, label)
        return True

    def _slot(self, value: Any, member: Any, name: str, below: set[Path], label: str) -> None:
        if is_empty_slot((member, value)):
            pair = (member, value)
            self.add((id(value), name), is_empty_slot, pair, label)
            return
        self.add((id(value), name), member.__get__, value, label)
        self.value(member.__get__(value), below, label)

    # -- what is followed --------------------------------------------------------------------

    def _is_followed(self, kind: type) -> bool:
        return self._is_followed_module(kinds.module_of(kind), "")

    def _is_followed_module(self, module: Any, file: str) -> bool:
        name = package(module)
        if name in LIBRARY:
            return False
        return name == self._package or "-packages" not in (file or kinds.file_of(module))


def _owner(value: Any) -> str:
    return str(value.__name__) if kinds.is_namespace(value) else type(value).__name__
