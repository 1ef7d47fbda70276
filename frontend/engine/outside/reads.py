"""What code has read by name: where it was found, and what it was. Looked at again at every call,
by functions of Python's alone: nothing of the user's runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CellType
from typing import Any

from frontend.engine.outside.check import Same, value_text
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.items import Cached, Items, array_guard
from frontend.engine.outside.kinds import outside_trace
from frontend.engine.outside.source import ItemSource, LookupSource

Getter = Callable[[Any], Any]


class Absent(Same):
    """Names that were looked for in vain are not there."""

    __slots__ = ("_missing", "_names")

    def __init__(self, names: Any, missing: set[str]):
        super().__init__(True)
        self._names = names
        self._missing = missing

    def reason(self, label: str, now: object) -> str:
        there = sorted(self._missing & self._names.keys())
        return "; ".join(
            f"{name!r} was not there, is {value_text(self._names[name])}" for name in there
        )

    def text(self, label: str) -> str:
        return ""


class Reads:
    """The guards on values by name, and on names that were not there; then those on what containers
    hold."""

    def __init__(self) -> None:
        self._reads: list[Guard] = []
        self._contents: list[Guard] = []
        self.containers: list[Items] = []
        self._caches: list[Cached] = []
        self._known: set[Any] = set()
        # What code computes when it is first asked for, and leaves in a dict: (its id, name).
        self.kept: set[tuple[int, str]] = set()
        # By the id of a dict or class: the names in it that were looked for in vain.
        self._absent: dict[int, tuple[Any, set[str]]] = {}

    @property
    def guards(self) -> list[Guard]:
        """All of them, in the order they were found."""
        return [*self._reads, *self._contents]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._reads) + len(self._contents)

    # -- adding ------------------------------------------------------------------------------

    def note(self, space: Any, name: str, label: str) -> bool:
        """A name in a dict, or in a class: whether it is there. If not, that is noted."""
        names: Any = vars(space) if isinstance(space, type) else space
        known = (id(space), name)
        if name not in names:
            self.lacking(space, name)
            return False
        if not self.is_open(space, name):
            if type(names) is dict:
                self.look_up(known, ItemSource(names, name, label))
            else:
                self.add(known, names.get, name, label)
        if names[name] is None:
            self.add((known, "is there"), names.__contains__, name, label)
        return True

    def lacking(self, space: Any, name: str) -> None:
        """A name that a dict, or a class, has not."""
        if self.first(("read", (id(space), name))):
            self._missing(space, vars(space) if isinstance(space, type) else space).add(name)

    def _missing(self, space: Any, names: Any) -> set[str]:
        known = self._absent.get(id(space))
        if known is not None:
            return known[1]
        missing: set[str] = set()
        self._absent[id(space)] = (names, missing)
        # The shorter of the two is gone through.
        source = LookupSource(names.keys().isdisjoint, missing, "")
        self._reads.append(Guard(source, Absent(names, missing)))
        return missing

    def add(self, known: Any, getter: Getter, key: Any, label: str) -> None:
        """What `getter(key)` gives; `known` tells whether it is noted already."""
        self.look_up(known, LookupSource(getter, key, label))

    def look_up(self, known: Any, source: LookupSource) -> None:
        """What stands at a source; `known` tells whether it is noted already."""
        if self.first(("read", known)):
            then = outside_trace(source.getter(source.key))
            self._reads.append(Guard(source, Same(then)))

    def hold(self, container: Any, label: str, open_: set[Any]) -> None:
        """What a container holds."""
        items = Items(container, label, open_)
        self.containers.append(items)
        self._contents.append(items.guard)

    def hold_array(self, array: Any, label: str) -> None:
        """What a small NumPy array holds."""
        self._contents.append(array_guard(array, label))

    def hold_cache(self, function: Any, label: str) -> None:
        """The results that a function keeps."""
        cached = Cached(function, label)
        self._caches.append(cached)
        self._contents.append(cached.guard)

    def first(self, known: Any) -> bool:
        """Whether this is new; it is known from now on."""
        if known in self._known:
            return False
        self._known.add(known)
        return True

    def is_open(self, holder: Any, key: Any) -> bool:
        """Whether what is read there is read anew at each call."""
        return False

    def appeared(self) -> list[tuple[Any, str]]:
        """Names of dicts that were looked for in vain and are there now, but for what code computes
        once and keeps."""
        return [
            (names, name)
            for names, missing in self._absent.values()
            if type(names) is dict
            for name in missing & names.keys()
            if (id(names), name) not in self.kept
        ]

    # -- in a trace and after it -------------------------------------------------------------

    def close_numbers(self) -> None:
        """Within a trace: what containers were given of numbers left open is a number."""
        for items in self.containers:
            items.close_numbers()
        for cached in self._caches:
            cached.close_numbers()

    def settle(self) -> None:
        """After a trace: no longer look at what the trace itself only added to, and look at what
        is computed once and kept: the next look finds what this one found."""
        for items in self.containers:
            items.refuse_traced()
        over = {id(items.guard) for items in self.containers if not items.settle()}
        self._contents = [guard for guard in self._contents if id(guard) not in over]
        self.containers = [items for items in self.containers if id(items.guard) not in over]
        for cached in self._caches:
            cached.settle()
        for names, missing in list(self._absent.values()):
            for name in sorted(missing & names.keys()):
                if (id(names), name) in self.kept:
                    missing.discard(name)
                    self.add((id(names), name, "kept"), names.get, name, f"attribute {name!r}")


def is_unassigned(cell: CellType) -> bool:
    """Whether a closure variable has no value yet."""
    try:
        return cell.cell_contents is None and False
    except ValueError:
        return True


def is_empty_slot(slot: tuple[Any, Any]) -> bool:
    """Whether (descriptor, object) has no value."""
    descriptor, value = slot
    try:
        descriptor.__get__(value)
    except AttributeError:
        return True
    return False


def lacks(attribute: tuple[Any, str]) -> bool:
    """Whether a thread's own object has no attribute of a name."""
    value, name = attribute
    try:
        threading.local.__getattribute__(value, name)
    except AttributeError:
        return True
    return False
