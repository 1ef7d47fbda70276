"""Small helpers of the functional forms: the names PyTorch's messages use, and geometry tuples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import fail as fail
from graphc.ir.types import DType

_LOWER = {
    DType.f32: "float", DType.f64: "double", DType.i32: "int", DType.i64: "long int",
    DType.bool: "bool",
}  # fmt: skip


def scalar_name(x: Any) -> str:
    """The element type as PyTorch's messages write it: `Float`, `Long`."""
    return SCALAR_NAMES[x.tensor_type.dtype]


def c_name(x: Any) -> str:
    """The element type as PyTorch's C++ messages write it: `float`, `long int`."""
    kind = x.tensor_type.dtype
    return _LOWER.get(kind, SCALAR_NAMES[kind])


def sizes(x: Any) -> list[int]:
    """The shape as PyTorch's messages write it: `[2, 3]`."""
    return list(x._sizes)


def require_float(x: Any, kernel: str) -> None:
    """Raise NotImplementedError, as PyTorch does, where `x` is not floating point."""
    if not x.tensor_type.dtype.is_float:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(x)}'")


def type_name(value: Any) -> str:
    """The type of a value as PyTorch's messages write it: `torch.FloatTensor`, `int`."""
    return value.type() if isinstance(value, Tensor) else type(value).__name__


def class_name(value: Any) -> str:
    """The same, and for a class its full name."""
    return (
        f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else type_name(value)
    )


def pairs(items: Any, owner: str) -> list[tuple[str, Any]]:
    """The (name, value) pairs of what `update` of a dict of modules or parameters is given."""
    if not isinstance(items, Iterable):
        raise TypeError(
            f"{owner}.update should be called with an iterable of key/value pairs, but got "
            f"{type(items).__name__}"
        )
    if isinstance(items, Mapping) or hasattr(items, "items"):
        return list(items.items())
    checked = []
    for position, item in enumerate(items):
        if not isinstance(item, Iterable):
            raise TypeError(
                f"{owner} update sequence element #{position} should be Iterable; is "
                f"{type(item).__name__}"
            )
        pair = tuple(item)
        if len(pair) != 2:
            raise ValueError(
                f"{owner} update sequence element #{position} has length {len(pair)}; 2 is required"
            )
        checked.append(pair)
    return checked
