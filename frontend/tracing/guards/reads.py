"""What code has read by name: where it was found, and what it was. Looked at again at every call,
by functions of Python's alone: nothing of the user's runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import CellType
from typing import Any

from frontend.tracing.guards.checks import is_plain, same
from frontend.tracing.guards.items import Items, shown

Getter = Callable[[Any], Any]


class Reads:
    """Values by name, and names that were not there. `items` holds guards on what containers
    hold."""

    by_epoch = False

    def __init__(self) -> None:
        # What is read: getter(key), what that was, and what it is called.
        self.reads: list[tuple[Getter, Any, Any]] = []
        self.labels: list[str] = []
        self.items: list[Any] = []
        self._known: set[Any] = set()
        # What code computes when it is first asked for, and leaves in a dict: (its id, name).
        self.kept: set[tuple[int, str]] = set()
        # By the id of a dict or class: the names in it that were looked for in vain.
        self._absent: dict[int, tuple[Any, set[str]]] = {}

    # -- adding ------------------------------------------------------------------------------

    def note(self, space: Any, name: str, label: str) -> bool:
        """A name in a dict, or in a class: whether it is there. If not, that is noted."""
        names = vars(space) if isinstance(space, type) else space
        known = (id(space), name)
        if name not in names:
            if self.first(("read", known)):
                self._missing(space, names, label).add(name)
            return False
        if not self.is_open(space, name):
            self.add(known, names.get, name, label)
        if names[name] is None:
            self.add((known, "is there"), names.__contains__, name, label)
        return True

    def _missing(self, space: Any, names: Any, label: str) -> set[str]:
        known = self._absent.get(id(space))
        if known is not None:
            return known[1]
        missing: set[str] = set()
        self._absent[id(space)] = (names, missing)
        # The shorter of the two is gone through.
        self.reads.append((names.keys().isdisjoint, missing, True))
        self.labels.append(label)
        return missing

    def add(self, known: Any, getter: Getter, key: Any, label: str) -> None:
        """What `getter(key)` gives; `known` tells whether it is noted already."""
        if self.first(("read", known)):
            self.reads.append((getter, key, getter(key)))
            self.labels.append(label)

    def first(self, known: Any) -> bool:
        """Whether this is new; it is known from now on."""
        if known in self._known:
            return False
        self._known.add(known)
        return True

    def is_open(self, holder: Any, key: Any) -> bool:
        """Whether what is read there is read anew at each call."""
        return False

    def numbers(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """What was read of dicts and closure variables: holder, key, what it was, label."""
        for (getter, key, then), label in zip(self.reads, self.labels):
            if type(key) is CellType:
                yield key, None, then, label
            elif getattr(getter, "__name__", "") == "get":
                yield getattr(getter, "__self__", None), key, then, label
        for items in self.items:
            if isinstance(items, Items):
                yield from items.numbers()

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
            if type(key) is set and now is not then:
                yield from self._appeared(key)
            elif not same(now, then):
                yield f"{label} was {shown(then)}, is {shown(now, then)}"

    def _appeared(self, missing: set[str]) -> Iterator[str]:
        names = next(names for names, absent in self._absent.values() if absent is missing)
        for name in sorted(missing & names.keys()):
            yield f"{name!r} was not there, is {shown(names[name])}"

    def close_numbers(self) -> None:
        """Within a trace: what containers were given of numbers left open is a number."""
        for items in self.items:
            items.close_numbers()

    def settle(self) -> None:
        """After a trace: no longer look at what the trace itself only added to, and look at what
        is computed once and kept: the next look finds what this one found."""
        for items in self.items:
            items.refuse_traced()
        self.items = [items for items in self.items if items.settle()]
        for names, missing in list(self._absent.values()):
            for name in sorted(missing & names.keys()):
                if (id(names), name) in self.kept:
                    missing.discard(name)
                    self.add((id(names), name, "kept"), names.get, name, f"attribute {name!r}")

    def __str__(self) -> str:
        labelled = zip(self.labels, self.reads)
        plain = ((label, value) for label, (_, key, value) in labelled if type(key) is not set)
        return "\n".join(f"{label}={value!r}" for label, value in plain if is_plain(value))


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
