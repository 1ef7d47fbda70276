"""What a container holds: the source, the check, and what a trace may do with it."""

from __future__ import annotations

import operator
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from frontend.engine.outside.check import Equals, ValueCheck, is_plain, same, value_text
from frontend.engine.outside.containers import MAPPINGS, container_of, contents, size_of
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.source import (
    Call,
    ElementSource,
    ItemSource,
    PlaceSource,
    PositionSource,
    Source,
)
from frontend.engine.tensors.symbolic_numbers import extents_in, is_open
from frontend.engine.tensors.tensor import Tensor
from graphc.errors import TraceError
from graphc.ir.builder import Var
from graphc.ir.undecided import answers_now, number_of

MANY_ITEMS = 1000
"""Of a container with more items than this the items count, and not what they hold."""
MOST_ITEMS = 1 << 16
"""Of one with more than this only the number counts: its items are frozen. So many take a
millisecond to compare."""
LARGEST_ARRAY = 1 << 16
"""Bytes up to which a NumPy array counts by its content."""

DICTS = (dict, OrderedDict, defaultdict, Counter)
"""Dicts whose items each call can assign: of Python's classes."""


class FirstCallError(TraceError):
    """What a trace cannot do, and a first call may do alone: state that it makes, a file that it
    reads. The call after it is traced once more."""


def item_names(holder: object, label: str) -> Iterator[str]:
    """What the `contents` of a container that is called `label` are called, one by one."""
    base = container_of(holder)
    if base in MAPPINGS:
        keys = list(base.keys(holder))
        yield from (f"key {value_text(key)} of {label}" for key in keys)
        yield from (f"item {value_text(key)} of {label}" for key in keys)
    elif issubclass(base, list | tuple | deque):
        yield from (f"item {number} of {label}" for number in range(size_of(holder)))
    else:
        yield from (f"an item of {label}" for _ in range(size_of(holder)))


class ContentsSource(Source[list[object]]):
    """What a list, dict or set holds."""

    __slots__ = ("_base", "_is_mapping", "holder", "label")

    def __init__(self, holder: object, label: str):
        self.holder = holder
        self.label = label
        self._base = container_of(holder)
        self._is_mapping = self._base in MAPPINGS

    def read(self, call: Call = ()) -> list[object]:
        base, holder = self._base, self.holder
        if self._is_mapping:
            return [*base.keys(holder), *base.values(holder)]
        return list(base.__iter__(holder))


class Contents(ValueCheck[list[object]]):
    """The same items; but for the numbers under the keys of a dict, or the places of a list, that
    are `open_`: they are read anew at each call."""

    __slots__ = ("holder", "open", "then")

    def __init__(self, holder: object, then: list[object], open_: Collection[object] = ()):
        self.holder = holder
        self.open = open_
        self.then = self.counting(then)

    def counting(self, now: list[object]) -> list[object]:
        """What of the contents counts."""
        if not self.open:
            return now
        keys, pairs = _keyed(self.holder, now)
        return [*keys, *[None if key in self.open else value for key, value in pairs]]

    def holds(self, now: list[object]) -> bool:
        if self.open:
            now = self.counting(now)
        then = self.then
        if len(now) != len(then):
            return False
        if not all(map(operator.is_, now, then)):
            if not all(map(same, now, then)):
                return False
            self.then = now  # to compare by identity, which is faster
        return True

    def reason(self, label: str, now: list[object]) -> str:
        now, then = self.counting(now), self.then
        if len(now) != len(then):
            return f"{label} was given items, or lost some"
        triples = zip(item_names(self.holder, label), now, then)
        return "; ".join(
            f"{name} was {value_text(old)}, is {value_text(new, old)}"
            for name, new, old in triples
            if not same(new, old)
        )

    def numbers(self, source: Source[list[object]]) -> Iterator[tuple[PlaceSource, object]]:
        kind = type(self.holder)
        place: Any = ItemSource if kind in DICTS else PositionSource if kind is list else None
        for key, value in _keyed(self.holder, self.then)[1] if place else ():
            yield place(self.holder, key, f"item {key!r} of {source.label}"), value


