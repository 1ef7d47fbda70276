"""Arrays of numbers: shapes, axes and small constants, which decide how a model is computed.

A value in a model is a Tensor, or a NumPy array of numbers, which no trace has to know. An array of
dtype object has sizes in it that are known only when the program runs. Tensors are made of numbers
where an operator asks for one, and numbers of tensors where it asks for those: eagerly always, in a
trace only of what depends on no input. Sizes that were cast to floats are tensors to all but what
makes ranges of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import DType, int64
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import as_tensor, full, tensor
from frontend.functions.shape import stack

MOST_NUMBERS = 64
"""Integer constants of at most as many elements are numbers; larger ones are tables of data."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class FloatSizes:
    """An array of sizes that are known only when the program runs, cast to `dtype`."""

    sizes: Array
    dtype: DType


def is_numbers(array: Array) -> bool:
    """Whether a constant is kept as numbers: what could be a shape, axes, counts, scales."""
    if array.dtype.kind in "iub":
        return array.size <= MOST_NUMBERS
    return array.ndim == 0 or array.size == 0


def number_array(values: Any) -> Array:
    """An int64 array of ints, or one of objects where sizes are among them."""
    values = list(values)
    if all(type(value) is int for value in values):
        return np.array(values, np.int64)
    result = np.empty(len(values), object)
    for position, value in enumerate(values):  # one by one: NumPy asks a list for its numbers
        result[position] = value
    return result


def as_numbers(value: Any) -> list[Any]:
    """A tensor or array of numbers as a flat list. In a trace a tensor that depends on an input
    raises TraceError."""
    if isinstance(value, FloatSizes):
        value = to_tensor(value)
    if isinstance(value, Tensor):
        return list(value._array("a number of an operator").reshape(-1).tolist())
    return list(np.asarray(value).reshape(-1).tolist())


def as_value(value: Any) -> Any:
    """What a caller passes, or NumPy gives: tensors and arrays as they are, numbers as arrays."""
    if isinstance(value, Tensor | np.ndarray | FloatSizes) or value is None:
        return value
    if type(value) in (int, float, bool) or isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, int | float):  # a size, or what is computed of one: NumPy may not look
        result = np.empty((), object)
        result[()] = value
        return result
    return np.asarray(value)


def to_tensor(value: Any) -> Tensor:
    """The tensor of a value."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, FloatSizes):
        return to_tensor(value.sizes).to(value.dtype)
    if value.dtype != object:
        return tensor(value) if value.size <= MOST_NUMBERS else as_tensor(value)
    flat = value.reshape(-1).tolist()
    if not flat:
        return tensor(np.zeros(value.shape, np.int64))
    parts = [full((), item, dtype=int64) for item in flat]
    return stack(parts).reshape(value.shape)
