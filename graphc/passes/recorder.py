"""What passes did to a graph: each pass with its graph before and after, and each rule that fired.

in : a `Recorder`, handed to `optimize`, `plan_graph` or `graphc.compile`
out: `recorder.passes`, one record a pass, and the plan

    recorder = Recorder()
    optimize(graph, "exact", recorder)
    for record in recorder.passes:
        print(record.name, len(record.before.nodes), len(record.after.nodes), len(record.firings))

Without a recorder nothing is noted, and nothing is paid.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphc.ir.draft import Draft
from graphc.ir.nodes import Graph, Location, Node, Value
from graphc.ir.printer import print_graph
from graphc.ir.recording import NOTES
from graphc.passes.dead_code import dead_code
from graphc.records import field, record


@record
class Firing:
    """A rule fired: `after` took the place of `before`. `number` counts the firings of a recorder,
    from 0. Both stand on values of the graph that was under construction, `draft`; `node` is the
    position in `graph`, that before the pass or a region of it, for the sake of which it fired.
    `location` is that of `before`."""

    number: int
    rule: str
    graph: Graph = field(repr=False)
    node: int
    before: Node
    after: Node | Value
    draft: Draft = field(repr=False)

    @property
    def location(self) -> Location | None:
        return self.before.location

    def texts(self) -> tuple[str, str]:
        """The graphs that lead to what there was, and to what took its place."""
        return excerpt(self.draft, self.before), excerpt(self.draft, self.after)


@record
class PassRecord:
    """One pass over one graph. `became`: by node of the graph before, the nodes after that have its
    results; a node that is not there is gone."""

    name: str
    before: Graph
    after: Graph
    became: Mapping[int, tuple[int, ...]]
    firings: tuple[Firing, ...]
    seconds: float


class Recorder:
    """Notes what passes do. With `limit`, only so many rules fire, in the order in which they
    would: what is wrong with the first n and not with the first n - 1, the n-th did.

    `passes` has a record for each pass that ran, `plan` the plan, once there is one.
    """

    def __init__(self, limit: int | None = None):
        self.limit = limit
        self.fired = 0
        self.passes: list[PassRecord] = []
        self.plan: Any = None
        self._firings: list[Firing] = []
        self._copies: list[tuple[Sequence[Node], Mapping[Value, Any]]] = []

    def run(self, name: str, before: Graph, function: Callable[[], Graph]) -> Graph:
        """What `function` makes of the graph `before`, noted as a pass of that name."""
        self._firings, self._copies = [], []
        token = NOTES.set(self)
        started = time.perf_counter()
        try:
            after = function()
        finally:
            NOTES.reset(token)
        seconds = time.perf_counter() - started
        became = self._became(before, after)
        record = PassRecord(name, before, after, became, tuple(self._firings), seconds)
        self.passes.append(record)
        self.passed(record)
        return after

    def passed(self, record: PassRecord) -> None:
        """Called after each pass; for who wants to see it while there is more to come."""

    # -- what passes tell --------------------------------------------------------------------

    def copied(self, nodes: Sequence[Node], values: Mapping[Value, Any]) -> None:
        self._copies.append((nodes, values))

    def fires(
        self, rule: str, draft: Draft, graph: Graph, node: int, before: Node, after: Node | Value
    ) -> bool:
        if self.limit is not None and self.fired >= self.limit:
            return False
        self._firings.append(Firing(self.fired, rule, graph, node, before, after, draft))
        self.fired += 1
        return True

    def _became(self, before: Graph, after: Graph) -> dict[int, tuple[int, ...]]:
        if before is after:
            return {identity: (identity,) for identity in range(len(before.nodes))}
        values: dict[Value, Any] = {}
        for nodes, copies in self._copies:
            if nodes is before.nodes:
                values.update(copies)
        became: dict[int, dict[int, None]] = {}
        for old, new in values.items():
            became.setdefault(old.node, {})[_node_of(new)] = None
        inputs = {node.attribute("name"): i for i, node in enumerate(after.inputs)}
        for identity, node in enumerate(before.inputs):
            if node.attribute("name") in inputs:
                became.setdefault(identity, {inputs[node.attribute("name")]: None})
        return {identity: tuple(sorted(new)) for identity, new in sorted(became.items())}


def recorded(
    recorder: Recorder | None, name: str, before: Graph, function: Callable[[], Graph]
) -> Graph:
    """`function()`, as a pass of the recorder where there is one."""
    return function() if recorder is None else recorder.run(name, before, function)


def _node_of(value: Any) -> int:
    """The node of a value, or of a handle on one."""
    own = value if isinstance(value, Value) else value.value
    return int(own.node)


def excerpt(draft: Draft, end: Node | Value, name: str = "excerpt") -> str:
    """The text of the graph that leads to a value of a draft, or to a node not in it."""
    nodes = list(draft.nodes)
    if isinstance(end, Node):
        nodes.append(end)
        end = Value(len(nodes) - 1)
    return print_graph(dead_code(Graph(name, tuple(nodes), (end,))), locations=False)
