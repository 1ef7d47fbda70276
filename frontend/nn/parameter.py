"""What a Module registers when it is assigned: `Parameter`, which an optimizer updates, and
`Buffer`, other state."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import (
    Tensor,
    added_attributes,
    pickled_value,
    unpickled_value,
)
from frontend.functions.creation import empty
from frontend.overrides.protocol import disabled_torch_function_impl
from graphc.system import import_module

_OWN = {"_counter", "_edge", "_requires_grad", "_value", "tensor_type"}
"""Attributes that every Parameter may have of its own."""


class Parameter(Tensor):
    """A leaf over the memory of `data` (empty by default), whose gradient is collected.

    Assigned to an attribute of a Module it is registered there. Copies and pickles hold value and
    `requires_grad`, not the gradient. Raises AttributeError where `data` is no tensor, RuntimeError
    where `requires_grad` is asked of one that is not floating point. `own` is what `vars` gives of
    a Parameter: packages make one anew from another's, with other data.
    """

    __torch_function__ = classmethod(disabled_torch_function_impl)

    def __init__(
        self, data: Tensor | None = None, requires_grad: bool = True, *others: Any, **own: Any
    ):
        # A derived class's `__new__` made it, and these are its arguments.
        if hasattr(self, "_value"):
            return
        if others:
            raise TypeError(f"Parameter() takes 2 arguments but {2 + len(others)} were given")
        if not own.keys() <= _OWN:
            unexpected = sorted(own.keys() - _OWN)[0]
            raise TypeError(f"Parameter() got an unexpected keyword argument {unexpected!r}")
        data = empty((0,)) if data is None else _tensor(data, "Parameter")
        self._value = data._value
        self.tensor_type = data.tensor_type
        self._counter = data._counter
        if STATE.mode is not None:
            STATE.mode.detach(self, data)
        if requires_grad:
            self.requires_grad = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        known = memo.get(id(self))
        if known is None:
            copy = self.detach().clone()
            known = memo[id(self)] = type(self)(copy, self.requires_grad)
        return known

    def __reduce_ex__(self, protocol: Any) -> Any:
        arguments = (type(self), pickled_value(self), self.requires_grad)
        return _rebuilt, arguments, added_attributes(self) or None

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def _rebuilt(cls: type, value: Any, requires_grad: bool) -> Any:
    return cls(unpickled_value(value), requires_grad)


def _tensor(data: Any, what: str) -> Tensor:
    if not isinstance(data, Tensor):
        raise AttributeError(f"{what} takes a Tensor, not {type(data).__name__}")
    return data


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """Of classes of parameters that others write: tensors which say `_is_param` are theirs too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (
            isinstance(instance, Tensor) and getattr(instance, "_is_param", False)
        )


class _BufferMeta(type):
    """`isinstance(x, Buffer)` asks whether the tensor was made by `Buffer`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferMeta):
    """`Buffer(data, persistent=)` is a plain Tensor over the memory of `data` (empty by default)
    that a Module registers as a buffer when it is assigned. Raises AttributeError where `data` is
    no tensor."""

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        source = empty((0,)) if data is None else _tensor(data, "Buffer")
        buffer: Any = source.detach()
        buffer.requires_grad = source.requires_grad
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


def __getattr__(name: str) -> Any:
    if name in (
        "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy",
    ):  # fmt: skip
        # Few programs ask, and it needs this module.
        return getattr(import_module("frontend.nn.uninitialized"), name)
    raise AttributeError(f"module 'frontend.nn.parameter' has no attribute {name!r}")
