"""Attributes: what code reads of objects, classes and Python modules, by paths, without running
anything. Which objects a loose path belongs to is not known: it is read of all of them.
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, MemberDescriptorType
from typing import Any

from frontend.engine.outside import kinds
from frontend.engine.outside.bytecode import ITSELF, Path, is_item
from frontend.engine.outside.guard import module_guard
from frontend.engine.outside.kinds import LIBRARY, OURS, SELF, package, package_of, state_of
from frontend.engine.outside.reads import Reads, is_empty_slot, lacks
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.current_trace import CurrentTrace
from frontend.engine.tracing.undoing import BeforeTrace
from graphc.errors import TraceError
from graphc.ir.nodes import Location

_MRO = operator.attrgetter("__mro__")
MOST_STEPS = 1 << 18
"""How many names of objects are looked up, at most, to find what a trace relies on."""
MOST_GUARDS = 1 << 14
"""How many values and containers a call looks at again, at most, of what code reads by name."""


class Attributes(Reads):
    """Reads of attributes. `trace` takes the guards on Modules that are found."""

    def __init__(self, trace: CurrentTrace):
        super().__init__()
        self.trace = trace
        self._objects: list[Any] = []  # whose attributes are looked at: loose paths may be theirs
        self._loose: set[Path] = set()
        self._computed: set[str] = set()  # beginnings of names that code puts together
        self._texts: set[str] = set()  # that code can reach: names, where it computes some
        self.modules: list[Any] = []  # that may run
        self.before: BeforeTrace | None = BeforeTrace()
        self._kinds: dict[type, _Kind] = {}
        # Of dicts of attributes, by id: the class that has a say in what is assigned to them.
        self.set_by: dict[int, type] = {}
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._is_reading = False
        self._left = MOST_STEPS
        self.name = "the function"
        self.identities = False  # whether tensors may be told apart by which object they are
        self.tensors: dict[int, Tensor] = {}  # those that code can reach, by id

    def _value(self, value: Any, paths: Iterable[Path], label: str) -> None:
        raise NotImplementedError

    def _function(self, function: FunctionType, owner: Any = None) -> None:
        raise NotImplementedError

    def _method(self, function: Any, owner: Any, label: str) -> None:
        raise NotImplementedError

    # -- one after another, those near the function first -------------------------------------

    def value(self, value: Any, paths: Iterable[Path], label: str) -> None:
        """What code may read of a value; `paths`: attributes that it does read."""
        self.later(self._value, value, paths, label)

    def later(self, read: Callable[..., None], *arguments: Any) -> None:
        """Have `read` called: at the end of the calls that wait, so that how deep objects refer to
        each other does not count."""
        self._waiting.append((read, arguments))
        if self._is_reading:
            return
        self._is_reading = True
        try:
            while self._waiting and self.spend():
                read, arguments = self._waiting.popleft()
                read(*arguments)
        finally:
            self._is_reading = False
            self._waiting.clear()

    def spend(self) -> bool:
        """Take one step: whether there was one left. Warns at the last one, of what is left out."""
        if self._left <= 0:
            return False
        self._left -= 1
        if self._left and self.count < MOST_GUARDS:
            return True
        self._left, self.identities = 0, True
        left = [each for _, arguments in self._waiting for each in arguments[:1]] + self._objects
        where = Counter(filter(None, map(_followed_package, left))).most_common(4)
        warnings.warn(
            f"the code of {self.name} can read more by name than a compiled function looks at "
            f"again ({MOST_GUARDS:,} values, found in {MOST_STEPS:,} steps): what lies further "
            f"away is taken as frozen, in {', '.join(name for name, _ in where) or 'Python'}",
            stacklevel=2,
        )
        return False

    def check_unread(self, changing: Mapping[int, Any], location: Location | None) -> None:
        """At the end of a trace: raise TraceError where code may read an attribute of an object
        that each call changes once it is over, as was said at `location`."""
        reads = [
            (known[2][0], changing[known[1]])
            for known in self._known
            if isinstance(known, tuple) and known[0] == "path" and known[1] in changing
            if _is_read_of(changing[known[1]], known[2][0])
        ]
        if reads:
            # A method ahead of the attributes that it computes by.
            name, value = min(
                reads, key=lambda read: (read[0] in (state_of(read[1]) or ()), read[0])
            )
            raise TraceError(
                f"{name!r} of a {type(value).__name__} is read where its step is taken, too: a "
                "compiled function takes that once it is over",
                hint="read it outside, or step outside",
                location=location,
            )

    # -- objects -----------------------------------------------------------------------------

    def module(self, module: Any) -> None:
        """A Module that may run: its attributes, and what its methods read from outside."""
        if not self.first(("module", id(module))):
            return
        self.modules.append(module)
        open_ = self.trace.places.keys_of(module.__dict__)
        self.trace.guard(id(module), lambda: module_guard(module, open_))
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
                self._of_ours(value, paths, first)
                return
            state = state_of(value)
            if first:
                self.add((id(value), "class"), type, value, f"the class of a {kind.__name__}")
                if state is not None:
                    held = functools.partial(object.__getattribute__, value)
                    self.add((id(value), "dict"), held, "__dict__", f"a {kind.__name__}.__dict__")
                self._known_object(value)
        self._read(value, paths)

    def _of_ours(self, value: Any, paths: Iterable[Path], first: bool) -> None:
        """An object of the frontend's, whose code is not followed: attributes of it that are read
        by name. Optimizers tell when theirs change."""
        state = state_of(value)
        if not state or "param_groups" in state:
            return
        if kinds.computes_by_attributes(type(value)):
            if first:
                self._objects.append(value)
                self._read(value, self._loose)
        else:
            paths = [path for path in paths if path[0] in state]
        self._read(value, paths)

    def _known_object(self, value: Any) -> None:
        """An object whose attributes code may read without a path from a name to it, and whose
        special methods it may run."""
        self._objects.append(value)
        if not kinds.sets_plainly(type(value)):
            self.set_by[id(state_of(value))] = type(value)
        followed = self._kind(type(value)).followed
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
            self.hold(state, label, self.trace.places.keys_of(state))
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
        if self._is_followed_module(
            kinds.name_of_module(module), vars(module).get("__file__") or ""
        ):
            if first:
                self._objects.append(module)
                self._read(module, self._loose)
                self.value(vars(module).get("__getattr__"), (), "a module's __getattr__()")
            self._read(module, paths)
            return
        for path in sorted(p for p in paths if self.first(("path", id(module), p))):
            head, below = path[0], {path[1:]} - {()}
            if package(kinds.name_of_module(module)) in OURS:
                getattr(module, head, None)  # some are imported when they are first asked for
            if (
                head == ITSELF
                or is_item(head)
                or not self.note(vars(module), head, f"{module.__name__}.{head}")
            ):
                self.kept.add((id(vars(module)), head))
                continue
            held = vars(module)[head]
            if not isinstance(held, type) and module is not sys:
                self.value(held, below, f"{module.__name__}.{head}")

    def _loosen(self, paths: Iterable[Path]) -> None:
        """Paths of what is not known: of every object there is."""
        new = set(paths) - self._loose
        self._loose |= new
        if new:
            self.later(self._read_of_all, new)

    def _read_of_all(self, paths: set[Path]) -> None:
        for value in list(self._objects):
            self._read(value, paths)

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
        heads: dict[str, set[Path]] = {}
        for path in sorted(p for p in paths if self.first(("path", id(value), p))):
            heads.setdefault(path[0], set()).update({path[1:]} - {()})
        for head, below in heads.items():
            if not self.spend():
                return
            if head == "__dict__":
                self._whole(value)
            elif head == "__class__":
                self.value(type(value), below, "a class")
            elif head != ITSELF and not is_item(head):
                self._attribute(value, head, below)

    def _attribute(self, value: Any, name: str, below: set[Path]) -> None:
        known = self._kind(type(value))
        if known.is_of_thread:
            self._of_thread(value, name, below)
            return
        state = None if known.is_class else state_of(value)
        # The guard of a Module sees its attributes.
        guarded = known.is_module
        if state is not None and name in state:
            label = f"attribute {name!r} of {_owner(value)}"
            if not guarded:
                self.note(state, name, label)
            self.value(state[name], below, label)
            return
        computed_by = kinds.computed_by(known.kind, name, state or ()) if name else ()
        if computed_by:
            self._read(value, [(each,) for each in computed_by])
        elif state is not None and not guarded:
            self.lacking(state, name)
        # All of them: a method may call that of a base class.
        having = self._having(value, name) if known.is_class else ()
        having += self._having(type(value), name)
        if guarded and (name,) in SELF:  # what runs, of an installed package too
            runs = [each for each in type(value).__mro__ if name in vars(each)]
            having += tuple(runs[:1]) if not having else ()
        for kind in having:
            self._class_attribute(value, kind, name, below)

    def _kind(self, kind: type) -> _Kind:
        known = self._kinds.get(kind)
        if known is None:
            followed = tuple(each for each in _MRO(kind) if self._is_followed(each))
            known = self._kinds[kind] = _Kind(kind, followed)
        return known

    def _having(self, kind: type, name: str) -> tuple[type, ...]:
        """The followed ones of a class and its bases that have an attribute; that the others lack
        it is noted."""
        known = self._kind(kind)
        having = known.having.get(name)
        if having is None:
            for each in known.followed:
                if name not in vars(each):
                    self.lacking(each, name)
            having = tuple(each for each in known.followed if name in vars(each))
            known.having[name] = having
        return having

    def _of_thread(self, value: Any, name: str, below: set[Path]) -> None:
        """An attribute that each thread has of its own."""
        label = f"attribute {name!r} of {_owner(value)}"
        getter = functools.partial(threading.local.__getattribute__, value)
        try:
            held = getter(name)
        except AttributeError:
            self.add((id(value), name), lacks, (value, name), label)
            return
        self.add((id(value), name), getter, name, label)
        self.value(held, below, label)

    def _class_attribute(self, value: Any, kind: type, name: str, below: set[Path]) -> None:
        """What a class of an object has under a name."""
        if self.before is not None:
            self.before.note_class(kind)
        label = f"attribute {name!r} of {kind.__name__}"
        member: Any = vars(kind).get(name)
        if isinstance(member, MemberDescriptorType) and not isinstance(value, type):
            self._slot(value, member, name, below, label)
            return
        self.note(kind, name, label)
        if type(member) in kinds.DESCRIPTORS:
            if isinstance(member, functools.cached_property):
                self.kept.add((id(state_of(value)), name))
            for part in kinds.DESCRIPTORS[type(member)]:
                self._method(getattr(member, part), value, label)
        elif isinstance(member, FunctionType):
            # A decorator of an installed package goes around code that is followed.
            around = member.__closure__ is not None
            if around or self._is_followed_module(
                member.__module__ or "", member.__code__.co_filename
            ):
                self._method(member, value, label)
        elif isinstance(member, classmethod):
            owner = value if isinstance(value, type) else type(value)
            self._method(member.__func__, owner, label)
        else:
            self.value(getattr(member, "__func__", member), below, label)

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
        return package(module) not in LIBRARY and not kinds.is_installed(module, file)


class _Kind:
    """What is asked of a class again and again."""

    __slots__ = ("followed", "having", "is_class", "is_module", "is_of_thread", "kind")

    def __init__(self, kind: type, followed: tuple[type, ...]):
        self.kind = kind
        self.followed = followed
        self.having: dict[str, tuple[type, ...]] = {}
        self.is_class = issubclass(kind, type)
        self.is_module = kinds.is_nn_module(kind)
        self.is_of_thread = issubclass(kind, threading.local)


def _is_read_of(value: Any, name: str) -> bool:
    """Whether what is named of an object is an attribute of its own, or computed by these."""
    state = state_of(value) or {}
    return name in state or (name != ITSELF and bool(kinds.computed_by(type(value), name, state)))


def _followed_package(value: Any) -> str:
    """The module that a value is from, or its class; "" where it is Python's or ours."""
    if kinds.is_namespace(value):
        name = kinds.name_of_module(value)
    elif isinstance(value, FunctionType):
        name = value.__module__ or ""
    else:
        name = kinds.module_of(value if isinstance(value, type) else type(value))
    return "" if package(name) in LIBRARY else name


def _owner(value: Any) -> str:
    return str(value.__name__) if kinds.is_namespace(value) else type(value).__name__
