"""Items to batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from frontend.creation import tensor
from frontend.dtypes import float64
from frontend.functions.shape import stack
from frontend.tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Items as one batch: tensors and arrays are stacked, numbers become a tensor (floats float64),
    strings stay a list; mappings, tuples and lists are collated item by item.

    Raises RuntimeError where the items differ in shape or length, TypeError for other objects.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        _check_equal([list(item.shape) for item in batch])
        return stack(list(batch))
    if isinstance(first, np.ndarray | np.generic):
        return default_collate([tensor(item) for item in batch])
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if not isinstance(first, Sequence):
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found {type(first)}"
        )
    if any(len(item) != len(first) for item in batch):
        lengths = [len(item) for item in batch]
        raise RuntimeError(
            f"each element in list of batch should be of equal size, got the lengths {lengths}"
        )
    parts = [default_collate(part) for part in zip(*batch)]
    named = isinstance(first, tuple) and hasattr(first, "_fields")
    return type(first)(*parts) if named else parts


def default_convert(data: Any) -> Any:
    """An item with its NumPy arrays and numbers as tensors, in the containers as they are."""
    if isinstance(data, np.ndarray | np.generic):
        return tensor(data) if np.asarray(data).dtype.kind not in "OSU" else data
    if isinstance(data, Mapping):
        kind: Any = type(data)
        return kind((key, default_convert(item)) for key, item in data.items())
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple | list):
        return [default_convert(item) for item in data]
    return data


def _check_equal(shapes: list[list[int]]) -> None:
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {shapes[0]} at entry 0 and "
                f"{shape} at entry {i}"
            )
