"""`torch._assert`: an assertion about a value, which a trace by `frontend.fx` keeps as a call."""

from __future__ import annotations

from typing import Any

from frontend.overrides.protocol import handle_torch_function, has_torch_function_unary


def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError with `message` unless `condition` holds."""
    if has_torch_function_unary(condition):
        handle_torch_function(_assert, (condition,), condition, message)
        return
    if not condition:
        raise AssertionError(message)
