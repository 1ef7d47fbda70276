"""Items to batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
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

Collating = Callable[..., Any]


def default_collate(batch: Sequence[Any]) -> Any:
    """Items as one batch: tensors and arrays are stacked, numbers become a tensor (floats float64),
    strings stay as they are; mappings and sequences are collated item by item, and keep their
    type (a tuple becomes a list). `default_collate_fn_map` says what becomes of which type.

    Raises RuntimeError where the items differ in shape or length, TypeError for other objects.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: Mapping[Any, Collating] | None = None) -> Any:
    """`default_collate`, where items of the types in `collate_fn_map` are joined by the function
    there: `function(items, collate_fn_map=collate_fn_map)`; a type goes before its bases."""
    first = batch[0]
    function = _function_of(first, collate_fn_map) if collate_fn_map is not None else None
    if function is None and collate_fn_map is not default_collate_fn_map:
        function = _function_of(first, default_collate_fn_map)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {
            key: collate([item[key] for item in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return _mapping_like(first, columns)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch)])
    if not isinstance(first, Sequence):
        raise _unknown(type(first))
    if len(set(map(len, batch))) != 1:
        lengths = [len(item) for item in batch]
        raise RuntimeError(
            f"each element in list of batch should be of equal size, got the lengths {lengths}"
        )
    parts = [collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch)]
    return _sequence_like(first, parts)


def _function_of(item: Any, by_type: Mapping[Any, Collating]) -> Collating | None:
    """What joins items like this one, by its type or one that it derives from."""
    function = by_type.get(type(item))
    if function is None:
        for kind, each in by_type.items():
            if isinstance(item, kind):
                return each
    return function


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Tensors, stacked."""
    return stack(list(batch))


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Arrays as tensors, which are then collated. Raises TypeError for arrays of texts."""
    first = batch[0]
    if first.dtype.kind in "OSU":
        raise _unknown(first.dtype)
    if collate_fn_map is None or collate_fn_map.get(Tensor) is collate_tensor_fn:
        whole = _stacked_arrays(batch)
        if whole is not None:
            return whole
    return collate([as_tensor(item) for item in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """NumPy's numbers as one tensor."""
    return as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Python's floats as a tensor of float64."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Python's integers as a tensor of int64, bools as one of bool."""
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Texts, as they are."""
    return batch


default_collate_fn_map: dict[Any, Collating] = {
    Tensor: collate_tensor_fn, np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn, float: collate_float_fn,
    int: collate_int_fn, str: collate_str_fn, bytes: collate_str_fn,
}  # fmt: skip
"""What `default_collate` does with which type; users may put theirs here."""


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
    """An item with its NumPy arrays and numbers as tensors, in the containers as they are; what is
    of a class of a user's own stays."""
    if isinstance(data, np.ndarray | np.generic) and type(data).__module__ == "numpy":
        return tensor(data) if np.asarray(data).dtype.kind not in "OSU" else data
    if isinstance(data, Mapping):
        kind: Any = type(data)
        return kind((key, default_convert(item)) for key, item in data.items())
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple | list):
        return _sequence_like(data, [default_convert(item) for item in data])
    return data
