"""Methods that change a tensor and have no form that makes a new one of the same name: its shape
(`unsqueeze_` and the like), and its elements by a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.eager.promotion import expanded
from frontend.functions import layout
from frontend.functions.arguments import need_tensors
from frontend.tensors.epoch import changed
from frontend.tensors.state import STATE, recording
from frontend.tensors.tensor import LEAF_IN_PLACE, Tensor, make
from graphc.errors import TraceError
from graphc.ir.builder import user_location

__all__: list[str] = []
METHODS = "apply_ map_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_"

# -- shape ---------------------------------------------------------------------------------------


def _view_in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The method that makes a tensor what `function` makes of it: a view of what it was, with the
    same memory. Other views of the tensor stay as they are."""

    def method(self: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        name = f"{function.__name__}_"
        if STATE.grad_enabled and self.requires_grad and self.is_leaf:
            raise RuntimeError(LEAF_IN_PLACE)
        if STATE.grad_enabled and self._view is not None:
            self._view.check_writable(recording=False)
        session = STATE.session
        if session is not None and session.capture(self) is not None:
            raise TraceError(
                f"{name} changes the shape of a tensor from before the trace",
                hint=f"use the result of {function.__name__}()",
                location=user_location(),
            )
        former = object.__new__(type(self))
        former.__dict__.update(self.__dict__)
        retains = self.retains_grad
        # What has a history keeps it: only that of a leaf is not recorded.
        with recording(True if former._edge is not None else STATE.grad_enabled):
            new = function(former, *arguments, **keywords)
        if new is not former:
            for attribute in ("_value", "tensor_type", "_counter", "_view", "_edge"):
                setattr(self, attribute, getattr(new, attribute))
            self._former = former
            if former._requires_grad and former._edge is None:
                self._requires_grad, self._view = True, None  # it stays a leaf
            else:
                self._requires_grad = new._requires_grad
                self._view.tracked = True
            if retains:
                self.retain_grad()
            changed()
        return self

    method.__name__ = method.__qualname__ = f"{function.__name__}_"
    method.__doc__ = f"`{function.__name__}`, in place."
    return method


squeeze_ = _view_in_place(layout.squeeze)
unsqueeze_ = _view_in_place(layout.unsqueeze)
transpose_ = _view_in_place(layout.transpose)
swapaxes_ = _view_in_place(layout.swapaxes)
swapdims_ = _view_in_place(layout.swapdims)
t_ = _view_in_place(layout.t)

# -- elements ------------------------------------------------------------------------------------


def _eager(x: Tensor, name: str) -> Any:
    if x.requires_grad:
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
            "instead."
        )
    return x._array(f"{name}()")


def _put(x: Tensor, numbers: list[Any]) -> Tensor:
    array = np.array(numbers, x.dtype.numpy).reshape(x._sizes)
    return x._assign(make(array, x.tensor_type))


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Each element becomes `callable(element)`, a number at a time."""
    elements = _eager(self, "apply_").ravel().tolist()
    return _put(self, [callable(element) for element in elements])


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Each element becomes `callable(element, other)` with that of `tensor`, which broadcasts."""
    need_tensors("map_", self=self, tensor=tensor)
    mine = _eager(self, "map_").ravel().tolist()
    others = _eager(expanded(tensor, self._sizes), "map_").ravel().tolist()
    return _put(self, [callable(x, y) for x, y in zip(mine, others)])
