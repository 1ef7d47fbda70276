"""Comparisons of sizes that their bounds leave open: an error, or what somebody answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from graphc.errors import UndecidedSizeError

Answer = Callable[[Any, str, Any], bool]
"""From two extents and the sign between them to whether it holds."""

_ANSWER: ContextVar[Answer | None] = ContextVar("answer", default=None)


@contextmanager
def answering(answer: Answer) -> Iterator[None]:
    """While this lasts, `answer(left, sign, right)` decides comparisons that bounds do not."""
    token = _ANSWER.set(answer)
    try:
        yield
    finally:
        _ANSWER.reset(token)


def undecided(left: Any, sign: str, right: Any) -> bool:
    """The answer. Raises UndecidedSizeError where there is nobody to give one."""
    answer = _ANSWER.get()
    if answer is None:
        raise UndecidedSizeError(f"{left} {sign} {right} depends on the size")
    return answer(left, sign, right)
