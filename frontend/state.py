"""The thread-local state PyTorch documents: grad mode, default dtype, and the trace under way.

This is the only hidden state of the frontend; everything else travels as an argument.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from graphc.ir.types import DType

if TYPE_CHECKING:
    from frontend.session import Session


class State(threading.local):
    """Per thread: whether the tape records, the active trace, the dtype of Python floats."""

    grad_enabled: bool = True
    session: Session | None = None
    default_dtype: DType = DType.f32


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
