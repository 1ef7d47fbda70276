"""Names of PyTorch's that say that they are not there yet, and why: docs/coverage.md lists them as
planned."""

from __future__ import annotations

from typing import Any


def planned(name: str, reason: str) -> Any:
    """A function that raises NotImplementedError with the reason."""

    def function(*arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError(f"{name}() is planned: {reason}")

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Planned: {reason}. Raises NotImplementedError."
    function.planned = reason  # type: ignore[attr-defined]
    return function
