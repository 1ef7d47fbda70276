"""What came of the samples of PyTorch's operators: counts, what went wrong, and the file that keeps
both, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHOWN = 3
"""How many different things that went wrong are printed of an operator."""
WRONG = ("failed", "missing", "not reached")
"""Verdicts on samples that did not pass and should."""
COLUMNS = ("passed", *WRONG, "depends on values", "out of scope")


@dataclass
class OfOperator:
    """What came of one operator's samples of one dtype: counts of verdicts; of those that did not
    pass, `verdict: detail` with counts; and what they took."""

    counts: Counter[str] = field(default_factory=Counter)
    details: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, verdict: str, detail: str, count: int = 1) -> None:
        self.counts[verdict] += count
        if verdict in WRONG or verdict == "depends on values":
            self.details[f"{verdict}: {detail}"] += count


class Tally:
    """All operators' of one dtype, or of error inputs."""

    def __init__(self) -> None:
        self.operators: dict[str, OfOperator] = {}

    def of(self, operator: str) -> OfOperator:
        """What is counted of an operator, empty at first."""
        return self.operators.setdefault(operator, OfOperator())

    def count(self, verdict: str) -> int:
        return sum(each.counts[verdict] for each in self.operators.values())

    @property
    def share(self) -> float | None:
        """Passed, of what could pass, in percent."""
        asked = sum(map(self.count, ("passed", *WRONG)))
        return 100 * self.count("passed") / asked if asked else None

    def wrong(self, only: str | None = None) -> Iterator[str]:
        """By operator what went wrong, as lines: each thing once."""
        return self._lines(WRONG, only)

    def by_value(self) -> Iterator[str]:
        """By operator what depends on values, as lines."""
        return self._lines(("depends on values",), None)

    def _lines(self, verdicts: tuple[str, ...], only: str | None) -> Iterator[str]:
        counts = {
            name: sum(each.counts[v] for v in verdicts) for name, each in self.operators.items()
        }
        for name in sorted(counts, key=lambda name: (-counts[name], name)):
            if counts[name] and only in (None, name):
                yield f"  {name} ({counts[name]})"
                details = self.operators[name].details.most_common()
                chosen = [(text, n) for text, n in details if text.startswith(verdicts)]
                yield from (f"    {n} x {text}" for text, n in chosen[:SHOWN])


class Kept:
    """Results in a file, a line of JSON for each operator and dtype, added as they come; without a
    path, nowhere."""

    def __init__(self, path: Path | None):
        self.path = path
        self.lines: dict[tuple[str, str], OfOperator] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._read(json.loads(line))

    def _read(self, line: dict[str, Any]) -> None:
        of = OfOperator(Counter(line["counts"]), Counter(line["details"]), line["seconds"])
        self.lines[line["operator"], line["dtype"]] = of

    def get(self, operator: str, dtype: str) -> OfOperator | None:
        return self.lines.get((operator, dtype))

    def add(self, operator: str, dtype: str, of: OfOperator) -> None:
        if self.path is None:
            return
        line = {"operator": operator, "dtype": dtype, "counts": of.counts, "details": of.details,
                "seconds": round(of.seconds, 2)}  # fmt: skip
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def table(tallies: dict[str, Tally]) -> str:
    """The counts by dtype, as text."""
    lines = [f"{'':14}" + "".join(f"{name:>19}" for name in COLUMNS) + f"{'share':>12}"]
    for name, tally in tallies.items():
        counts = "".join(f"{tally.count(column):19}" for column in COLUMNS)
        share = "-" if tally.share is None else f"{tally.share:.2f} %"
        lines.append(f"{name:14}{counts}{share:>12}")
    return "\n".join(lines)
