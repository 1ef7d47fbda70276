"""Numbers outside of a compiled function that differ from call to call: an attribute of an object,
a global or closure variable, an item of a dict.

in : what guards found changed
out: places that are left open: in a trace a name of a number stands there, at a call the number is
     read
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import CellType
from typing import Any

from frontend.tracing.guards.checks import same
from frontend.tracing.tree import NUMBERS
from graphc.errors import TraceError
from graphc.ir.builder import user_location

_MISSING = object()


class NumberPlace:
    """Where a number stands: a key of a dict (attributes of an object, globals), or a closure
    variable. `label` is what it is called."""

    __slots__ = ("holder", "key", "label")

    def __init__(self, holder: Any, key: Any, label: str):
        self.holder = holder
        self.key = key
        self.label = label

    @property
    def identity(self) -> tuple[int, Any]:
        return id(self.holder), self.key

    def get(self) -> Any:
        """What stands there now."""
        if type(self.holder) is not CellType:
            return self.holder.get(self.key, _MISSING)
        try:
            return self.holder.cell_contents
        except ValueError:
            return _MISSING

    def put(self, value: Any) -> None:
        if type(self.holder) is CellType:
            self.holder.cell_contents = value
        else:
            self.holder[self.key] = value


def changed_numbers(reads: Iterable[tuple[Any, Any, Any, str]]) -> Iterator[NumberPlace]:
    """Of what was read (holder, key, what it was, label), the places where another number of the
    same type stands."""
    for holder, key, then, label in reads:
        if type(then) not in NUMBERS:
            continue
        if type(holder) is not dict and type(holder) is not CellType:
            continue
        place = NumberPlace(holder, key, label)
        now = place.get()
        if type(now) is type(then) and not same(now, then):
            yield place


class OpenPlaces:
    """The places that are left open in one trace, with what stands for their numbers in it. What
    is put there and back is the same twice as once."""

    def __init__(self, places: Sequence[tuple[NumberPlace, Any]]):
        self._places = places
        self._outside: list[Any] = []  # what stood there, while the trace is under way
        self._known = {place.identity for place, _ in places}

    def is_open(self, holder: Any, key: Any) -> bool:
        """Whether what is read there is read anew at each call."""
        return (id(holder), key) in self._known

    def keys_of(self, holder: Any) -> set[Any]:
        """The keys of a dict that are open."""
        return {key for identity, key in self._known if identity == id(holder)}

    def enter(self) -> None:
        self._outside = [place.get() for place, _ in self._places]
        for place, symbol in self._places:
            place.put(symbol)

    def leave(self) -> None:
        for (place, _), value in zip(self._places, self._outside):
            place.put(value)
        self._outside = []

    def check_unchanged(self) -> None:
        """Raise TraceError where the trace put something else there."""
        for place, symbol in self._places:
            if place.get() is not symbol:
                raise TraceError(
                    f"{place.label} is assigned while tracing; compiled code would not repeat the "
                    "assignment",
                    hint="assign it outside, or keep it in a tensor that is changed in place",
                    location=user_location(),
                )


class PlaceGuard:
    """A number from outside that the graph of an instance is for."""

    by_epoch = False

    def __init__(self, place: NumberPlace, value: Any):
        self.place = place
        self.value = value

    def holds(self) -> bool:
        return same(self.place.get(), self.value)

    def reason(self) -> str:
        return f"{self.place.label} was {self.value!r}, is {self.place.get()!r}"

    def __str__(self) -> str:
        return f"{self.place.label}={self.value!r}"
