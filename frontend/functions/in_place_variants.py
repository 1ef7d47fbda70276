"""In-place methods: each computes out of place, then `Tensor._assign`s the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.promotion import can_cast, casted, expanded
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import LEAF_IN_PLACE, Tensor, make
from frontend.functions.declarations import public
from frontend.functions.pointwise import clone
from frontend.functions.shape import expand
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops.elementwise import where


def written(target: Tensor, result: Tensor) -> Tensor:
    """Put `result` into `target`, cast within a category as PyTorch does."""
    if result.tensor_type is not target.tensor_type:
        if result._sizes != target._sizes:
            raise ShapeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape "
                f"{list(result.shape)}",
                location=user_location(),
            )
        if not can_cast(result.dtype, target.dtype):
            raise DTypeError(
                f"result type {SCALAR_NAMES[result.dtype]} can't be cast to the desired output "
                f"type {SCALAR_NAMES[target.dtype]}",
                location=user_location(),
            )
        result = casted(result, target.dtype)
    return target._assign(result)


def _before(target: Tensor, others: tuple[Any, ...]) -> Tensor:
    """What `target` is before it is written, with memory of its own where the tape may save it."""
    taken = any(isinstance(x, Tensor) and x.requires_grad for x in others)
    if not taken and not target.requires_grad:
        return target
    if target.is_leaf and target.requires_grad:
        raise RuntimeError(LEAF_IN_PLACE)
    before = _as_it_is(target)
    if isinstance(before._value, np.ndarray):
        before._value = np.array(before._value)
    return before


def _as_it_is(target: Tensor) -> Tensor:
    """A tensor with the value and the history that `target` has now."""
    now = make(target._value, target.tensor_type)
    if STATE.mode is not None:
        now._value = STATE.mode.value(target)
    now._edge, now._requires_grad = target._edge, target._requires_grad
    return now


def in_place(function: Any) -> Any:
    """The in-place method of a function."""

    def method(self: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        if STATE.grad_enabled:
            return written(self, function(_before(self, arguments), *arguments, **keywords))
        return written(self, function(self, *arguments, **keywords))

    method.__name__ = method.__qualname__ = f"{function.__name__}_"
    method.__doc__ = f"`{function.__name__}`, in place."
    return method


def _kept(target: Tensor, new: Tensor) -> Tensor:
    """`new`; where `target` requires gradients, what made it gets zeros."""
    if not STATE.grad_enabled or not target.requires_grad or target.is_leaf:
        return new
    everywhere = filled(True, DType.bool, target._sizes)
    return CONTEXT.apply(where, (everywhere, new, _as_it_is(target)), {})[0]


@public(at="", method=True)
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """The elements of `src`, cast and broadcast, in place of this tensor's; a number everywhere."""
    if isinstance(src, int | float | complex):
        return fill_(self, src)
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_(): argument 'other' must be Tensor, not {type(src).__name__}")
    same = src.tensor_type.shape == self.tensor_type.shape
    spread = src if same else expand(src, self._sizes)
    return self._assign(_kept(self, casted(spread, self.dtype)))


@public(at="", method=True)
def fill_(self: Tensor, value: Any) -> Tensor:
    """Every element becomes `value`, a number or a 0-d tensor. Raises RuntimeError for another."""
    if isinstance(value, Tensor):
        if value.dim():
            raise ShapeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value.dim()} dimensions.",
                location=user_location(),
            )
        new = expanded(casted(value, self.dtype), self._sizes)
        new = clone(new) if new is value else new  # a leaf has no history to take over
    else:
        new = filled(fitting(value, self.dtype), self.dtype, self._sizes)
    return self._assign(_kept(self, new))


@public(at="", method=True)
def zero_(self: Tensor) -> Tensor:
    """Every element becomes 0."""
    return fill_(self, 0)


def operator(function: Any) -> Any:
    """`x += y` and the like."""

    def method(self: Tensor, other: Any) -> Tensor:
        if STATE.grad_enabled:
            return written(self, function(_before(self, (other,)), other))
        return written(self, function(self, other))

    return method
