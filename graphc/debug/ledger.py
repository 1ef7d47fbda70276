"""Every decision of the compiler about a graph: what, where, why, and with which numbers.

in : a graph, and what `graphc.compile` would be told with it
out: decisions, in the order of the stages that made them

The plan is a pure function of the graph, so nothing is written down while a program is compiled:
who asks has the decisions made again. That costs nothing otherwise, and it works for a program that
came from disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphc.ir.nodes import Location

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
    "layout": "a value is stored in another order than its own",
    "strategy": "which loops a kernel becomes",
    "threads": "over how many threads a step is split",
    "check": "the content of an operand is tested at run time",
}


@dataclass(frozen=True, slots=True)
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
        place = f"  // {self.location}" if self.location else ""
        return (
            f"{self.kind}: {self.what}: {self.why}" + (f" ({numbers})" if numbers else "") + place
        )

    def as_json(self) -> dict[str, Any]:
        """The decision as what JSON has: the location by parts, numbers as they are."""
        place = self.location
        return {
            "kind": self.kind, "what": self.what, "why": self.why, "stage": self.stage,
            "within": self.within, "nodes": list(self.nodes), "numbers": dict(self.numbers),
            "file": place and place.path, "line": place and place.line,
            "function": place and place.function, "module": place and place.module,
            "phase": place and place.phase,
        }  # fmt: skip


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
