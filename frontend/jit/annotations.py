"""The marks TorchScript reads on functions, and its names of types."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 (users import them here)

__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List", "Optional",
    "Tuple", "Union", "export", "ignore", "unused",
]  # fmt: skip


class _BroadcastingList:
    """`BroadcastingList2[int]` is a list of them, or one for all."""

    def __getitem__(self, kind: Any) -> Any:
        return list[kind]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1


def export(fn: Any) -> Any:
    """The function."""
    return fn


unused = export


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function; `@ignore` and `@ignore()` alike."""
    return drop if callable(drop) else export
