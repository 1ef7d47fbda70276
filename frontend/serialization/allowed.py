"""Classes and functions that files of whole modules may name: `torch.serialization.safe_globals`.
Files of plain data need none."""

from __future__ import annotations

from typing import Any

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]

_ALLOWED: list[Any] = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Put classes and functions on the list."""
    _ALLOWED.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """The list."""
    return list(_ALLOWED)


def clear_safe_globals() -> None:
    """Empty the list."""
    _ALLOWED.clear()


class safe_globals:
    """A block in which classes and functions are on the list."""

    def __init__(self, safe_globals: list[Any]):
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._before = get_safe_globals()
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error: Any) -> None:
        _ALLOWED[:] = self._before
