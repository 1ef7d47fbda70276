"""Items to batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import float64
from frontend.engine.tensors.host_data import check_supported
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, make
from frontend.functions.creation import as_tensor, tensor
from frontend.functions.creation_options import finished
from frontend.functions.shape import stack
from graphc.ir.types import TensorType


def default_collate(batch: Sequence[Any]) -> Any:
    """Items as one batch: tensors and arrays are stacked, numbers become a tensor (floats float64),
    strings stay as they are; mappings and sequences are collated item by item, and keep their
    type (a tuple becomes a list).

    Raises RuntimeError where the items differ in shape or length, TypeError for other objects.
    """
    return joined(batch, None)


def joined(batch: Sequence[Any], by_type: Mapping[Any, Any] | None) -> Any:
    """`default_collate`; items of the types in `by_type` by the functions there."""
    first = batch[0]
    if by_type is not None:
        function = by_type.get(type(first))
        known = (each for kind, each in by_type.items() if isinstance(first, kind))
        function = function or next(known, None)
        if function is not None:
            return function(batch, collate_fn_map=by_type)
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, np.ndarray | np.generic):
        if first.dtype.kind in "OSU":
            raise _unknown(first.dtype)
        whole = _stacked_arrays(batch)
        return whole if whole is not None else stack([as_tensor(np.asarray(item)) for item in batch])
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, Mapping):
        columns = {key: joined([item[key] for item in batch], by_type) for key in first}
        return _mapping_like(first, columns)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[joined(part, by_type) for part in zip(*batch)])
    if not isinstance(first, Sequence):
        raise _unknown(type(first))
    if len(set(map(len, batch))) != 1:
        lengths = [len(item) for item in batch]
        raise RuntimeError(
            f"each element in list of batch should be of equal size, got the lengths {lengths}"
        )
    return _sequence_like(first, [joined(part, by_type) for part in zip(*batch)])


def _stacked_arrays(batch: Sequence[Any]) -> Tensor | None:
    """Arrays of one shape and dtype as one tensor, copied once; None of others."""
    first = batch[0]
    shape, dtype = first.shape, first.dtype
    for item in batch:
        if item.__class__ is not np.ndarray or item.dtype is not dtype or item.shape != shape:
            return None
    if STATE.watched:
        return None
    check_supported(first)
    whole = np.array(batch, dtype)
    return finished(make(whole, TensorType.of(whole)), False, None)


def _unknown(kind: Any) -> TypeError:
    return TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {kind}"
    )


def _mapping_like(model: Any, content: dict[Any, Any]) -> Any:
    """`content` as a mapping of the type of `model`; a dict where that type cannot be filled."""
    try:
        if isinstance(model, MutableMapping):
            result = copy.copy(model)
            result.update(content)
            return result
        return type(model)(content)
    except TypeError:
        return content


def _sequence_like(model: Any, items: list[Any]) -> Any:
    """`items` as a sequence of the type of `model`; a list for a tuple, and where that type cannot
    be filled."""
    if isinstance(model, tuple):
        return items
    try:
        if isinstance(model, MutableSequence):
            result = copy.copy(model)
            for i, item in enumerate(items):
                result[i] = item
            return result
        return type(model)(items)
    except TypeError:
        return items


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
        return _sequence_like(data, [default_convert(item) for item in data])
    return data

