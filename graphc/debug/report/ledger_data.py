"""The decisions about a call as columns, a part for each kind, which a page opens when it is asked.

in : decisions, the passes that were recorded, the plan with its graph as a flat one
out: by kind a dictionary of columns: texts stand once, and are told by their number
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphc.debug.flat_graph import FlatGraph
from graphc.debug.ledger import IMPORTANCE, Decision
from graphc.passes.recorder import PassRecord


class Texts:
    """Texts, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def all(self) -> list[str]:
        return list(self.numbers)


class LaunchFinder:
    """Which launches a decision is about. `nodes[i]` are those of step i, of the flat graph;
    `names[i]` is its kernel's name, or empty."""

    def __init__(
        self, passes: Sequence[PassRecord], flat: FlatGraph, names: Sequence[str],
        nodes: Sequence[tuple[int, ...]],
    ):  # fmt: skip
        self.first = flat.first_within()
        self.by_name: dict[str, list[int]] = {}
        self.by_node: dict[int, list[int]] = {}
        self.by_nodes: dict[tuple[int, ...], list[int]] = {}
        for step, (name, computed) in enumerate(zip(names, nodes, strict=True)):
            self.by_name.setdefault(name, []).append(step)
            self.by_nodes.setdefault(computed, []).append(step)
            for node in computed:
                self.by_node.setdefault(node, []).append(step)
        self.became = final_nodes(passes)

    def nodes(self, decision: Decision) -> list[int]:
        """The decision's nodes: of the flat graph of the plan, or of the graph before its pass."""
        if decision.stage != "plan":
            return [] if decision.within else list(decision.nodes)
        first = self.first.get(decision.within)
        return [] if first is None else [first + node for node in decision.nodes]

    def steps(self, decision: Decision) -> list[int]:
        nodes = self.nodes(decision)
        match decision.kind:
            case "strategy":
                return self.by_name.get(decision.what, [])
            case "fused" | "threads":
                return self.by_nodes.get(tuple(nodes), []) if nodes else []
        if decision.stage != "plan":
            images = self.became.get(decision.stage, {})
            nodes = [image for node in nodes for image in images.get(node, ())]
        return sorted({step for node in nodes for step in self.by_node.get(node, ())})


def final_nodes(passes: Sequence[PassRecord]) -> dict[str, dict[int, tuple[int, ...]]]:
    """By pass, for each node of the graph before it, those of the last graph that have its results.
    Of a pass that runs again the last run counts."""
    by_pass: dict[str, dict[int, tuple[int, ...]]] = {}
    after: Mapping[int, tuple[int, ...]] | None = None
    for record in reversed(passes):
        images: dict[int, tuple[int, ...]] = {}
        for node, became in record.became.items():
            images[node] = (
                tuple(became)
                if after is None
                else tuple(dict.fromkeys(last for each in became for last in after.get(each, ())))
            )
        by_pass.setdefault(record.name, images)
        after = images
    return by_pass


def ledger_parts(decided: Sequence[Decision], finder: LaunchFinder) -> dict[str, dict[str, Any]]:
    """The columns of each kind that there is, the kinds that matter first."""
    assert {each.kind for each in decided} <= set(IMPORTANCE), "a kind without its place"
    parts = {}
    for kind in IMPORTANCE:
        of_kind = [each for each in decided if each.kind == kind]
        if of_kind:
            parts[kind] = _columns(of_kind, finder)
    return parts


def _columns(decided: Iterable[Decision], finder: LaunchFinder) -> dict[str, Any]:
    texts = Texts()
    rows: list[list[int]] = []
    numbers: dict[str, dict[int, Any]] = {}
    nodes, steps = [], []
    for row, each in enumerate(decided):
        place = each.location
        line = f"{place.file}:{place.line}" if place and place.path else ""
        words = (each.what, each.why, line, place.module if place else "",
                 place.phase if place else "", each.within, each.stage)  # fmt: skip
        rows.append([texts.number(word) for word in words])
        for name, value in each.numbers.items():
            if isinstance(value, int | float | str):
                numbers.setdefault(name, {})[row] = value
        nodes.append(differences(finder.nodes(each)))
        steps.append(finder.steps(each))
    columns = dict(zip(("what", "why", "line", "module", "phase", "within", "stage"), zip(*rows)))
    return {
        "texts": texts.all(), **columns, "numbers": numbers, "nodes": nodes, "steps": steps,
    }  # fmt: skip


def differences(numbers: Sequence[int]) -> list[int]:
    """Each number less the one before it: equal layers look alike then."""
    return [b - a for a, b in zip([0, *numbers], numbers)]
