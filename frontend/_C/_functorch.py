"""`torch._C._functorch`: what code asks of tensors within `vmap`, `grad` and the like. Here these
run functions on plain tensors: no tensor is wrapped, and no level is there."""

from __future__ import annotations

from typing import Any

from frontend.namespace.stubs import stubs


def is_batchedtensor(tensor: Any) -> bool:
    """False."""
    return False


is_gradtrackingtensor = is_functorch_wrapped_tensor = is_functionaltensor = is_batchedtensor


def maybe_get_level(tensor: Any) -> int:
    """-1: a tensor of no transformation."""
    return -1


def get_unwrapped(tensor: Any) -> Any:
    """Raises RuntimeError: no tensor is wrapped."""
    raise RuntimeError("No wrappers present!")


def peek_interpreter_stack() -> None:
    """None: no transformation is under way."""


def maybe_current_level() -> None:
    """None: there is no level."""


globals().update(stubs("_C._functorch"))
