"""`Parameter`: a tensor that a Module registers when it is assigned, and an optimizer updates."""

from __future__ import annotations

from frontend.creation import empty
from frontend.tensor import Tensor


class Parameter(Tensor):
    """A leaf over the memory of `data` (empty by default), whose gradient is collected.

    Assigned to an attribute of a Module it is registered there. Raises TypeError where `data` is no
    tensor, RuntimeError where `requires_grad` is asked of one that is not floating point.
    """

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        data = empty((0,)) if data is None else data
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter takes a Tensor, not {type(data).__name__}")
        self._value = data._value
        self.tensor_type = data.tensor_type
        self._counter = data._counter
        if requires_grad:
            self.requires_grad = True

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
