"""How far the scheduler's decisions on whole graphs are from the best ones.

    python benchmarks/headroom.py [--ask fusion order arena] [--only NAME …] [--trials 40] [--json]

in : the plans of the workloads, and of the same with open sizes
out: fusion: the bytes that kernels read and write with the groups of the pass, and with the best
             groups that were met
     order:  the time of a call on two threads by estimate, and the most that another order of its
             steps could save: what one thread runs alone, and all barriers
     arena:  of open sizes, its bytes at several sizes over the greatest sum of live sizes, with
             whole slots (as they are), and if it were laid out for that size

Nothing is compiled or timed. The rules of what may be one kernel are the pass's own: what varies is
which merge comes first, the only thing it chooses. Plans with at most twelve merges to begin with
are searched whole. Of others two neighbourhoods are: without one of the merges that the pass made,
and in orders drawn around the pass's own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the tests' problems

from code_digests.subjects import subjects

from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.target import named
from graphc.ir.dims import fixed
from graphc.ir.nodes import Graph, Value
from graphc.ir.size_guards import typical
from graphc.schedule import threads
from graphc.schedule.arena import lower_bound, plan_offsets
from graphc.schedule.bodies import used_results
from graphc.schedule.build import plan_graph
from graphc.schedule.fusion import Fusion
from graphc.schedule.groups import FusionGroup
from graphc.schedule.instances import plan_at
from graphc.schedule.merging import Merger
from graphc.schedule.plan import kernels, live_ranges
from graphc.schedule.threads import spread, work_of

WHOLE = 12
"""Merges to begin with, up to which all ways are tried."""
ROWS = (2, 3, 7, 16, 64, 256)
Row = dict[str, Any]
TARGET = named("x86-64-v3")
Order = Callable[[list[tuple[int, int]]], list[tuple[int, int]]]


class OrderedMerger(Merger):
    """Merges in another order: `order` sorts the edges of a round and leaves some out."""

    def __init__(self, graph: Graph, groups: dict[int, FusionGroup], order: Order):
        super().__init__(graph, dict(groups))
        self._order = order

    def _edges(self) -> list[tuple[int, int]]:
        return self._order(super()._edges())


@dataclass
class PlanHeadroom:
    """Bytes and kernels of one plan, of the pass and of the best."""

    groups: int
    bytes: int
    best: int
    kernels: int
    tried: int
    whole: bool


def passed(graph: Graph, groups: dict[int, FusionGroup]) -> int:
    """Bytes that kernels read, each value once a kernel, and write where another reads it."""
    kernels = {id(group): group for group in groups.values()}.values()
    readers: set[Value] = set(graph.outputs)
    for group in kernels:
        readers |= {value for value in group.sources if value.node not in group.nodes}
    read = sum(
        _nbytes(graph, value)
        for group in kernels
        for value in group.sources
        if value.node not in group.nodes
    )
    used = used_results(graph)
    written = sum(
        _nbytes(graph, value)
        for group in kernels
        for node in group.nodes
        for index in used[node]
        if (value := Value(node, index)) in readers
    )
    return read + written


def _nbytes(graph: Graph, value: Value) -> int:
    return typical(graph.type_of(value).nbytes)


class Search:
    """Of one graph: the groups it starts from, and the best bytes that were met."""

    def __init__(self, graph: Graph, groups: dict[int, FusionGroup]):
        self.graph, self.groups = graph, dict(groups)
        self.tried = 0
        self.best = sys.maxsize

    def run(self, order: Order = lambda edges: edges) -> dict[int, FusionGroup]:
        merger = OrderedMerger(self.graph, self.groups, order)
        merger.run()
        self.note(merger)
        return merger.groups

    def note(self, merger: Merger) -> None:
        self.tried += 1
        self.best = min(self.best, passed(self.graph, merger.groups))

    def whole(self) -> None:
        """All orders: sets of merges are the states, each met once."""
        seen: set[frozenset[tuple[int, int]]] = set()
        stack: list[tuple[tuple[int, int], ...]] = [()]
        while stack:
            done = stack.pop()
            merger = OrderedMerger(self.graph, self.groups, lambda edges: edges)
            for source, reader in done:
                merger._merge(merger.groups[source], merger.groups[reader])
            further = [
                edge
                for edge in merger._edges()
                if (pair := _pair(merger, edge))[0] is not pair[1]
                and merger._refusal(*pair) is None
            ]
            merger._fuse_horizontally()
            self.note(merger)
            for edge in further:
                state = frozenset((*done, edge))
                if state not in seen:
                    seen.add(state)
                    stack.append((*done, edge))

    def around(self, trials: int) -> None:
        """Without one merge of the pass, and in orders drawn around its own."""
        merged = list(self._merged_edges())
        for left_out in merged[:: max(1, len(merged) // trials)]:
            self.run(lambda edges, left_out=left_out: [e for e in edges if e != left_out])
        random = np.random.default_rng(0)
        for trial in range(trials):
            spread = (0.5, 2.0, 50.0)[trial % 3]

            def drawn(edges: list[tuple[int, int]], spread: float = spread) -> list[Any]:
                places = np.arange(len(edges)) + random.normal(0, spread, len(edges))
                return [edges[i] for i in np.argsort(places)]

            self.run(drawn)

    def _merged_edges(self) -> Iterator[tuple[int, int]]:
        """The edges along which the pass merged."""
        after = self.run()
        for edge in OrderedMerger(self.graph, self.groups, lambda edges: edges)._edges():
            if after[edge[0]] is after[edge[1]]:
                yield edge


def _pair(merger: Merger, edge: tuple[int, int]) -> tuple[FusionGroup, FusionGroup]:
    return merger.groups[edge[0]], merger.groups[edge[1]]


class ExploringMerger(Merger):
    """In place of the pass's merger: explores each plan, then merges as the pass does."""

    trials = 40
    plans: ClassVar[list[PlanHeadroom]] = []

    def run(self) -> None:
        search = Search(self.graph, self.groups)
        ways = len({e for e in self._edges() if self._refusal(*_pair(self, e)) is None})
        whole = ways <= WHOLE
        search.run()
        search.whole() if whole else search.around(self.trials)
        groups = len(self.groups)
        super().run()
        own = passed(self.graph, self.groups)
        kernels = len({id(group) for group in self.groups.values()})
        self.plans.append(PlanHeadroom(groups, own, search.best, kernels, search.tried, whole))


