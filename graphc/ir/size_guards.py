"""Questions about sizes that bounds leave open, answered by an example.

In: the sizes of an example. Out: while it is asked (`answered_by`), a comparison of extents that
bounds do not decide has the answer it has there, and is noted as a guard: what was made meanwhile
holds for the sizes that give the same answers.

What is only better or worse, not right or wrong, asks `typical`, which leaves no guard.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from graphc.ir.dims import Dim, Extent, Symbol, evaluate
from graphc.ir.undecided import answering, answers_now

UNKNOWN = 1024
"""The size that costs are compared for where there is no example, within the bounds of each."""

_SIGNS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_OPPOSITE = {"<": ">=", ">=": "<", "<=": ">", ">": "<=", "==": "!=", "!=": "=="}


@dataclass(frozen=True, slots=True)
class SizeGuard:
    """A comparison of two extents that has to hold. Text: `n - 4 >= 0`."""

    left: Extent
    sign: str
    right: Extent

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds where each symbol has the size of its name."""
        return _SIGNS[self.sign](evaluate(self.left, sizes), evaluate(self.right, sizes))

    @property
    def decides(self) -> str | None:
        """The size that an equality makes a certain number (`n + 1 == 6`); None for others."""
        difference = self.left - self.right
        if self.sign != "==" or not isinstance(difference, Dim):
            return None
        factors = {factor for monomial, _ in difference.terms for factor in monomial}
        only = factors.pop() if len(factors) == 1 else None
        return only.name if isinstance(only, Symbol) else None

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


class SizeAnswers:
    """Answers by an example, and the guards they leave, each once, in order. `fixed` are the
    extents that were made numbers, with what `place` gave when they were. `numbers` are names of
    sizes that are no axis of anything: their text is that of a number."""

    def __init__(
        self, example: Mapping[str, int], place: Callable[[], Any] = lambda: None,
        numbers: frozenset[str] = frozenset(),
    ):  # fmt: skip
        self.example = dict(example)
        self.numbers = numbers
        self._place = place
        self.fixed: dict[Extent, Any] = {}
        self.memos: dict[Any, dict[Any, Any]] = {}
        self._guards: dict[SizeGuard, None] = {}

    @property
    def guards(self) -> tuple[SizeGuard, ...]:
        return tuple(self._guards)

    def ask(self, left: Extent, sign: str, right: Extent) -> bool:
        """Whether it holds in the example, noted as a guard."""
        guard = SizeGuard(left, sign, right)
        if not guard.holds(self.example):
            self._guards[SizeGuard(left, _OPPOSITE[sign], right)] = None
            return False
        self._guards[guard] = None
        return True

    def fix(self, extent: Extent) -> int:
        """The extent's number in the example, noted as a guard."""
        number = evaluate(extent, self.example)
        if extent not in self.fixed:
            self.fixed[extent] = self._place()
        self._guards[SizeGuard(extent, "==", number)] = None
        return number


@contextmanager
def answered_by(example: Mapping[str, int]) -> Iterator[SizeAnswers]:
    """While this lasts, open questions about sizes are answered by the example."""
    answers = SizeAnswers(example)
    if not example:
        yield answers
        return
    with answering(answers):
        yield answers


def _sized_answers() -> SizeAnswers | None:
    answers = answers_now()
    return answers if isinstance(answers, SizeAnswers) else None


def current_example() -> dict[str, int]:
    """The sizes of the example that answers; none where nothing does."""
    answers = _sized_answers()
    return {} if answers is None else answers.example


def answered(left: Extent, sign: str, right: Extent) -> bool:
    """Whether a comparison (no equality) holds: by the bounds, else as the example answers."""
    return bool(_SIGNS[sign](left, right))  # type: ignore[arg-type]


def equal(left: Extent, right: Extent) -> bool:
    """Whether two extents are equal. Those that are not the same polynomial may still be equal: the
    example answers, as a guard; without one they are not."""
    if left == right:
        return True
    answers = _sized_answers()
    if answers is None or not (isinstance(left, Dim) or isinstance(right, Dim)):
        return False
    low, high = _difference_bounds(left, right)
    return low <= 0 <= high and answers.ask(left, "==", right)


def _difference_bounds(left: Extent, right: Extent) -> tuple[float, float]:
    difference = left - right
    return (difference, difference) if isinstance(difference, int) else difference.bounds()


def spelled(extent: Extent) -> Extent:
    """What the text of an extent is that of: of a number that a program was given, this number,
    and what is made then holds for it."""
    answers = _sized_answers()
    if answers is None or not isinstance(extent, Dim):
        return extent
    is_given = any(symbol.name in answers.numbers for symbol in extent.symbols())
    return answers.fix(extent) if is_given else extent


def typical(extent: Extent) -> int:
    """The extent in the example; without one, where each size is `UNKNOWN` or its nearest bound."""
    if isinstance(extent, int):
        return extent
    example = current_example()
    return evaluate(extent, {s.name: example.get(s.name, nearest(s)) for s in extent.symbols()})


def nearest(symbol: Symbol, size: int = UNKNOWN) -> int:
    """`size`, or the bound of the symbol that is nearest to it."""
    most = math.inf if symbol.most is None else symbol.most
    return int(max(symbol.least, min(size, most)))
