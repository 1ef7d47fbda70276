"""Methods that change a tensor and have no form that makes a new one of the same name: its shape
(`unsqueeze_` and the like), and its elements by a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.eager.promotion import expanded
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.state import STATE, recording
from frontend.engine.tensors.tensor import LEAF_IN_PLACE, Tensor, make
from frontend.functions import layout, pointwise, select
from frontend.functions.arguments import need_tensors
from frontend.functions.declarations import public
from frontend.functions.in_place_variants import in_place
from graphc.errors import DTypeError, TraceError
from graphc.ir.builder import user_location
from graphc.ir.types import DType

# -- shape ---------------------------------------------------------------------------------------


def view_in_place(function: Callable[..., Tensor], name: str = "") -> Callable[..., Tensor]:
    """The method (`function`_, or that of this name) that makes a tensor what `function` makes of
    it: a view of what it was, with the same memory, or something with memory of its own. Other
    views of the tensor stay as they are."""
    instead = "clone() it first" if name else f"use the result of {function.__name__}()"
    name = name or f"{function.__name__}_"

    def method(self: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        if STATE.grad_enabled and self.requires_grad and self.is_leaf:
            raise RuntimeError(LEAF_IN_PLACE)
        if STATE.grad_enabled and self._view is not None:
            self._view.check_writable(recording=False)
        mode = STATE.mode
        if mode is not None and mode.capture(self):
            raise TraceError(
                f"{name} changes the shape of a tensor from before the trace",
                hint=instead,
                location=user_location(),
            )
        former = object.__new__(type(self))
        former._instance_state.update(self._instance_state)
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
                if self._view is not None:
                    self._view.tracked = True
            if retains:
                self.retain_grad()
            changed()
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{name.removesuffix('_')}`, in place."
    return method


squeeze_ = public(at="", method=True)(view_in_place(layout.squeeze))
unsqueeze_ = public(at="", method=True)(view_in_place(layout.unsqueeze))
transpose_ = swapdims_ = public(at="", method=True)(view_in_place(layout.transpose))
swapaxes_ = public(at="", method=True)(view_in_place(layout.swapaxes))
t_ = public(at="", method=True)(view_in_place(layout.t))
as_strided_ = public(at="", method=True)(view_in_place(select.as_strided))

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


@public(at="", method=True)
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Each element becomes `callable(element)`, a number at a time."""
    elements = _eager(self, "apply_").ravel().tolist()
    return _put(self, [callable(element) for element in elements])


_float_power = in_place(pointwise.float_power)


@public(at="", method=True)
def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """`float_power`, in place. Raises DTypeError where this tensor has another dtype than that."""
    power = pointwise.result_type(self, exponent)
    kind = DType.c128 if power.is_complex else DType.f64
    if self.dtype is not kind:
        raise DTypeError(
            f"the base given to float_power_ has dtype {SCALAR_NAMES[self.dtype]} but the "
            f"operation's result requires dtype {SCALAR_NAMES[kind]}",
            location=user_location(),
        )
    result: Tensor = _float_power(self, exponent)
    return result


@public(at="", method=True)
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Each element becomes `callable(element, other)` with that of `tensor`, which broadcasts."""
    need_tensors("map_", self=self, tensor=tensor)
    mine = _eager(self, "map_").ravel().tolist()
    others = _eager(expanded(tensor, self._sizes), "map_").ravel().tolist()
    return _put(self, [callable(x, y) for x, y in zip(mine, others)])


@public(at="", method=True)
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Each element becomes `callable(element, other, another)` with those of `x` and `y`, which
    broadcast."""
    need_tensors("map2_", self=self, x=x, y=y)
    mine = _eager(self, "map2_").ravel().tolist()
    rest = [_eager(expanded(each, self._sizes), "map2_").ravel().tolist() for each in (x, y)]
    return _put(self, list(map(callable, mine, *rest)))


@public(at="", method=True)
def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """`fill_value` on the diagonal, in place; with `wrap` it starts anew below a tall matrix."""
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if self.dim() > 2:
        places = range(self.shape[0])
        for i in places:
            self[(i,) * self.dim()] = fill_value
        return self
    rows, columns = self.shape
    select.diagonal(self).fill_(fill_value)
    if wrap:
        for start in range(columns + 1, rows, columns + 1):
            select.diagonal(self[start:]).fill_(fill_value)
    return self
