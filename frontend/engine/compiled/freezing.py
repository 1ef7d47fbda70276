"""Weights that no longer change: what depends on them alone is computed once, not at each call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.tensor import Tensor

__all__ = ["freeze", "is_frozen", "unfreeze"]
METHODS = ""


def freeze(target: Any) -> Any:
    """Freeze the parameters and buffers of a Module, or one Tensor, or several; returns `target`.

    A frozen tensor has its own memory, which is read-only, and does not require gradients. A
    compiled function computes what depends on frozen tensors alone (transposed and transformed
    weights) when it is first called, and keeps that beside them. Raises RuntimeError for a Module
    in training mode and for a tensor that is not a leaf, TypeError for anything else.
    """
    tensors = list(_tensors(target))
    _check_modes(target)
    for tensor in tensors:
        if tensor._edge is not None:
            raise RuntimeError("freeze(): only leaf tensors can be frozen; detach() it first")
    for tensor in tensors:
        if tensor._frozen is None:
            own = tensor._array("freeze()").copy()
            own.flags.writeable = False
            # A view of it: through tensors that share it, `detach()`, it is made writable by none.
            tensor._value = own.view()
            tensor._frozen = tensor._requires_grad
            tensor._requires_grad = False
            tensor._counter = [tensor._counter[0]]
            tensor._view = None
    changed()
    return target


def unfreeze(target: Any) -> Any:
    """Undo `freeze`: the tensors can be changed again and require gradients if they did."""
    for tensor in _tensors(target):
        if tensor._frozen is not None:
            tensor._requires_grad = tensor._frozen
            tensor._frozen = None
            tensor._value.base.flags.writeable = True
            tensor._value.flags.writeable = True
    changed()
    return target


def is_frozen(tensor: Tensor) -> bool:
    """Whether a tensor is frozen."""
    return tensor._frozen is not None


def _tensors(target: Any) -> Iterator[Tensor]:
    if isinstance(target, Tensor):
        yield target
    elif hasattr(type(target), "named_modules"):
        yield from target.parameters()
        yield from target.buffers()
    elif isinstance(target, Iterable):
        for item in target:
            yield from _tensors(item)
    else:
        raise TypeError(f"freeze() takes a Module or tensors, not {type(target).__name__}")


def _check_modes(target: Any) -> None:
    """Raise for a Module that would go on to change its buffers."""
    if getattr(target, "training", False):
        raise RuntimeError("freeze() takes a Module in evaluation mode: call eval() on it first")
