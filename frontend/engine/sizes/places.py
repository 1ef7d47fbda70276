"""Numbers outside of a compiled function that differ from call to call: an attribute of an object,
a global or closure variable, an item of a dict.

in : what guards found changed
out: places that are left open: in a trace a name of a number stands there, at a call the number is
     read
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from frontend.engine.outside.check import same
from frontend.engine.outside.containers import contents
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.source import PlaceSource
from frontend.engine.tensors.tree import NUMBERS


def changed_numbers(guards: Iterable[Guard]) -> Iterator[PlaceSource]:
    """The places of what guards look at where another number of the same type stands."""
    for place, then in (each for guard in guards for each in guard.numbers()):
        if type(then) in NUMBERS:
            now = place.read()
            if type(now) is type(then) and not same(now, then):
                yield place


class OpenPlaces:
    """The places that are left open in one trace, with what stands for their numbers in it. What
    is put there and back is the same twice as once."""

    def __init__(self, places: Sequence[tuple[PlaceSource, Any]]):
        self.pairs = places
        self._outside: list[Any] = []  # what stood there, while the trace is under way
        self._known = {place.identity for place, _ in places}

    def is_open(self, holder: Any, key: Any) -> bool:
        """Whether what is read there is read anew at each call."""
        return (id(holder), key) in self._known

    def has(self, place: PlaceSource) -> bool:
        """Whether a place is open."""
        return place.identity in self._known

    def keys_of(self, holder: Any) -> set[Any]:
        """The keys of a dict that are open."""
        return {key for identity, key in self._known if identity == id(holder)}

    def contents(self, holder: Any) -> list[Any]:
        """What a container holds, with the numbers that stand outside."""
        outside = {id(symbol): value for (_, symbol), value in zip(self.pairs, self._outside)}
        return [outside.get(id(item), item) for item in contents(holder)]

    def enter(self) -> None:
        self._outside = [place.read() for place, _ in self.pairs]
        for place, symbol in self.pairs:
            place.put(symbol)

    def leave(self) -> None:
        for (place, _), value in zip(self.pairs, self._outside):
            place.put(value)
        self._outside = []
