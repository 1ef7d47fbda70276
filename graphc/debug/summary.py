"""What can be compared about two compilations: totals, what the graph computes where, decisions.

in : a graph, and what `graphc.compile` would be told with it; or the JSON of a summary
out: a `Summary`, and its JSON
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from graphc.codegen.target import Target
from graphc.debug.decisions import decisions
from graphc.debug.flat_graph import flat_graph
from graphc.debug.ledger import Decision
from graphc.debug.profile.work import work_of_body
from graphc.errors import ArgumentError
from graphc.ir.dims import fixed
from graphc.ir.nodes import CONSTANT, FORWARD, INPUT, Graph
from graphc.passes.recorder import Recorder
from graphc.records import record
from graphc.schedule.plan import Branch, Launch, Loop, Plan, kernels
from graphc.schedule.threads import RUNS, estimate

TOTALS = {
    "nodes": "nodes as traced",
    "optimized": "nodes after passes",
    "kernels": "kernels",
    "launches": "launches of a call",
    "bytes": "bytes read and written by launches",
    "arena": "bytes of the arena",
    "microseconds": "µs by estimate, one thread",
}
"""By key what each total is, in the order in which they are told. A loop whose runs are not counted
beforehand, and both sides of a branch, count as the thread schedule counts them."""


@record
class Operation:
    """What a node computes and where: its op and results' types, the path of its module, its phase,
    its line (`model.py:12`), which takes no part in comparisons by meaning."""

    op: str
    types: str
    module: str
    phase: str
    line: str


@record
class Summary:
    """`operations` are those of the graph as traced, with their number."""

    totals: Mapping[str, float]
    operations: Mapping[Operation, int]
    decisions: list[Decision]


def summary(
    graph: Graph, level: str = "exact", *, target: str | Target | None = None,
    threads: int | None = None, fusion: bool = True,
) -> Summary:  # fmt: skip
    """The summary of a graph; the arguments are those of `graphc.compile`. Raises what compiling
    raises."""
    recorder = Recorder()
    decided = decisions(
        graph, level, target=target, threads=threads, fusion=fusion, recorder=recorder
    )
    return summary_of(graph, recorder.plan, decided)


def summary_of(graph: Graph, plan: Plan, decided: list[Decision]) -> Summary:
    """The summary of a graph that has been planned."""
    return Summary(_totals(graph, plan), _operations(graph), decided)


def _totals(graph: Graph, plan: Plan) -> dict[str, float]:
    runs = Counter[Launch]()
    for launch, times in _launches(plan, 1):
        runs[launch] += times
    works = {launch.kernel: work_of_body(launch.kernel.body).nbytes for launch in runs}
    costs = {launch.kernel: estimate(launch.kernel).nanoseconds for launch in runs}
    microseconds = sum(costs[launch.kernel] * times for launch, times in runs.items()) / 1000
    return {
        "nodes": len(flat_graph(graph).nodes),
        "optimized": len(flat_graph(plan.graph or graph).nodes),
        "kernels": len(kernels(plan)),
        "launches": runs.total(),
        "bytes": sum(works[launch.kernel] * times for launch, times in runs.items()),
        "arena": plan.arena_bytes,
        "microseconds": round(microseconds, 1),
    }


def _launches(plan: Plan, times: int) -> Iterator[tuple[Launch, int]]:
    """Each launch, and how often a call runs it."""
    for step in plan.steps:
        if isinstance(step, Launch):
            yield step, times
        elif isinstance(step, Loop | Branch):
            count = getattr(step, "count", 1)
            turns = RUNS if count is None else fixed(count)
            for inner in step.plans:
                yield from _launches(inner, times * turns)


def _operations(graph: Graph) -> Counter[Operation]:
    counts = Counter[Operation]()
    for _, node in flat_graph(graph).nodes:
        if node.op in (INPUT, CONSTANT):
            continue
        place, types = node.location, ", ".join(map(str, node.types))
        line = f"{place.file}:{place.line}" if place and place.path else ""
        where = (place.module, place.phase) if place else ("", FORWARD)
        counts[Operation(node.op, types, *where, line)] += 1
    return counts


# -- JSON ------------------------------------------------------------------------------------------


def as_json(content: Summary) -> str:
    """All of it as a JSON text."""
    operations = [
        [each.op, each.types, each.module, each.phase, each.line, count]
        for each, count in content.operations.items()
    ]
    listed = [each.as_json() for each in content.decisions]
    return json.dumps(
        {"totals": dict(content.totals), "decisions": listed, "operations": operations}, indent=1
    )


def from_json(text: str) -> Summary:
    """The summary of a JSON text. Raises ArgumentError for a text that is none."""
    try:
        content = json.loads(text)
        totals = {name: content["totals"][name] + 0 for name in TOTALS}
        operations = Counter[Operation]()
        for *words, count in content["operations"]:
            operations[Operation(*words)] += count
        return Summary(totals, operations, [Decision.from_json(d) for d in content["decisions"]])
    except (ValueError, KeyError, TypeError) as error:
        raise ArgumentError(f"this is no ledger: {type(error).__name__}: {error}") from error
