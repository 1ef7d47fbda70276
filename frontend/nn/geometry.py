"""Geometry of windows: numbers per spatial axis, as PyTorch takes them, and what it says of those
that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, TypeVar

from frontend.engine.tensors.bounded import Bounded
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.checks import fail, sizes
from graphc.errors import AttributeValueError, ShapeError
from graphc.ops import movement

IntOrInts = int | Sequence[int]
Pairs = list[tuple[int, int]]  # per axis: elements before, elements after
Checked = TypeVar("Checked")

_KNOWN: Bounded[Any, Any] = Bounded(4096)
_INTS = {int}


def known(
    check: Callable[..., Checked], tensors: tuple[Tensor | None, ...], *numbers: Any
) -> Checked:
    """`check(*tensors, *numbers)`, which asks for no more of tensors than their types. It is kept
    for further calls where nothing is watched and numbers are ints, tuples of them, texts and None:
    what else equals these (1.0, a tensor) may be an error, or another one at the next call."""
    if STATE.watched or not all(map(_is_plain, numbers)):
        return check(*tensors, *numbers)
    key = (check, *[None if x is None else x.tensor_type for x in tensors], *numbers)
    answer: Checked | None = _KNOWN.get(key)
    if answer is None:
        answer = _KNOWN[key] = check(*tensors, *numbers)
    return answer


def _is_plain(value: Any) -> bool:
    kind = value.__class__
    if kind is tuple:
        return {*map(type, value)} <= _INTS
    return kind is int or kind is str or value is None


def ints(value: Any, count: int, name: str, op: str = "") -> tuple[int, ...]:
    """An int, or a sequence of one or `count` ints, as a tuple of `count`. Raises TypeError for
    what is no int, and an error of the geometry for a wrong number of them."""
    items = (value,) if hasattr(value, "__index__") else value
    if isinstance(items, str) or not hasattr(items, "__iter__"):
        raise TypeError(_at(op, f"{name} must be an int or a tuple of ints, not {value!r}"))
    items = tuple(items)
    if not all(hasattr(item, "__index__") for item in items):
        raise TypeError(_at(op, f"{name} must be an int or a tuple of ints, but got {items}"))
    if len(items) not in (1, count):
        raise fail(
            AttributeValueError,
            _at(op, f"expected {name} to be a single integer value or a list of {count} values, "
                    f"but got {name}={list(items)}"),
        )  # fmt: skip
    return tuple(map(index, items)) * (count if len(items) == 1 else 1)


def _at(op: str, message: str) -> str:
    return f"{op}: {message}" if op else message


def by(numbers: Sequence[int], mark: str = " x ") -> str:
    """Sizes as PyTorch's messages write them: `3 x 4`."""
    return mark.join(map(str, numbers))


def batched(x: Tensor, count: int, op: str) -> tuple[Tensor, bool]:
    """[N, C, *size] of an input with or without N, and whether it had one."""
    if x.ndim not in (count + 1, count + 2):
        raise fail(
            ShapeError,
            f"Expected {count + 1}D (unbatched) or {count + 2}D (batched) input to {op}, "
            f"but got input of size: {sizes(x)}",
        )
    if x.ndim == count + 2:
        return x, True
    return movement.reshape(x, shape=(1, *x.shape)), False


def unbatched(x: Tensor, had_batch: bool) -> Tensor:
    """The result without N where the input had none."""
    return x if had_batch else movement.reshape(x, shape=tuple(x.shape[1:]))
