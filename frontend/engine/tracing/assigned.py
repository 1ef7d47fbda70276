"""Numbers and other plain values outside that a traced function assigns: a counter, a rate that
decays, a flag. Each call computes the new value and puts it there once tensors are written.

in : what a trace relies on, and what stands there when it ends
out: places with what they are given, an expression of what was left open or a value; all of them
     as they were ahead of the trace
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple

from frontend.engine.outside.check import Same, is_plain, same
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.kinds import sets_plainly
from frontend.engine.outside.source import (
    MISSING,
    ItemSource,
    LookupSource,
    MemberSource,
    PlaceSource,
    StateSource,
)
from frontend.engine.tensors.symbolic_numbers import extents_in, is_open
from frontend.engine.tracing.current_trace import CurrentTrace
from frontend.engine.tracing.guards.globals import CapturedGlobals
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.size_floats import is_open as is_expression
from graphc.ir.size_floats import text_of


class Assigned(NamedTuple):
    """A place, what stood there ahead of the trace, and what each call puts there."""

    place: PlaceSource
    before: Any
    value: Any


class AssignedPlaces:
    """Of one trace; `reached`: what it reads by name. `assigns`: whether calls can assign; else the
    places that are left open are to stay as they are, and others are as they come."""

    def __init__(self, trace: CurrentTrace, reached: CapturedGlobals, assigns: bool):
        self._trace = trace
        self._reached = reached
        self.assigns = assigns
        self._written: dict[Any, Assigned] = {}  # attributes of Modules, as they are written
        self.of_open: list[Assigned] = []
        """Of places that are left open."""
        self.of_fixed: list[Assigned] = []
        """Of those that hold what the trace is for, as a guard says."""

    def takes(self, module: Any, name: str, value: Any) -> bool:
        """Whether each call can assign an attribute that the trace is about to write."""
        place = MemberSource(vars(module), name, f"{type(module).__name__}.{name}")
        if not sets_plainly(type(module)) or not self._can_take(place, value):
            return False
        self._trace.follow(module)  # the guard on it is made of what stands there now
        return True

    def takes_state(self, state: dict[Any, Any], key: Any, value: Any) -> bool:
        """Whether each call can assign an item of an optimizer's state."""
        place = StateSource(state, key, f"state {key!r} of an optimizer")
        before = place.now()
        if not self._can_take(place, value):
            return False
        if not self._trace.places.has(place):
            missing = LookupSource(state.__contains__, key, place.label)
            guard = Guard(missing, Same(False)) if before is MISSING else Guard(place, Same(before))
            self._trace.guard(place.identity, lambda: guard)
        return True

    def _can_take(self, place: PlaceSource, value: Any) -> bool:
        before = place.now()
        if not self.assigns or not _can_be_put(value):
            return False
        if not _can_be_put(before) and before is not MISSING:
            return False
        self._trace.refuse_in_region(f"assigning {place.label}")
        self._written.setdefault(place.identity, Assigned(place, before, None))
        return True

    def take(self) -> None:
        """Within a trace that is about to end: note what is assigned. Raises TraceError for what a
        place that is left open cannot be given."""
        self.of_open = [*self._of_open()]
        if not self.assigns:
            for each in self.of_open:
                raise _refused(each.place)
            return
        places = self._trace.places
        fixed = {
            each.place.identity: each
            for each in [*self._written.values(), *self._by_guards()]
            if not places.has(each.place) and not self._is_set_by_code(each.place)
        }
        self.of_fixed = [
            each._replace(value=_settled(each.place.now()))
            for each in fixed.values()
            if not same(each.before, each.place.now())
        ]

    def _of_open(self) -> Iterator[Assigned]:
        for place, symbol in self._trace.places.pairs:
            value = place.now()
            if value is symbol:
                continue
            if not _can_be_put(value):
                raise _refused(place)
            yield Assigned(place, symbol, _settled(value))

    def _by_guards(self) -> Iterator[Assigned]:
        """What was read by name, and is another plain value now."""
        reached = self._reached
        for guard in reached.guards:
            if guard.holds():
                continue
            for place, before in guard.numbers():
                value = place.now()
                if is_plain(before) and _can_be_put(value):
                    yield Assigned(place, before, None)
        new: list[PlaceSource] = [
            ItemSource(names, name, repr(name)) for names, name in reached.appeared()
        ]
        for items in reached.containers:
            new += items.new_places()
        for place in new:
            if _can_be_put(place.now()) or _is_made_of_plain(place.now()):
                yield Assigned(place, MISSING, None)

    def _is_set_by_code(self, place: PlaceSource) -> bool:
        """Whether code of the user's has a say in what is assigned there."""
        return id(place.holder) in self._reached.set_by

    def restore(self) -> None:
        """All of them as they were ahead of the trace, but for those that are left open."""
        for each in (*self.of_fixed, *self._written.values()):
            if not same(each.place.now(), each.before):
                each.place.put(each.before)
        self._written = {}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise TraceError for what is assigned inside, in the body of a loop or branch: a trace
        runs it once or twice, calls as often as it comes."""
        if not self.assigns:
            yield
            return
        guards = self._reached.guards
        places = [place for guard in guards for place, _ in guard.numbers()]
        places += [place for place, _ in self._trace.places.pairs]
        before = [place.now() for place in places]
        yield
        for place, value in zip(places, before):
            now = place.now()
            if now is not value and (is_open(now) or is_open(value) or not same(now, value)):
                self._trace.refuse_in_region(f"assigning {place.label}")


def by_expression(assigned: Iterable[Assigned]) -> list[tuple[Any, list[PlaceSource]]]:
    """What is computed, each once, and the places that get it."""
    known: dict[Any, tuple[Any, list[PlaceSource]]] = {}
    for each in assigned:
        shares = is_expression(each.value) and each.before is not MISSING
        # What is new in a dict keeps its order there.
        key = (type(each.value), text_of(each.value)) if shares else id(each)
        known.setdefault(key, (each.value, []))[1].append(each.place)
    return [*known.values()]


def _can_be_put(value: Any) -> bool:
    """Whether each call can compute it: a plain value, or a number that is left open."""
    return is_open(value) or is_plain(value)


def _is_made_of_plain(value: Any) -> bool:
    """Whether it is a list, dict or set of plain values and of such: each call puts a copy."""
    kind = type(value)
    if kind in (list, set):
        return all(is_plain(item) or _is_made_of_plain(item) for item in value)
    if kind is dict:
        return all(map(is_plain, value)) and _is_made_of_plain([*value.values()])
    return False


def _settled(value: Any) -> Any:
    """An expression, or the plain value."""
    return extents_in(value) if is_open(value) else deepcopy(value)


def _refused(place: PlaceSource) -> TraceError:
    return TraceError(
        f"{place.label} is assigned while tracing; compiled code would not repeat the assignment",
        hint="assign it outside, or keep it in a tensor that is changed in place",
        location=user_location(),
    )
