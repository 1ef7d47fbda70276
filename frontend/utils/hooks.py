"""Handles that take hooks off again."""

from __future__ import annotations

from itertools import count
from typing import Any

_IDS = count()


class RemovableHandle:
    """A registered hook; `remove()`, or leaving a `with` block, takes it off."""

    def __init__(self, hooks: dict[int, Any], hook: Any):
        self._hooks = hooks
        self.id = next(_IDS)
        hooks[self.id] = hook

    def remove(self) -> None:
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()
