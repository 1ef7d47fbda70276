"""What a fuzzer is, how it is run, and how what it finds is made smaller.

in : a fuzzer, a seed, how many cases or seconds
out: how many cases were checked, and findings, each with a program of a few lines that shows it
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SIZES = (1, 2, 3, 5, 8, 13)  # how much a case holds; small ones are drawn too, and shown first
SHRINKING = 60.0  # seconds


class Broken(AssertionError):
    """What must hold does not."""


@dataclass(frozen=True, slots=True)
class Fuzzer:
    """`draw(random, size)` gives a case, `check(case)` raises what it finds and otherwise says how
    the case ended, `smaller(case)` gives cases with less in them, `program(case)` shows one."""

    name: str
    draw: Callable[[np.random.Generator, int], Any]
    check: Callable[[Any], str]
    program: Callable[[Any], str]
    smaller: Callable[[Any], Iterable[Any]] = lambda case: ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A case that breaks something, and the smallest one found that breaks it too."""

    seed: int
    case: Any
    error: Exception


@dataclass(slots=True)
class Tally:
    """What came of a run: how often each end of a case was reached."""

    ends: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {end}" for end, count in sorted(self.ends.items()))
        return f"{sum(self.ends.values())} cases ({ends}), {len(self.findings)} findings"


def drawn(fuzzer: Fuzzer, seed: int, size: int | None = None) -> Any:
    """The case of a seed. Without a size the seed draws that too."""
    chosen = int(np.random.default_rng([seed, 1]).choice(SIZES))
    return fuzzer.draw(np.random.default_rng(seed), size or chosen)


def run(fuzzer: Fuzzer, first: int, cases: int | None, seconds: float = float("inf")) -> Tally:
    """Check the cases of the seeds from `first` on."""
    tally = Tally()
    end = time.monotonic() + seconds
    seed = first
    while (cases is None or seed < first + cases) and time.monotonic() < end:
        case = drawn(fuzzer, seed)
        error = fails(fuzzer, case, tally)
        if error is not None:
            tally.findings.append(shrunk(fuzzer, Finding(seed, case, error)))
        seed += 1
    return tally


def fails(fuzzer: Fuzzer, case: Any, tally: Tally | None = None) -> Exception | None:
    """What is found of a case."""
    try:
        end = fuzzer.check(case)
    except Exception as error:
        return error
    if tally is not None:
        tally.ends[end] = tally.ends.get(end, 0) + 1
    return None


def shrunk(fuzzer: Fuzzer, finding: Finding, seconds: float = SHRINKING) -> Finding:
    """The finding on a smaller case: first one drawn smaller from its seed, then parts of that are
    left out for as long as it breaks in the same way."""
    end = time.monotonic() + seconds
    for size in SIZES:
        case = drawn(fuzzer, finding.seed, size)
        error = fails(fuzzer, case)
        if error is not None and type(error) is type(finding.error):
            finding = Finding(finding.seed, case, error)
            break
    shorter = True
    while shorter and time.monotonic() < end:
        shorter = False
        for case in fuzzer.smaller(finding.case):
            error = fails(fuzzer, case)
            if error is not None and type(error) is type(finding.error):
                finding, shorter = Finding(finding.seed, case, error), True
                break
            if time.monotonic() > end:
                break
    return finding


def without_parts(data: Any) -> Iterator[Any]:
    """A sequence (bytes, text, list) without each of its halves, quarters and so on."""
    size = len(data) // 2
    while size:
        for start in range(0, len(data), size):
            yield data[:start] + data[start + size :]
        size //= 2


def report(fuzzer: Fuzzer, finding: Finding) -> str:
    """What a person needs to see it again."""
    error = f"{type(finding.error).__name__}: {str(finding.error)[:2000]}"
    return f"# {fuzzer.name}, seed {finding.seed}: {error}\n{fuzzer.program(finding.case)}"
