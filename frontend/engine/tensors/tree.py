"""Nested tuples, lists and dicts of tensors: taken apart and put together again.

What is neither becomes part of a structure that says whether two calls may share a trace. Values of
Python and its library count as equal by type and value; objects of other classes are the same only
if they are one object, since their own `__eq__` need not look at all that a function reads (frozen
dataclasses that compare all of their fields count by those).
"""

from __future__ import annotations

import copyreg
import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from frontend.engine.tensors.handed_out import HandedOut, converted
from frontend.engine.tensors.tensor import Tensor

TENSOR = ("tensor",)
NUMBERS = (int, float, np.float64)
"""The classes of numbers that may be left open (sizes.open_sizes)."""


Opens = Callable[[Any], bool]


def flatten(value: Any, leaves: list[Tensor], opens: Opens | None = None) -> Any:
    """Append the tensors in `value` to `leaves`; the structure with everything else, hashable
    where all of it is. `opens`: which objects of other classes are taken apart."""
    if type(value) is HandedOut:
        leaves.append(value.tensor)
        return ("handed out", value.conversion)
    if isinstance(value, Tensor):
        if is_composite(type(value)):
            return _flatten_composite(value, leaves)
        leaves.append(value)
        return TENSOR
    if isinstance(value, tuple):
        kind = type(value)
        return ("tuple", kind, tuple([flatten(item, leaves, opens) for item in value]))
    if isinstance(value, list):
        return ("list", tuple([flatten(item, leaves, opens) for item in value]))
    if isinstance(value, dict):
        keys = tuple(value)
        items = tuple([flatten(value[key], leaves, opens) for key in keys])
        return ("dict", type(value), keys, items)
    if type(value) is SimpleNamespace or (opens is not None and opens(value)):
        return ("object", type(value), flatten(attributes_of(value), leaves, opens))
    if isinstance(value, slice):
        return ("slice", tuple([flatten(x, leaves) for x in (value.start, value.stop, value.step)]))
    if hasattr(type(value), "__dataclass_fields__") and opens is None:
        structure = _of_dataclass(value, leaves)
        if structure is not None:
            return structure
    return ("static", type(value), _comparable(value))


def _of_dataclass(value: Any, leaves: list[Tensor]) -> Any:
    """A dataclass of tensors taken apart; None for one that counts as one object: a class, a
    Module, one without a tensor, or with something whose content may change unseen."""
    attributes = None if isinstance(value, type) else attributes_of(value)
    if not attributes or "_parameters" in attributes:
        return None
    count = len(leaves)
    try:
        structure = ("object", type(value), flatten(attributes, leaves))
    except (TypeError, RecursionError):
        del leaves[count:]
        return None
    return structure if len(leaves) > count else None


def is_composite(kind: type) -> bool:
    """Whether tensors of a class are made of others, and say so."""
    return kind is not Tensor and hasattr(kind, "__tensor_flatten__")


def _flatten_composite(value: Any, leaves: list[Tensor]) -> Any:
    names, context = value.__tensor_flatten__()
    parts = [getattr(value, name) for name in names]
    for name, part in zip(names, parts):
        if not isinstance(part, Tensor):
            raise TypeError(
                f"__tensor_flatten__ of {type(value).__name__} names {name!r}, which is no tensor "
                f"but a {type(part).__name__}"
            )
    items = [context, *parts]
    return ("composite", type(value), tuple(names), tuple([flatten(x, leaves) for x in items]))


def _build_composite(structure: Any, leaves: Iterator[Any]) -> Any:
    _, kind, names, items = structure
    context, *parts = [build(item, leaves) for item in items]
    return kind.__tensor_unflatten__(dict(zip(names, parts)), context, None, None)


def attributes_of(value: Any) -> dict[str, Any] | None:
    """What an instance of classes written in Python has of its own, in its dict and in slots; None
    for one that has neither, or is built on another type."""
    kind = type(value)
    own = getattr(value, "__dict__", {})
    if type(own) is not dict or not all(map(_is_python, kind.__mro__[:-1])):
        return None
    slots = {name: getattr(value, name) for name in _slots(kind) if hasattr(value, name)}
    return own | slots if slots else own


def _is_python(kind: type) -> bool:
    return bool(kind.__flags__ & _HEAP_TYPE) or kind is SimpleNamespace


_HEAP_TYPE = 1 << 9
"""Of `type.__flags__`: made by a class statement."""


def _slots(kind: type) -> list[str]:
    """The names of the slots of a class and its bases."""
    names: list[str] = copyreg._slotnames(kind)  # type: ignore[attr-defined]
    return names


def _build_object(kind: type, attributes: dict[str, Any]) -> Any:
    """An instance with these attributes, none of whose methods is called."""
    if kind is SimpleNamespace:
        return SimpleNamespace(**attributes)
    value: Any = object.__new__(kind)
    slots = _slots(kind)
    for name in attributes.keys() & {*slots}:
        object.__setattr__(value, name, attributes.pop(name))
    if attributes:
        object.__getattribute__(value, "__dict__").update(attributes)
    return value


