"""`torch.utils._foreach_utils`: tensors by device and dtype, as optimizers go through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor

__all__: list[str] = []

Indices = list[int]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Devices whose `_foreach_` functions are single kernels."""
    return ["cpu"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Devices on which an optimizer's `fused=True` is taken."""
    return ["cpu"]


def _has_foreach_support(tensors: Sequence[Any], device: Any) -> bool:
    """Whether these can go through `_foreach_` functions of a device."""
    kind = getattr(device, "type", device)
    known = kind in _get_foreach_kernels_supported_devices()
    return known and all(each is None or isinstance(each, Tensor) for each in tensors)


def _device_has_foreach_support(device: Any) -> bool:
    """Whether a device has `_foreach_` functions."""
    return _has_foreach_support((), device)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], Indices]]:
    """Lists of one length, divided by device and dtype of the tensors in the first: by these the
    lists and, with `with_indices`, the places their items had. Raises RuntimeError where the first
    has something else than tensors, or lists are of different lengths."""
    if len({len(each) for each in tensorlistlist if each}) > 1:
        raise RuntimeError("lists of tensors have to be of one length")
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], Indices]] = {}
    for place, first in enumerate(tensorlistlist[0]):
        if not isinstance(first, Tensor):
            raise RuntimeError("Tensors of the first list of nested Tensor lists must be Tensors")
        lists, indices = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for members, each in zip(lists, tensorlistlist):
            if each:
                members.append(each[place])
        if with_indices:
            indices.append(place)
    return groups
