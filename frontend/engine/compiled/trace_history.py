"""Why a compiled function was traced, each time.

in : the traces of a function
out: a line for each, for `explain()` and the log; warnings where there are many
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from frontend.engine.sizes.open_sizes import SizedArguments
from graphc.ir.builder import user_location

MANY_TRACES = 8
"""Traces of one signature after which a warning says what keeps changing."""
MANY_SIGNATURES = 32
"""Signatures after which a warning says so."""
MOST_SPECIALIZATIONS = 64
"""Specializations traced for one signature that a function keeps: beyond, the least recently used
goes."""
MOST_INSTANCES = 512
"""Sizes and ints that specializations for several are kept ready for, likewise: a context that is
generated comes to as many."""
LONGEST = 80
"""Characters of types that a line shows."""


class TraceHistory:
    """Of one compiled function. `lines[i]` says why trace i + 1 was made, `notes` why sizes could
    not be left open, or what made numbers of them."""

    def __init__(self, name: str):
        self.name = name
        self.lines: list[str] = []
        self.notes: list[str] = []
        self._signatures = 0

    def traced(self, reason: str, of: SizedArguments | Sequence[Any], count: int) -> None:
        """A trace was made, for arguments of these types, the `count`-th of its signature."""
        types = ", ".join(map(str, of.types if isinstance(of, SizedArguments) else of))
        types = types if len(types) <= LONGEST else f"{types[: LONGEST - 4]} ..."
        if isinstance(of, SizedArguments):
            types += f" at {shown_sizes(of.example)}"
        self._note(f"{reason} ({types}) at {user_location()}")
        if count == MANY_TRACES:
            warnings.warn(
                f"compiled {self.name} was traced {MANY_TRACES} times for one signature, last "
                f"{reason}; explain() lists all reasons",
                stacklevel=4,
            )
        self._signatures += count == 1
        if self._signatures == MANY_SIGNATURES and count == 1:
            warnings.warn(
                f"compiled {self.name} was traced for {MANY_SIGNATURES} signatures (shapes, "
                f"dtypes, other arguments); the {MOST_SPECIALIZATIONS} used last are kept",
                stacklevel=4,
            )

    def not_open(self, error: BaseException) -> None:
        """A trace with sizes left open failed, so that they are numbers."""
        first = f"{type(error).__name__}: {error}".partition("\n")[0]
        self.notes.append(f"sizes are numbers: with sizes left open there was a {first}")
        _log(f"{self.name}: {self.notes[-1]}")

    def has_numbers(self, answers: Any) -> None:
        """A trace with sizes and numbers left open needed some as certain numbers."""
        for text in made_numbers(answers):
            if text not in self.notes:
                self.notes.append(text)
                _log(f"{self.name}: {text}")

    def _note(self, line: str) -> None:
        self.lines.append(line)
        _log(f"{self.name} traced: {line}")


def made_numbers(answers: Any) -> Iterator[str]:
    """What was made a number in a trace, where, and by what."""
    for text, (place, how) in answers.fixed.items():
        yield f"{text} made a number at {place}" + (f" by {_HINTS.get(how, how)}" if how else "")


_HINTS = {
    "float()": "float(), which functions of `math` call: `n ** 0.5` and NumPy's functions, "
    "np.cos(n), do not",
}


def shown_sizes(sizes: Any) -> str:
    """`n = 32, m = 8`."""
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def _log(message: str) -> None:
    """Say so on the logger `frontend.compile`, imported here since few programs listen."""
    import logging

    logging.getLogger("frontend.compile").info(message)
