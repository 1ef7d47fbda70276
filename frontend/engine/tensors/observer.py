"""What looks on while eager ops run: a profiler, or what counts or times them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

Note = Callable[[tuple[Any, ...]], None]


class Observer(Protocol):
    """Asked for each op of a thread whose `STATE.observer` it is (`swap_observer`). Ops that others
    are defined by are asked for by themselves, inside of the other's block."""

    def __call__(
        self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> AbstractContextManager[Note | None]:
        """The block that an op runs in, or a region that has a name (a str in place of the op).
        What it is entered as, unless None, is called with the results of an op."""
        ...

    def run(self, executable: Any, arrays: list[Any]) -> Any:
        """What an executable gives for a list of arrays, which is used up."""
        ...
