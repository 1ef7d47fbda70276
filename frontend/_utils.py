"""`torch._utils`: the few of PyTorch's helpers that training code names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from frontend.devices.environment import get_device_module
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.shape import cat


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements as one vector, in order."""
    flat: Tensor = cat([each.reshape(-1) for each in tensors])
    return flat


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of the vector with the shapes of `tensors`, one after the other."""
    parts, start = [], 0
    for each in tensors:
        parts.append(flat[start : start + each.numel()].view(each.shape))
        start += each.numel()
    return tuple(parts)


def _get_all_device_indices() -> Sequence[int]:
    """None: the CPU has no number."""
    return []


def _get_available_device_type() -> None:
    """None: there is no accelerator."""


_get_device_module = get_device_module
