"""Questions about sizes that their bounds leave open: an error, or what somebody answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeGuard, TypeVar

from graphc.errors import UndecidedSizeError


class Answers(Protocol):
    """Who answers. `memos` is what rests on the answers, by owner; `told_apart`, where somebody
    wants to know, has the pairs that were taken for different ones since they are written so."""

    memos: dict[Any, dict[Any, Any]]
    told_apart: list[tuple[Any, Any]] | None

    def ask(self, left: Any, sign: str, right: Any) -> bool:
        """Whether the comparison holds."""
        ...

    def fix(self, extent: Any, how: str = "") -> Any:
        """The number that an extent, or a float of extents, is from now on; `how`: of what asks."""
        ...


_ANSWERS: ContextVar[Answers | None] = ContextVar("answers", default=None)
_FORGETTING: list[Callable[[], None]] = []


def is_number(value: Any) -> TypeGuard[int]:
    """Whether a value is an int, and not what only says to be one."""
    return type(value) in (int, bool)


class Undecided:
    """What stands for a number that is known only at run time."""

    __slots__ = ()


Function = TypeVar("Function", bound=Callable[..., Any])


def forgets_answers(function: Function) -> Function:
    """A function with a cache whose results may rest on answers: it is emptied when those who
    answer change."""
    _FORGETTING.append(function.cache_clear)  # type: ignore[attr-defined]
    return function


P = ParamSpec("P")
R = TypeVar("R")


def remembered_by_answers(size: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function of hashable positional arguments whose results may rest on answers: they are kept
    with those who gave them, as long as these are; where nobody answers, the latest `size` are."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        alone: Any = functools.lru_cache(maxsize=size)(function)

        @functools.wraps(function)
        def remembered(*key: Any) -> R:
            answers = _ANSWERS.get()
            if answers is None:
                result: R = alone(*key)
                return result
            known = answers.memos.setdefault(remembered, {})
            if key not in known:
                known[key] = function(*key)  # type: ignore[call-arg]
            result = known[key]
            return result

        BY_ANSWERS.append(remembered)
        return remembered  # type: ignore[return-value]

    return decorate


BY_ANSWERS: list[Callable[..., Any]] = []
"""The functions that remember so."""


@contextmanager
def answering(answers: Answers | None) -> Iterator[None]:
    """While this lasts, `answers` decides what bounds do not. What is put back is put back twice:
    an interrupt may come in the middle of the first time."""
    before = _ANSWERS.get()
    try:
        try:
            answer_with(answers)
            yield
        finally:
            answer_with(before)
    finally:
        answer_with(before)


class _Granted:
    """Says that no size is negative."""

    def __init__(self) -> None:
        self.memos: dict[Any, dict[Any, Any]] = {}
        self.told_apart: list[tuple[Any, Any]] | None = None

    def ask(self, left: Any, sign: str, right: Any) -> bool:
        return sign in (">", ">=", "!=")

    def fix(self, extent: Any, how: str = "") -> Any:
        raise _no_number(extent)


@contextmanager
def granted() -> Iterator[None]:
    """For what was asked before and only takes another form: a graph under other names, or read
    from where it was kept. Types in it have no negative sizes."""
    with answering(_Granted()):
        yield


def answer_with(answers: Answers | None) -> None:
    """From now on `answers` decides what bounds do not; None: nobody does. Where an interrupt came
    in the middle, doing it again does it whole."""
    _ANSWERS.set(answers)
    _forget()


def _forget() -> None:
    for forget in _FORGETTING:
        forget()


def memo_of(owner: Any, otherwise: MutableMapping[Any, Any]) -> MutableMapping[Any, Any]:
    """What `owner` remembers as long as the same answers are given; `otherwise` where nobody gives
    any."""
    answers = _ANSWERS.get()
    return otherwise if answers is None else answers.memos.setdefault(owner, {})


def answers_now() -> Answers | None:
    """Who answers now."""
    return _ANSWERS.get()


def undecided(left: Any, sign: str, right: Any) -> bool:
    """The answer. Raises UndecidedSizeError where there is nobody to give one."""
    answers = _ANSWERS.get()
    if answers is None:
        left, right = (getattr(part, "text", part) for part in (left, right))
        raise UndecidedSizeError(f"{left} {sign} {right} depends on the size")
    return answers.ask(left, sign, right)


def tell_apart(left: Any, right: Any) -> bool:
    """False: two extents are written otherwise. Whether their sizes may still be equal is asked
    later, where it matters."""
    answers = _ANSWERS.get()
    if answers is not None and answers.told_apart is not None:
        answers.told_apart.append((left, right))
    return False


def number_of(extent: Any, how: str = "") -> Any:
    """The number that takes the place of an extent, or of a float of extents; `how`: of what asks
    for it. Raises UndecidedSizeError where there is nobody to name it."""
    answers = _ANSWERS.get()
    if answers is None:
        raise _no_number(extent)
    return answers.fix(extent, how)


def _no_number(extent: Any) -> UndecidedSizeError:
    return UndecidedSizeError(f"the size {getattr(extent, 'text', extent)} has to be a number here")
