"""The ledger: every decision of the compiler about a graph, with what, where, why and its numbers.

in : decisions (`graphc.debug.decisions`)
out: their text. JSON has them within a summary (graphc.debug.summary), which is what two graphs are
     compared by (graphc.debug.summary_diff)

The plan is a pure function of the graph, so nothing is written down while a program is compiled:
who asks has the decisions made again. That costs nothing otherwise, and it works for a program that
came from disk.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphc.errors import ArgumentError
from graphc.ir.nodes import Location
from graphc.records import field, record

KINDS = {
    "rewritten": "a rule put one node in place of another",
    "fused": "nodes are computed by one kernel",
    "not fused": "a value goes through memory between two kernels, though one reads the other",
    "kept": "a node's result lies in memory",
    "computed again": "several kernels compute a node, each for itself",
    "in place": "an output is written straight into the input that it updates",
    "not in place": "an output is copied into the input that it updates, at the end",
    "saved": "forward keeps a value for backward",
    "recomputed": "backward computes a value again",
    "cut": "native code ends, and values are exchanged with other processes",
    "layout": "a value is stored in another order than its own",
    "strategy": "which loops a kernel becomes",
    "threads": "over how many threads a step is split",
    "check": "the content of an operand is tested at run time",
}
IMPORTANCE = (
    "cut", "not fused", "not in place", "computed again", "saved", "recomputed", "check", "layout",
    "strategy", "threads", "kept", "fused", "in place", "rewritten",
)  # fmt: skip
"""The kinds that cost something first."""


@record
class Decision:
    """One decision. `nodes` are positions in the graph of `stage`: the graph before that pass, or
    at "plan" the graph of the plan (`Plan.graph`), which for the plan of a loop or branch, called
    `within`, is its body."""

    kind: str
    what: str
    why: str
    location: Location | None = None
    nodes: tuple[int, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    stage: str = "plan"
    within: str = ""

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {_number(value)}" for name, value in self.numbers.items())
        where = f" in {self.within}" if self.within else ""
        text = f"{self.what}{where}: {self.why}" + (f" ({numbers})" if numbers else "")
        return text + (f"  // {self.location}" if self.location else "")

    @property
    def weight(self) -> float:
        """By what it is sorted: the bytes that it is about."""
        return float(self.numbers.get("bytes", 0))

    def as_json(self) -> dict[str, Any]:
        """The decision as what JSON has; the location by its parts."""
        place = self.location
        parts = ("path", "line", "function", "module", "phase")
        return {
            "kind": self.kind, "what": self.what, "why": self.why, "stage": self.stage,
            "within": self.within, "nodes": list(self.nodes), "numbers": dict(self.numbers),
            "location": place and {part: getattr(place, part) for part in parts},
        }  # fmt: skip

    @staticmethod
    def from_json(item: Mapping[str, Any]) -> Decision:
        """The decision that `as_json` gave. Raises KeyError or TypeError for anything else."""
        place = item["location"]
        return Decision(
            item["kind"], item["what"], item["why"], place and Location(**place),
            tuple(item["nodes"]), item["numbers"], item["stage"], item["within"],
        )  # fmt: skip


# -- text ------------------------------------------------------------------------------------------


def chosen(decisions: Iterable[Decision], kinds: Sequence[str] = ()) -> list[Decision]:
    """Those of some kinds, all for none. Raises ArgumentError for a kind that there is not."""
    for kind in kinds:
        if kind not in KINDS:
            raise ArgumentError(
                f"no decision is called {kind!r}", hint=f"one of {', '.join(KINDS)}"
            )
    return [each for each in decisions if not kinds or each.kind in kinds]


def text(decisions: Sequence[Decision]) -> Iterator[str]:
    """Lines: by kind, the weightiest first; equal ones but for numbers of nodes are one line."""
    for kind, meaning in KINDS.items():
        of_kind = [each for each in decisions if each.kind == kind]
        if not of_kind:
            continue
        yield f"{kind} ({len(of_kind)}): {meaning}"
        times = Counter(_meaning(each) for each in of_kind)
        shown = {_meaning(each): each for each in reversed(of_kind)}
        for key, each in sorted(shown.items(), key=lambda item: -item[1].weight * times[item[0]]):
            yield f"  {times[key]} times: {each}" if times[key] > 1 else f"  {each}"


_LAYERS = re.compile(r"\.\d+\.")
_NUMBERS = re.compile(r" ?%\d+(?:\.\d+)?|\bk\d+_")


def _meaning(decision: Decision) -> str:
    """The text without what numbers of nodes and kernels there happen to be."""
    within = _NUMBERS.sub("", decision.within)
    what, place = _NUMBERS.sub("", decision.what), decision.location
    return f"{what}{f' in {within}' if within else ''}: {decision.why}  // {place}"


_TOLD = (
    "cut", "not fused", "not in place", "layout", "saved", "recomputed", "computed again", "check",
)  # fmt: skip


def weightiest(decisions: Iterable[Decision], count: int) -> Iterator[str]:
    """A line for each of the decisions with most bytes behind them: those that cost something. What
    is decided alike for equal layers counts together."""
    alike: dict[str, list[Decision]] = {}
    for each in decisions:
        if each.kind in _TOLD and each.weight:
            place = _LAYERS.sub(".*.", str(each.location))
            key = f"{each.kind}: {_NUMBERS.sub('', each.what)}: {each.why}  // {place}"
            alike.setdefault(key, []).append(each)
    by_weight = sorted(alike.items(), key=lambda item: -sum(each.weight for each in item[1]))
    for key, equal in by_weight[:count]:
        nbytes = int(sum(each.weight for each in equal))
        times = f"{len(equal)} times, " if len(equal) > 1 else ""
        told, _, place = key.partition("  // ")
        yield f"{told} ({times}{nbytes:,} bytes)" + (f"  // {place}" if equal[0].location else "")


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
