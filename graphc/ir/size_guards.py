"""Questions about sizes that bounds leave open, answered by an example.

In: the sizes of an example. Out: while it is asked (`answered_by`), a comparison of extents that
bounds do not decide has the answer it has there, and is noted as a guard: what was made meanwhile
holds for the sizes that give the same answers.

What is only better or worse, not right or wrong, asks `typical`, which leaves no guard.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from graphc.errors import UndecidedSizeError
from graphc.ir.dim_terms import same_terms
from graphc.ir.dims import Dim, Extent, Symbol, bounds_of, evaluate, symbols_in
from graphc.ir.size_floats import SizeFloat, names_in, text_of, value_at
from graphc.ir.undecided import answering, answers_now
from graphc.records import record

UNKNOWN = 1024
"""The size that costs are compared for where there is no example, within the bounds of each."""


def _is_same(left: Any, right: Any) -> bool:
    """Whether two floats have the same bits; no NaN differs from another."""
    return float(left).hex() == float(right).hex()


_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "is": _is_same,
}  # fmt: skip
_OPPOSITE = {"<": ">=", ">=": "<", "<=": ">", ">": "<=", "==": "!=", "!=": "=="}
_NOT = "not "
"""Of a comparison that does not hold: with a NaN its opposite does not hold either."""


@record(eq=False)
class SizeGuard:
    """A comparison of two extents, or floats of extents, that has to hold. Text: `n - 4 >= 0`."""

    left: Any
    sign: str
    right: Any

    def holds(self, sizes: Mapping[str, Any]) -> bool:
        """Whether it holds where each name stands for this size or number. It does not where Python
        raises an error in computing the sides."""
        sign = self.sign.removeprefix(_NOT)
        try:
            left, right = value_at(self.left, sizes), value_at(self.right, sizes)
            return bool(_SIGNS[sign](left, right)) is (sign == self.sign)
        except (ArithmeticError, TypeError):
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeGuard) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def names(self) -> frozenset[str]:
        """The sizes and numbers that it is about."""
        return names_in(self.left) | names_in(self.right)

    @property
    def decides(self) -> frozenset[str]:
        """The sizes and numbers that an equality makes certain ones (`n + 1 == 6`)."""
        if self.sign == "is":
            return self.names
        if self.sign != "==" or SizeFloat in (type(self.left), type(self.right)):
            return frozenset()
        difference = self.left - self.right
        if not isinstance(difference, Dim):
            return frozenset()
        factors = {factor for monomial, _ in difference.terms for factor in monomial}
        only = factors.pop() if len(factors) == 1 else None
        return frozenset((only.name,)) if isinstance(only, Symbol) else frozenset()

    def __str__(self) -> str:
        text = f"{text_of(self.left)} {self.sign.removeprefix(_NOT)} {text_of(self.right)}"
        return f"not {text}" if self.sign.startswith(_NOT) else text


class SizeAnswers:
    """Answers by an example, and the guards they leave, each once, in order. `fixed` are the
    extents, and floats of extents, that were made numbers, as text, with what `place` gave when
    they were and what asked. `traced` is the example where Python code runs on the sizes, and is to
    raise what it raises for numbers."""

    def __init__(
        self, example: Mapping[str, Any], place: Callable[[], Any] = lambda: None,
        is_trace: bool = False,
    ):  # fmt: skip
        self.example = dict(example)
        self.traced = self.example if is_trace else None
        self._place = place
        self.fixed: dict[str, tuple[Any, str]] = {}
        self.memos: dict[Any, dict[Any, Any]] = {}
        self.told_apart: list[tuple[Any, Any]] | None = [] if is_trace else None
        self.stay_open = False  # no size becomes a number by being a key
        self._guards: dict[SizeGuard, None] = {}

    @property
    def guards(self) -> tuple[SizeGuard, ...]:
        return tuple(self._guards)

    def ask(self, left: Any, sign: str, right: Any) -> bool:
        """Whether it holds in the example, noted as a guard."""
        guard = SizeGuard(left, sign, right)
        holds = guard.holds(self.example)
        if not holds:
            of_floats = SizeFloat in (type(left), type(right))
            guard = SizeGuard(left, _NOT + sign if of_floats else _OPPOSITE[sign], right)
        self._guards[guard] = None
        return holds

    def fix(self, extent: Any, how: str = "") -> Any:
        """The number in the example, noted as a guard."""
        number = value_at(extent, self.example)
        self.fixed.setdefault(text_of(extent), (self._place(), how))
        self._guards[SizeGuard(extent, "is" if isinstance(number, float) else "==", number)] = None
        return number

    def hold_apart(self, pairs: Iterable[tuple[Extent, Extent]]) -> None:
        """What was taken for different as it is written is different: that is a guard, too. Raises
        UndecidedSizeError where it is not so in the example."""
        for left, right in dict.fromkeys(pairs):
            if _may_be_equal(left, right) and self.ask(left, "==", right):
                raise UndecidedSizeError(f"{left} was taken to differ from {right}")


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
    return bool(_SIGNS[sign](left, right))


def equal(left: Extent, right: Extent) -> bool:
    """Whether two extents are equal. Those that are not the same polynomial may still be equal: the
    example answers, as a guard; without one they are not."""
    if same_terms(left, right):
        return True
    answers = _sized_answers()
    return answers is not None and _may_be_equal(left, right) and answers.ask(left, "==", right)


def _may_be_equal(left: Extent, right: Extent) -> bool:
    """Whether bounds leave it open that extents are equal."""
    low, high = bounds_of(left - right)
    return low <= 0 <= high


def typical(extent: Extent) -> int:
    """The extent in the example; without one, where each size is `UNKNOWN` or its nearest bound."""
    example = current_example()
    return evaluate(extent, {s.name: example.get(s.name, nearest(s)) for s in symbols_in(extent)})


def nearest(symbol: Symbol, size: int = UNKNOWN) -> int:
    """`size`, or the bound of the symbol that is nearest to it."""
    most = math.inf if symbol.most is None else symbol.most
    return int(max(symbol.least, min(size, most)))
