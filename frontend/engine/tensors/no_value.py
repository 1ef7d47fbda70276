"""Where Python asks for the value of a tensor that has none: the errors.

A tensor of a trace has its value when the graph runs. A tensor on the device "meta" has none at
all: its `_value` is NO_DATA, and an op on it gives the types of its results (see `eager.dispatch`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.tensors.state import STATE
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.types import TensorType

READ_HINT = "return it and read its value outside, or frontend.tap(t, fn) to be handed that"
HINTS = {"bool()": "where() or cond for a choice between two, while_loop for a loop"}
"""By what asks for a value, where that is no reading."""


def refuse(type: TensorType, what: str, hint: str = READ_HINT) -> None:
    """Raise the TraceError of a use that needs the value of a traced tensor."""
    raise TraceError(
        f"{what} needs the value of a tensor {type} while it is traced; it is known "
        "only when the graph runs",
        hint=HINTS.get(what, hint) if hint is READ_HINT else hint,
        location=user_location(),
    )


def escaped(name: str) -> TraceError:
    """The error of a traced tensor used after its trace."""
    return TraceError(
        f"{name} met a traced tensor whose trace has ended",
        hint="return it from the function, or hand its value out with frontend.tap(t, fn)",
        location=user_location(),
    )


class NoData:
    """The value of a tensor on the device "meta"; there is one, NO_DATA."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "NO_DATA"


NO_DATA = NoData()


def no_data(what: str) -> NotImplementedError:
    """The error of a use that needs the data of a tensor on "meta"."""
    return NotImplementedError(
        f"Cannot copy out of meta tensor; no data! ({what} cannot be called on meta tensors: give "
        f"it memory first, with empty_like(device='cpu') or Module.to_empty)\n  at: "
        f"{user_location()}"
    )


def not_of_trace(tensor: Any) -> Exception:
    """The error of a tensor that a trace cannot take in."""
    return no_data("compiled code") if tensor._value is NO_DATA else escaped("the trace")


def deciding(tensor: Any, what: str, hint: str = READ_HINT) -> np.ndarray:
    """The array of a tensor that decides how many elements a result has: a mask, counts. In a trace
    it may depend on tensors of bools and integers from outside, a buffer say, whose values are
    guarded. Raises TraceError where it depends on an argument, or on floats from outside."""
    mode = STATE.mode
    if mode is None:
        return tensor._array(what)
    known = None if tensor._value is NO_DATA else mode.known(tensor, what, guarded=True)
    return concrete(tensor, what, hint) if known is None else known


def concrete(tensor: Any, what: str, hint: str = READ_HINT) -> np.ndarray:
    """The array of a tensor that is on "meta", read while a trace is under way, or has escaped from
    one. One that depends on no input of the trace has a value; it is read-only."""
    mode = STATE.mode
    value = tensor._value
    if value is NO_DATA:
        raise no_data(what)
    if mode is None:
        if isinstance(value, np.ndarray):
            return value
        raise escaped(what)
    known = mode.known(tensor, what)
    if known is not None:
        return known
    refuse(tensor.tensor_type, what, hint)
    raise AssertionError("unreachable")
