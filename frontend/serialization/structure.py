"""Bounds on what a file may build out of containers: how deep, and in how many places.

A pickle of a few hundred bytes can build a tuple that holds another one twice, forty times over:
small in memory, but endless for whoever walks it or compares it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import Size, device
from frontend.engine.tensors.tensor import Tensor
from frontend.serialization.budget import Budget
from frontend.serialization.errors import Refused
from graphc.ir.types import DType

DEPTH = 200  # levels of containers

_DICTS = (dict, OrderedDict, defaultdict, Counter)
_SEQUENCES = (list, tuple, set, frozenset)
_PLAIN = (
    str, bytes, int, bool, type(None), DType, device, float, complex, Size, bytearray, range, slice,
    np.ndarray,
)  # fmt: skip


def checked(value: Any, budget: Budget) -> Any:
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
        sizes[id(item)] = _size(item, [sizes[id(part)] for part in parts], budget)
        todo.pop()
    return value


NAMESPACE = ("argparse", "Namespace")


def is_namespace(value: Any) -> bool:
    """Whether it is a script's arguments. The class is known by name: not all scripts import it."""
    return (type(value).__module__, type(value).__qualname__) == NAMESPACE


def _size(item: Any, parts: list[tuple[int, int]], budget: Budget) -> tuple[int, int]:
    levels = 1 + max((levels for levels, _ in parts), default=0)
    members = vars(item) if is_namespace(item) else item
    places = len(members) + sum(places for _, places in parts)
    if levels > DEPTH:
        raise Refused(f"it is nested more than {DEPTH} deep, or contains itself")
    if parts and places > budget.all_steps:
        raise Refused(f"its containers hold each other in more than {budget.all_steps:,.0f} places")
    return levels, places


def _is_container(value: Any) -> bool:
    """Whether a value holds others. Raises Refused for what no file of plain data holds."""
    kind = type(value)
    if kind in _DICTS or kind in _SEQUENCES or is_namespace(value):
        return True
    if kind in _PLAIN or isinstance(value, Tensor | np.generic | np.dtype):
        return False
    raise Refused(f"it holds a {kind.__module__}.{kind.__qualname__}")


def _parts(container: Any) -> Iterable[Any]:
    if is_namespace(container):
        return vars(container).values()
    if type(container) not in _DICTS:
        return container
    metadata = getattr(container, "_metadata", None)
    return [*container.values(), *([] if metadata is None else [metadata])]
