"""What runs eagerly, and whether a trace is under way."""

from __future__ import annotations

import functools
from typing import Any

from frontend.engine.tensors.state import tracing
from frontend.engine.tracing.tracer import name_of
from graphc.errors import TraceError
from graphc.ir.builder import user_location


def is_compiling() -> bool:
    """Whether a trace is under way."""
    return tracing()


def disable(function: Any = None, recursive: bool = True) -> Any:
    """A function (or Module) that always runs eagerly: `compile` leaves it as it is, and calling it
    inside a compiled function is a TraceError, since a graph has no place for it."""
    if function is None:
        return disable
    target = getattr(function, "forward", function)
    name = name_of(function)

    @functools.wraps(target)
    def eager(*arguments: Any, **keywords: Any) -> Any:
        if tracing():
            raise TraceError(
                f"{name} is marked to run eagerly (compiler.disable) and was called in a trace",
                hint="compile the parts before and after it, or run the whole eagerly: "
                "compile(..., disable=True)",
                location=user_location(),
            )
        return target(*arguments, **keywords)

    eager._runs_eagerly = True  # type: ignore[attr-defined]
    if target is function:
        return eager
    function.forward = eager
    return function
