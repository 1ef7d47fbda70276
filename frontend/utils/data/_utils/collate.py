"""`torch.utils.data._utils.collate`: items to batches, each type by a function of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from frontend.functions.shape import stack
from frontend.utils.data.collate import default_collate as default_collate
from frontend.utils.data.collate import default_convert as default_convert
from frontend.utils.data.collate import joined

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

Collating = Callable[..., Any]


def collate(batch: Any, *, collate_fn_map: dict[Any, Collating] | None = None) -> Any:
    """`default_collate`, where items of the types in `collate_fn_map` are joined by the function
    there: `function(items, collate_fn_map=collate_fn_map)`; a type goes before its bases."""
    return joined(batch, collate_fn_map)


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Tensors, stacked."""
    return stack(list(batch))


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Texts, as they are."""
    return batch


def _collated(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """As `default_collate` joins them."""
    return default_collate(batch)


collate_numpy_array_fn = collate_numpy_scalar_fn = collate_float_fn = collate_int_fn = _collated


def _map() -> dict[Any, Collating]:
    import numpy as np

    from frontend.engine.tensors.tensor import Tensor

    return {
        Tensor: collate_tensor_fn, np.ndarray: collate_numpy_array_fn,
        (np.bool_, np.number, np.object_): collate_numpy_scalar_fn, float: collate_float_fn,
        int: collate_int_fn, str: collate_str_fn, bytes: collate_str_fn,
    }  # fmt: skip


default_collate_fn_map = _map()