def _keyed(holder: object, held: list[object]) -> tuple[list[object], list[tuple[object, object]]]:
    """The keys among what a mapping holds, none of others; and the values with keys or places."""
    if container_of(holder) not in MAPPINGS:
        return [], [*enumerate(held)]
    keys = held[: len(held) // 2]
    return keys, [*zip(keys, held[len(keys) :])]


class Items:
    """A container in a trace, and the guard on what it holds."""

    def __init__(self, holder: object, label: str, open_: Collection[object] = ()):
        self.holder = holder
        self.label = label
        self._source = ContentsSource(holder, label)
        self._check = Contents(holder, self._source.read(), open_)
        self.guard = Guard(self._source, self._check)
        self.written_only = False  # no code reads it: a log
        self.is_log = False  # each call adds to it

    def before(self) -> list[object]:
        """What it held ahead of the trace, which is over: with the numbers that are open."""
        then, open_ = self._check.then, self._check.open
        if not open_:
            return then
        holder: Any = self.holder
        keys, pairs = _keyed(holder, then)
        return [*keys, *[holder[key] if key in open_ else value for key, value in pairs]]

    def new_places(self) -> Iterator[PlaceSource]:
        """Within a trace: keys of a dict, elements of a set, that were not there ahead of it."""
        holder: Any = self.holder
        if type(holder) in DICTS:
            known = set(_keyed(holder, self._check.then)[0])
            for key in holder:
                if key not in known:
                    yield ItemSource(holder, key, f"item {key!r} of {self.label}")
        elif type(holder) is set:
            for element in holder.difference(self._check.then):
                yield ElementSource(holder, element, f"element {element!r} of {self.label}")

    def appended(self) -> list[object]:
        """Within a trace: what it was given behind what it held, if no code reads it and all of
        that is still there."""
        now, then = self._source.read(), self._check.then
        if type(self.holder) not in (list, deque) or not self.written_only:
            return []
        return now[len(then) :] if all(map(operator.is_, now, then)) else []

    def settle(self) -> bool:
        """After a trace: whether to go on looking. A log that only grew is not looked at again:
        Python's effects happen once. What is read and grows is looked at, and found changed."""
        if self.is_log:
            return False
        return not self.written_only or self.guard.holds() or not self._only_grown()

    def _only_grown(self) -> bool:
        """Whether all that was there is still there, in its place where it has one."""
        now, then = self._check.counting(self._source.read()), self._check.then
        if container_of(self.holder) in MAPPINGS:
            count, size = len(then) // 2, len(now) // 2
            now = [*now[:count], *now[size : size + count]]
        elif issubclass(type(self.holder), set):
            return set(map(id, then)) <= set(map(id, now))
        return len(now) >= len(then) and all(same(a, b) for a, b in zip(now, then) if is_plain(b))

    def refuse_traced(self) -> None:
        """Raise TraceError where a trace put a tensor of its own here, or below what it put here:
        it is computed anew at each call, and what is here would stay without a value."""
        known = set(map(id, self._check.then))
        left = [item for item in contents(self.holder) if id(item) not in known]
        while left:
            item = left.pop()
            if isinstance(item, Tensor):
                if type(item._value) is Var:
                    raise FirstCallError(
                        f"{self.label} keeps a tensor {item.tensor_type} that is being traced",
                        hint="make state outside, before the first call; return the value, or hand "
                        "it out with frontend.tap(t, fn)",
                    )
            elif id(item) not in known and container_of(item) is not None:
                known.add(id(item))
                left += contents(item)

    def close_numbers(self) -> None:
        """Within a trace: what it put here of numbers that are left open is the number of now, here
        and in the trace from now on. It stays while calls come and go."""
        known, open_ = set(map(id, self._check.then)), self._check.open
        _Closing(self.label).items(self.holder, lambda key, item: key in open_ or id(item) in known)


class _Closing:
    """Puts numbers in place of those that are left open, in what is kept in `label`."""

    def __init__(self, label: str):
        self.label = label
        self.seen: set[int] = set()

    def value(self, value: Any) -> Any:
        """The same with numbers, inside of tuples, and of lists and dicts, too."""
        if is_open(value):
            return number_of(extents_in(value), f"being kept in {self.label}")
        kind = type(value)
        if issubclass(kind, tuple):
            items = [self.value(item) for item in value]
            if all(map(operator.is_, items, value)):
                return value
            return kind._make(items) if hasattr(kind, "_make") else kind(items)
        if kind in (list, dict):
            self.items(value)
        return value

    def items(self, holder: Any, skips: Callable[[Any, Any], bool] | None = None) -> None:
        """The items of a list, set or dict, but for those that `skips(key, item)` says."""
        if id(holder) in self.seen:
            return
        self.seen.add(id(holder))
        base = container_of(holder)
        if base in (OrderedDict, dict):
            self._entries(base, holder, skips)
        elif base in (list, deque):
            for at, item in enumerate(base.__iter__(holder)):
                if not (skips and skips(at, item)) and (now := self.value(item)) is not item:
                    base.__setitem__(holder, at, now)
        elif base is set:
            for item in list(base.__iter__(holder)):
                if (now := self.value(item)) is not item:
                    base.discard(holder, item)
                    base.add(holder, now)

    def _entries(self, base: Any, holder: Any, skips: Callable[[Any, Any], bool] | None) -> None:
        for key, item in list(base.items(holder)):
            if not (skips and skips(key, item)) and (now := self.value(item)) is not item:
                base.__setitem__(holder, key, now)
        items = list(base.items(holder))
        keys = [self.value(key) for key, _ in items]
        if any(map(operator.is_not, keys, base.keys(holder))):
            base.clear(holder)
            base.update(holder, zip(keys, [item for _, item in items]))


class ArraySource(Source[object]):
    """What a small NumPy array holds."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray):
        self.array = array

    def read(self, call: Call = ()) -> object:
        return self.array.dtype.str, self.array.shape, self.array.tobytes()


def array_guard(array: np.ndarray, label: str) -> Guard:
    """On what a small NumPy array holds."""
    source = ArraySource(array)
    return Guard(source, Equals(source.read(), f"the content of {label} changed"))


class CacheSource(Source[int]):
    """How often a function that keeps its results, by `functools.lru_cache`, had none."""

    __slots__ = ("function", "label")

    def __init__(self, function: Any, label: str):
        self.function = function
        self.label = label

    def read(self, call: Call = ()) -> int:
        return int(type(self.function).cache_info(self.function).misses)


class NotCleared(ValueCheck[int]):
    """Results are kept as long as there are no fewer misses."""

    __slots__ = ("misses",)

    def __init__(self) -> None:
        self.misses = 0

    def holds(self, now: int) -> bool:
        self.misses, before = max(now, self.misses), self.misses
        return now >= before

    def reason(self, label: str, now: int) -> str:
        return f"{label}: what it had cached was cleared"


class Cached:
    """A function that keeps its results, in a trace. Those that were computed in it are its results
    for as long as they are kept."""

    def __init__(self, function: Any, label: str):
        self._source = CacheSource(function, label)
        self._check = NotCleared()
        self.guard = Guard(self._source, self._check)
        self.ahead = self._source.read()  # of the trace

    def settle(self) -> None:
        self._check.misses = self._source.read()

    def close_numbers(self) -> None:
        """Within a trace. What the cache was given in it may hold numbers that are left open, and
        cannot be looked at: it is computed again where they are numbers."""
        function, label = self._source.function, self._source.label
        if answers_now() is not None and self._source.read() > self.ahead:
            type(function).cache_clear(function)
            raise TraceError(f"{label} caches what is computed of sizes that are left open")
