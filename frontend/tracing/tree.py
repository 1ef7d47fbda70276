"""Nested tuples, lists and dicts of tensors: taken apart and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from frontend.tensors.tensor import Tensor

TENSOR = ("tensor",)


def flatten(value: Any, leaves: list[Tensor]) -> Any:
    """Append the tensors in `value` to `leaves`; the structure with everything else, hashable
    where all of it is."""
    if isinstance(value, Tensor):
        leaves.append(value)
        return TENSOR
    if isinstance(value, tuple):
        kind = type(value)
        return ("tuple", kind, tuple([flatten(item, leaves) for item in value]))
    if isinstance(value, list):
        return ("list", tuple([flatten(item, leaves) for item in value]))
    if isinstance(value, dict):
        keys = tuple(value)
        return ("dict", type(value), keys, tuple([flatten(value[key], leaves) for key in keys]))
    # The type stands beside the value: 1, 1.0 and True are equal. So are 0.0 and -0.0, and NaN is
    # not equal to itself.
    return ("static", type(value), value.hex() if isinstance(value, float) else value)


def build(structure: Any, leaves: Iterator[Any]) -> Any:
    """The value with this structure, tensors drawn from `leaves`."""
    match structure[0]:
        case "tensor":
            return next(leaves)
        case "tuple":
            items = [build(item, leaves) for item in structure[2]]
            kind = structure[1]
            return kind(*items) if hasattr(kind, "_fields") else kind(items)
        case "list":
            return [build(item, leaves) for item in structure[1]]
        case "dict":
            items = [build(item, leaves) for item in structure[3]]
            return structure[1](zip(structure[2], items))
        case _:
            _, kind, value = structure
            return kind.fromhex(value) if issubclass(kind, float) else value


def statics(structure: Any) -> Iterator[Any]:
    """What is neither a tensor nor a tuple, list or dict."""
    if structure[0] == "static":
        yield build(structure, iter(()))
    elif structure[0] != "tensor":
        for item in structure[-1]:
            yield from statics(item)


def paths(structure: Any, name: str) -> Iterator[str]:
    """A name for each tensor of a structure, from that of the whole."""
    match structure[0]:
        case "tensor":
            yield name
        case "tuple" | "list":
            for position, item in enumerate(structure[-1]):
                yield from paths(item, f"{name}_{position}")
        case "dict":
            for key, item in zip(structure[2], structure[3]):
                yield from paths(item, f"{name}_{key}")
