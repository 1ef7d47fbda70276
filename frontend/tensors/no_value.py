"""Where Python asks for the value of a tensor that has none, being of a trace: the TraceErrors."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.tensors.state import STATE
from graphc.errors import TraceError
from graphc.ir.builder import Var, user_location
from graphc.ir.types import TensorType

READ_HINT = "where(), or frontend.tap(t, fn) to be handed the value after the call"


def refuse(type: TensorType, what: str, hint: str = READ_HINT) -> None:
    """Raise the TraceError of a use that needs the value of a traced tensor."""
    raise TraceError(
        f"{what} needs the value of a tensor {type} while it is traced; it is known "
        "only when the graph runs",
        hint=hint,
        location=user_location(),
    )


def escaped(name: str) -> TraceError:
    """The error of a traced tensor used after its trace."""
    return TraceError(
        f"{name} met a traced tensor whose trace has ended",
        hint="return it from the function, or hand its value out with frontend.tap(t, fn)",
        location=user_location(),
    )


def concrete(tensor: Any, what: str) -> np.ndarray:
    """The array of a tensor that is read while a trace is under way, or has escaped from one. One
    that depends on no input of the trace has a value; it is read-only."""
    session = STATE.session
    value = tensor._value
    if session is None:
        if isinstance(value, np.ndarray):
            return value
        raise escaped(what)
    if isinstance(value, Var) and not session.holds(value):
        raise escaped(what)
    known = session.known_value(tensor)
    if known is not None:
        return known
    refuse(tensor.tensor_type, what)
    raise AssertionError("unreachable")
