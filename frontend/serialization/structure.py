"""Bounds on what a file may build out of containers: how deep, how large, which keys.

A pickle of a few hundred bytes can build a tuple that holds another one twice, forty times over:
small in memory, but endless for whoever walks it, compares it or takes its hash.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from frontend.serialization.errors import Refused
from frontend.tensors.dtypes import Size, device
from frontend.tensors.tensor import Tensor
from graphc.ir.types import DType

DEPTH = 200  # levels of containers
UNFOLDED = 10_000_000  # places in containers, one that stands in two counted twice
KEY_ITEMS = 1000  # the same, of a tuple that is a key
KEY_BITS = 60  # Python's hash of an integer is its remainder by 2^61 - 1
KEY_BITS_IN_TUPLES = 32  # the hash of a tuple can be chosen by two larger numbers in it

_DICTS = (dict, OrderedDict, defaultdict, Counter)
_SEQUENCES = (list, tuple, set, frozenset)
_KEYS = (str, bytes, int, bool, type(None), DType, device)
_PLAIN = (*_KEYS, float, complex, Size, bytearray, range, slice, np.ndarray)


def checked(value: Any) -> Any:
    """`value`, which a file built, if it is plain data within the bounds. Raises Refused."""
    sizes: dict[int, tuple[int, int]] = {}  # of whole containers: levels, places
    open_: set[int] = set()
    todo = [value]
    while todo:
        item = todo[-1]
        if not _is_container(item) or id(item) in sizes:
            todo.pop()
            continue
        parts = [part for part in _parts(item) if _is_container(part)]
        missing = [part for part in parts if id(part) not in sizes]
        if missing:
            if id(item) in open_ or len(open_) >= DEPTH:
                raise Refused(f"it is nested more than {DEPTH} deep, or contains itself")
            open_.add(id(item))
            todo.extend(missing)
            continue
        open_.discard(id(item))
        sizes[id(item)] = _size(item, [sizes[id(part)] for part in parts], 4 * len(sizes))
        todo.pop()
    return value


def _size(item: Any, parts: list[tuple[int, int]], containers: int) -> tuple[int, int]:
    levels = 1 + max((levels for levels, _ in parts), default=0)
    places = len(item) + sum(places for _, places in parts)
    if levels > DEPTH:
        raise Refused(f"it is nested more than {DEPTH} deep, or contains itself")
    if parts and places > UNFOLDED + containers:
        raise Refused(f"its containers hold each other in more than {UNFOLDED:,} places")
    return levels, places


def _is_container(value: Any) -> bool:
    """Whether a value holds others. Raises Refused for what no file of plain data holds."""
    kind = type(value)
    if kind in _DICTS or kind in _SEQUENCES:
        return True
    if kind in _PLAIN or isinstance(value, Tensor | np.generic | np.dtype):
        return False
    raise Refused(f"it holds a {kind.__module__}.{kind.__qualname__}")


def _parts(container: Any) -> Iterable[Any]:
    if type(container) not in _DICTS:
        return container
    metadata = getattr(container, "_metadata", None)
    return [*container.values(), *([] if metadata is None else [metadata])]


def checked_key(key: Any) -> Any:
    """`key`, if it may be a key or a member of a set: its hash is quick, and no file can choose
    thousands of keys of one hash. Raises Refused."""
    if type(key) not in (tuple, Size):
        return _checked_scalar(key, KEY_BITS, (float, Tensor, np.generic))
    todo, places = [key], 0
    while todo:
        for item in todo.pop():
            places += 1
            if places > KEY_ITEMS:
                raise Refused(f"a key of more than {KEY_ITEMS} items")
            if type(item) in (tuple, Size):
                todo.append(item)
            else:
                _checked_scalar(item, KEY_BITS_IN_TUPLES, ())
    return key


def _checked_scalar(item: Any, bits: int, besides: tuple[type, ...]) -> Any:
    if type(item) is int and item.bit_length() > bits:
        raise Refused(f"an integer of more than {bits} bits is a key, or part of one")
    if type(item) not in _KEYS and not isinstance(item, besides):
        raise Refused(f"a {type(item).__name__} is a key, or part of one")
    return item