def fusion(graph: Graph, level: str, example: Mapping[str, int], preferred: Any) -> Iterator[Row]:
    """Of each plan of a graph, those of its loops too."""
    ExploringMerger.plans = []
    Fusion.merger_of = ExploringMerger
    try:
        plan_graph(graph, level, preferred=preferred, example=example)
    finally:
        Fusion.merger_of = Merger
    for plan in ExploringMerger.plans:
        if plan.groups > 1:
            yield {**vars(plan), "ratio": plan.best / max(plan.bytes, 1)}


def order(graph: Graph, level: str, example: Mapping[str, int], preferred: Any) -> Iterator[Row]:
    """Of the plan of a graph without open sizes."""
    if example:
        return
    _, plan = plan_graph(graph, level, preferred=preferred)
    extents = {spec: lower(spec, TARGET).extent if spec.has_loops else 1 for spec in kernels(plan)}
    work = work_of(extents)
    choices = [threads._choice(step, work, 2) for step in plan.steps]
    chosen = spread(plan, work, 2)[1]
    barriers = sum(step.barrier for step in chosen.steps) * threads.BARRIER_NS
    one, groups = sum(c.time for c in choices), threads._step_groups(plan, choices, 2)
    if len(groups) < len(choices):  # some run beside others already
        choices = threads._concurrent(choices, groups)
    alone = sum(c.time for c in choices if c.alone and not c.gain)
    two = one - sum(c.gain for c in choices) + barriers
    saved = min(alone / 2 + barriers, two - one / 2)
    yield {"one_us": one / 1e3, "two_us": two / 1e3, "alone_us": alone / 1e3, "ratio": saved / two}


def arena(graph: Graph, level: str, example: Mapping[str, int], preferred: Any) -> Iterator[Row]:
    """Of the plan of a graph with open sizes, the first of which varies."""
    if not example:
        return
    _, plan = plan_graph(graph, level, preferred=preferred, example=example)
    for rows in ROWS:
        at = plan_at(plan, {**example, next(iter(example)): rows})
        sizes, lives = [], []
        for buffer, used in zip(at.buffers, live_ranges(at.steps, at.buffers), strict=True):
            if buffer.place == "arena" and buffer.within is None and used is not None:
                sizes.append(fixed(buffer.type.nbytes))
                lives.append(used)
        if least := lower_bound(sizes, lives):
            own = plan_offsets(sizes, lives)[1]
            yield {"rows": rows, "ratio": at.arena_bytes / least, "alone": own / least}


QUESTIONS = {"fusion": fusion, "order": order, "arena": arena}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ask", nargs="+", choices=QUESTIONS, default=[*QUESTIONS])
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--small", action="store_true", help="workloads of the tests' size")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ExploringMerger.trials = arguments.trials
    preferred, rows = preferred_layouts(TARGET), []
    for group, pattern in product(("workloads", "open"), arguments.only):
        for subject in subjects(group, pattern, arguments.small):
            for name, question in product(subject.programs, arguments.ask):
                for row in QUESTIONS[question](*subject.programs[name], preferred):
                    rows.append({"subject": f"{subject.name}/{name}", "ask": question, **row})
                    if not arguments.json:
                        print(_line(rows[-1]), flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=1))


def _line(row: Row) -> str:
    shown = (
        f"{key} {value:.4f}" if isinstance(value, float) else f"{key} {value}"
        for key, value in row.items()
        if key not in ("subject", "ask")
    )
    return f"{row['subject']:24} {row['ask']:7} {'  '.join(shown)}"


if __name__ == "__main__":
    main()
