"""The thread-local state PyTorch documents: grad mode, default dtype, and the trace under way.

This is the only hidden state of the frontend; everything else travels as an argument.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from graphc.ir.types import DType

if TYPE_CHECKING:
    from frontend.session import Session


class State(threading.local):
    """Per thread: whether the tape records, the active trace, the dtype of Python floats.
    `watched` follows from the others: ops are traced, or note where they were called."""

    grad_enabled: bool = True
    inference: bool = False
    detect_anomaly: bool = False
    check_nan: bool = True
    session: Session | None = None
    watched: bool = False
    default_dtype: DType = DType.f32

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("session", "detect_anomaly"):
            super().__setattr__("watched", self.session is not None or self.detect_anomaly)


STATE = State()


def get_default_dtype() -> DType:
    """The dtype of tensors made from Python floats."""
    return STATE.default_dtype


def set_default_dtype(dtype: Any) -> None:
    """Make `dtype` (f32 or f64) that of tensors made from Python floats. Raises TypeError."""
    from frontend.dtypes import as_dtype

    found = as_dtype(dtype)
    if not found.is_float:
        raise TypeError(
            f"only floating-point types are supported as the default type, got {found}"
        )
    STATE.default_dtype = found


# -- grad mode -----------------------------------------------------------------------------------


class _GradMode:
    """Sets grad mode inside a `with` block or a decorated function."""

    mode = False

    def __init__(self, function: Any = None):
        self._previous: list[bool] = []

    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        if callable(function):  # `@no_grad` without parentheses
            self._previous = []
            return self(function)
        return self

    def __enter__(self) -> None:
        self._previous.append(STATE.grad_enabled)
        STATE.grad_enabled = self.mode

    def __exit__(self, *error: Any) -> None:
        STATE.grad_enabled = self._previous.pop()

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            previous, STATE.grad_enabled = STATE.grad_enabled, self.mode
            try:
                return function(*arguments, **keywords)
            finally:
                STATE.grad_enabled = previous

        return wrapped


class no_grad(_GradMode):
    """Nothing inside is recorded: results do not require gradients."""


class inference_mode(_GradMode):
    """As `no_grad`; `inference_mode(False)` records."""

    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls, mode)

    def __init__(self, mode: Any = True):
        super().__init__()
        self.mode = not mode


class enable_grad(_GradMode):
    """Records inside, also within `no_grad`."""

    mode = True


class set_grad_enabled(_GradMode):
    """Sets grad mode at once; as a context manager it puts the former mode back."""

    def __new__(cls, mode: bool) -> Any:
        return super().__new__(cls)

    def __init__(self, mode: bool):
        super().__init__()
        self.mode = bool(mode)
        self._former = STATE.grad_enabled
        STATE.grad_enabled = self.mode

    def __enter__(self) -> None:
        self._previous.append(self._former)
        STATE.grad_enabled = self.mode

    def __call__(self, function: Any) -> Any:
        STATE.grad_enabled = self._former
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """True where ops on tensors that require gradients are recorded."""
    return STATE.grad_enabled
