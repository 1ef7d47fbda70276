"""What a container holds, compared without running code of the user's: a class of theirs may say
what it likes in `__iter__` and `values`."""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np

from frontend.tensors.sizes import extents_in, is_open
from frontend.tensors.tensor import Tensor
from frontend.tracing.guards.checks import is_plain, same
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

MAPPINGS = (OrderedDict, dict, MappingProxyType)
SEQUENCES = (list, tuple, deque, set, frozenset, bytearray)
HASHED = (*MAPPINGS, set, frozenset)
_FIXED = (tuple, frozenset)
_GROWING = (dict, set)


def container_of(value: Any) -> type | None:
    """The container of Python's that a value is, None for others."""
    kind = type(value)
    return next((base for base in (*MAPPINGS, *SEQUENCES) if issubclass(kind, base)), None)


def keys_of(holder: Any) -> list[Any]:
    """What the entries of a mapping or set are found by."""
    base: Any = container_of(holder)
    return list(base.keys(holder) if base in MAPPINGS else base.__iter__(holder))


def contents(holder: Any) -> list[Any]:
    """The keys and values of a mapping, the items of a sequence or set."""
    base: Any = container_of(holder)
    if base in MAPPINGS:
        return [*base.keys(holder), *base.values(holder)]
    return list(base.__iter__(holder))


def size_of(holder: Any) -> int:
    """How many items a container has."""
    base: Any = container_of(holder)
    return int(base.__len__(holder))


def item_names(holder: Any, label: str) -> Iterator[str]:
    """What the `contents` of a container that is called `label` are called, one by one."""
    base: Any = container_of(holder)
    if base in MAPPINGS:
        keys = list(base.keys(holder))
        yield from (f"key {shown(key)} of {label}" for key in keys)
        yield from (f"item {shown(key)} of {label}" for key in keys)
    elif issubclass(base, list | tuple | deque):
        yield from (f"item {number} of {label}" for number in range(size_of(holder)))
    else:
        yield from (f"an item of {label}" for _ in range(size_of(holder)))


class Items:
    """What a list, dict or set holds; but for the numbers under the keys of a dict that are
    `open_`: they are read anew at each call."""

    def __init__(self, holder: Any, label: str, open_: Collection[Any] = ()):
        self.holder = holder
        self.label = label
        self.open = open_
        self.then = self._now()
        self.written_only = False  # no code reads it: a log

    def _now(self) -> list[Any]:
        if not self.open:
            return contents(self.holder)
        items = self.holder.items()
        return [*self.holder, *[None if key in self.open else value for key, value in items]]

    def before(self) -> list[Any]:
        """What it held ahead of the trace, which is over: with the numbers that are open."""
        if not self.open:
            return self.then
        keys = self.then[: len(self.then) // 2]
        values = zip(keys, self.then[len(keys) :])
        return [*keys, *[self.holder.get(k) if k in self.open else v for k, v in values]]

    def numbers(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """What the keys of a dict held: it, the key, what it was, what it is called."""
        if type(self.holder) is dict:
            half = len(self.then) // 2
            for key, value in zip(self.then, self.then[half:]):
                yield self.holder, key, value, f"item {key!r} of {self.label}"

    def holds(self) -> bool:
        now, then = self._now(), self.then
        if len(now) != len(then):
            return False
        if not all(map(operator.is_, now, then)):
            if not all(map(same, now, then)):
                return False
            self.then = now  # to compare by identity, which is faster
        return True

    def settle(self) -> bool:
        """After a trace: whether to go on looking. A log that only grew is not looked at again:
        Python's effects happen once. What a dict or set was given in the trace is a memo: it is
        there from now on. A list that is read and grows is looked at, and found changed."""
        if self.holds() or not self._only_grown():
            return True
        if issubclass(type(self.holder), _GROWING):
            self.then = self._now()
        return not self.written_only

    def _only_grown(self) -> bool:
        """Whether all that was there is still there, in its place where it has one."""
        now, then = self._now(), self.then
        if container_of(self.holder) in MAPPINGS:
            count, size = len(then) // 2, len(now) // 2
            now = [*now[:count], *now[size : size + count]]
        elif issubclass(type(self.holder), set):
            return set(map(id, then)) <= set(map(id, now))
        return len(now) >= len(then) and all(same(a, b) for a, b in zip(now, then) if is_plain(b))

    def refuse_traced(self) -> None:
        """Raise TraceError where a trace put a tensor of its own here: it is computed anew at each
        call, and what is here would stay without a value."""
        known = set(map(id, self.then))
        for item in contents(self.holder):
            if isinstance(item, Tensor) and type(item._value) is Var and id(item) not in known:
                raise TraceError(
                    f"{self.label} keeps a tensor {item.tensor_type} that is being traced",
                    hint="make state outside, before the first call; return the value, or hand it "
                    "out with frontend.tap(t, fn)",
                )

    def reasons(self) -> Iterator[str]:
        now, then = self._now(), self.then
        if len(now) != len(then):
            yield f"{self.label} was given items, or lost some"
            return
        for name, new, old in zip(item_names(self.holder, self.label), now, then):
            if not same(new, old):
                yield f"{name} was {shown(old)}, is {shown(new, old)}"

    def close_numbers(self) -> None:
        """Within a trace: what it put here of numbers that are left open is the number of now, here
        and in the trace from now on. It stays while calls come and go."""
        known = set(map(id, self.then))
        _Closing(self.label).items(
            self.holder, lambda key, item: key in self.open or id(item) in known
        )


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
        base: Any = container_of(holder)
        if base in (OrderedDict, dict):
            self._entries(base, holder, skips)
        elif base in (list, deque):
            for at, item in enumerate(base.__iter__(holder)):
                if not (skips and skips(None, item)) and (now := self.value(item)) is not item:
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


class Content:
    """What a small NumPy array holds."""

    def __init__(self, array: np.ndarray, label: str):
        self.array = array
        self.label = label
        self.then = self._now()

    def _now(self) -> Any:
        return self.array.dtype.str, self.array.shape, self.array.tobytes()

    def holds(self) -> bool:
        return bool(self._now() == self.then)

    def settle(self) -> bool:
        return True

    def refuse_traced(self) -> None:
        return

    def close_numbers(self) -> None:
        return

    def reasons(self) -> Iterator[str]:
        if not self.holds():
            yield f"the content of {self.label} changed"


class Cached:
    """The results that a function keeps, by `functools.lru_cache`. Those that were computed in a
    trace are its results for as long as they are kept."""

    def __init__(self, function: Any, label: str):
        self.function = function
        self.label = label
        self.misses = 0
        self.ahead = self._now()  # of the trace

    def _now(self) -> int:
        return int(type(self.function).cache_info(self.function).misses)

    def holds(self) -> bool:
        now = self._now()
        self.misses, before = max(now, self.misses), self.misses
        return now >= before

    def settle(self) -> bool:
        self.misses = self._now()
        return True

    def refuse_traced(self) -> None:
        return

    def close_numbers(self) -> None:
        """Within a trace. What the cache was given in it may hold numbers that are left open, and
        cannot be looked at: it is computed again where they are numbers."""
        if answers_now() is not None and self._now() > self.ahead:
            type(self.function).cache_clear(self.function)
            raise TraceError(f"{self.label} caches what is computed of sizes that are left open")

    def reasons(self) -> Iterator[str]:
        if self._now() < self.misses:
            yield f"{self.label}: what it had cached was cleared"


def shown(value: Any, then: Any = None) -> str:
    """A value in a reason."""
    if is_plain(value):
        return repr(value)
    return f"{'another' if type(value) is type(then) else 'a'} {type(value).__name__}"
