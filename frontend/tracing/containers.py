"""Lists, dicts and sets that a trace can reach: what they held ahead, put back where it fails.

A trace runs Python, which may append to a list; a call that raises has done nothing.
"""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any

from frontend.tensors.epoch import changed


def contents(holder: Any) -> list[Any]:
    """What a container holds: items, or keys and then their values."""
    return [*holder, *holder.values()] if isinstance(holder, dict) else list(holder)


def can_be_put_back(holder: Any) -> bool:
    """Whether it is one of the kinds that `put_back` fills again."""
    return isinstance(holder, _KINDS)


def put_back(kept: Iterable[tuple[Any, list[Any]]]) -> bool:
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