class Keyed:
    """A value that counts as another one's equal where their keys are."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any, key: Any):
        self.value = value
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.value)


_BY_VALUE = {"builtins", "frontend", "graphc", "ml_dtypes", "numpy", *sys.stdlib_module_names}
"""Packages whose classes compare all that there is to them. (A script's own module, `__main__`, is
in Python's list, and none of them.)"""
_BY_VALUE.discard("__main__")
LARGEST_ARRAY = 1 << 16
"""Bytes up to which a NumPy array counts by its content."""


def _comparable(value: Any) -> Any:
    """`value`, or what stands for it where its own equality says too much or too little."""
    if type(value) in (float, np.float64):
        # 0.0 and -0.0 are equal, and NaN is not equal to itself.
        return Keyed(value, value.hex())
    kind = type(value)
    if isinstance(value, np.ndarray) and value.dtype != object and value.nbytes <= LARGEST_ARRAY:
        return Keyed(value, (kind, value.dtype.str, value.shape, value.tobytes()))
    if isinstance(value, set):
        return Keyed(value, (kind, frozenset(flatten(item, []) for item in value)))
    if kind.__module__.partition(".")[0] in _BY_VALUE:
        if kind.__hash__ is None:
            raise TypeError(
                f"an argument of a compiled function is a {kind.__name__}, whose content may "
                "change from call to call: pass tensors, numbers, texts, or tuples, lists and "
                "dicts of them"
            )
        return value
    if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        fields = dataclasses.fields(kind)
        inside: list[Tensor] = []
        items = tuple([flatten(getattr(value, field.name), inside) for field in fields])
        if not inside and all(field.compare for field in fields):
            return Keyed(value, (kind, items))
    return Keyed(value, id(value))


def build(structure: Any, leaves: Iterator[Any]) -> Any:
    """The value with this structure, tensors drawn from `leaves`."""
    match structure[0]:
        case "tensor":
            return next(leaves)
        case "handed out":
            return converted(next(leaves), structure[1])
        case "tuple":
            items = [build(item, leaves) for item in structure[2]]
            kind = structure[1]
            return kind(*items) if hasattr(kind, "_fields") else kind(items)
        case "list":
            return [build(item, leaves) for item in structure[1]]
        case "dict":
            items = [build(item, leaves) for item in structure[3]]
            return structure[1](zip(structure[2], items))
        case "composite":
            return _build_composite(structure, leaves)
        case "object":
            return _build_object(structure[1], build(structure[2], leaves))
        case "slice":
            return slice(*[build(item, leaves) for item in structure[1]])
        case _:
            value = structure[2]
            return value.value if isinstance(value, Keyed) else value


def mapped(structure: Any, change: Callable[[Any], Any]) -> Any:
    """The structure with `change(part)` for each part that is neither a tensor nor a container."""
    match structure[0]:
        case "static":
            return change(structure)
        case "tensor" | "handed out":
            return structure
        case "object":
            return (*structure[:-1], mapped(structure[-1], change))
        case _:
            return (*structure[:-1], tuple([mapped(item, change) for item in structure[-1]]))


def parts(structure: Any) -> list[Any]:
    """The parts of a structure that are neither tensors nor containers, in order."""
    result: list[Any] = []

    def note(part: Any) -> Any:
        result.append(part)
        return part

    mapped(structure, note)
    return result


def numbers(structure: Any) -> tuple[Any, ...]:
    """The ints and floats of a structure, in order."""
    return tuple(
        [
            part[2].value if type(part[2]) is Keyed else part[2]
            for part in parts(structure)
            if part[1] in NUMBERS
        ]
    )


def with_numbers(structure: Any, others: Iterable[Any]) -> Any:
    """The structure with these values in place of its ints and floats."""
    values = iter(others)

    def change(part: Any) -> Any:
        if part[1] not in NUMBERS:
            return part
        value = next(values)
        return ("static", type(value), _comparable(value) if isinstance(value, float) else value)

    return mapped(structure, change)


def statics(structure: Any) -> Iterator[Any]:
    """What is neither a tensor nor a tuple, list or dict."""
    if structure[0] == "static":
        yield build(structure, iter(()))
    elif structure[0] == "object":
        if structure[1] is not SimpleNamespace:
            yield structure[1]  # its methods may read what its class has
        yield from statics(structure[-1])
    elif structure[0] not in ("tensor", "handed out"):
        for item in structure[-1]:
            yield from statics(item)


def paths(structure: Any, name: str) -> Iterator[str]:
    """A name for each tensor of a structure, from that of the whole."""
    match structure[0]:
        case "tensor":
            yield name
        case "object":
            yield from paths(structure[-1], name)
        case "tuple" | "list" | "slice":
            for position, item in enumerate(structure[-1]):
                yield from paths(item, f"{name}_{position}")
        case "dict":
            for key, item in zip(structure[2], structure[3]):
                yield from paths(item, f"{name}_{key}")
        case "composite":
            for key, item in zip(("context", *structure[2]), structure[3]):
                yield from paths(item, f"{name}_{key}")
