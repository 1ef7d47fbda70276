"""Containers of Python's that a trace can reach: what they hold, looked at without running code of
the user's (a class of theirs may say what it likes in `__iter__` and `values`); and what they held
ahead of the trace, put back where it fails.

A trace runs Python, which may append to a list; a call that raises has done nothing.
"""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from frontend.engine.tensors.epoch import changed

MAPPINGS = (OrderedDict, dict, MappingProxyType)
SEQUENCES = (list, tuple, deque, set, frozenset, bytearray)
HASHED = (*MAPPINGS, set, frozenset)


def container_of(value: object) -> Any:
    """The container of Python's that a value is, None for others."""
    kind = type(value)
    return next((base for base in (*MAPPINGS, *SEQUENCES) if issubclass(kind, base)), None)


def keys_of(holder: object) -> list[Any]:
    """What the entries of a mapping or set are found by."""
    base = container_of(holder)
    return list(base.keys(holder) if base in MAPPINGS else base.__iter__(holder))


def contents(holder: object) -> list[Any]:
    """The keys and values of a mapping, the items of a sequence or set."""
    base = container_of(holder)
    if base in MAPPINGS:
        return [*base.keys(holder), *base.values(holder)]
    return list(base.__iter__(holder))


def size_of(holder: object) -> int:
    """How many items a container has."""
    return int(container_of(holder).__len__(holder))


def can_be_put_back(holder: Any) -> bool:
    """Whether it is one of the kinds that `refill` fills again."""
    return isinstance(holder, _KINDS)


def refill(kept: Iterable[tuple[Any, list[Any]]]) -> bool:
    """Give containers what they held, where that is no longer in them; whether there were any."""
    changed_any = False
    for holder, then in kept:
        now = contents(holder)
        if len(now) == len(then) and all(map(operator.is_, now, then)):
            continue
        kind = next(kind for kind in _KINDS if isinstance(holder, kind))
        kind.clear(holder)
        if issubclass(kind, dict):
            half = len(then) // 2
            kind.update(holder, zip(then[:half], then[half:]))
        else:
            (kind.update if kind is set else kind.extend)(holder, then)
        changed_any = True
    if changed_any:
        changed()
    return changed_any


_KINDS: tuple[Any, ...] = (list, OrderedDict, dict, set, deque)
