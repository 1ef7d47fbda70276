"""`Parameter`: a tensor that a Module registers when it is assigned, and an optimizer updates."""

from __future__ import annotations

from typing import Any

from frontend.tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor over the same memory as `data`; gradients are collected in `.grad`.

    Assigned to an attribute of a Module it is registered there. Raises RuntimeError where
    `requires_grad` is asked of a tensor that is not floating point.
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def is_parameter(value: Any) -> bool:
    return isinstance(value, Parameter)
