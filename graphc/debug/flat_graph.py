"""The nodes of a graph and of the regions in it as one list, so that a number names each of them.

in : a graph, or a plan with the graph that was scheduled
out: a `FlatGraph`: the graph's own nodes under their own numbers, those of regions behind them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from graphc.ir.nodes import Graph, Node
from graphc.ir.registry import lookup
from graphc.records import record
from graphc.schedule.plan import Branch, Launch, Loop, Plan

Children = Callable[[int], list[tuple[str, Graph, "Children"]]]
"""Of a node: its regions, each with its name and the same function for the nodes in it."""


@record
class GraphPart:
    """A graph of which the nodes stand from `first` on. `owner`: the number of the node whose
    region it is, -1 for the graph itself; `within`: the path of regions to it, as a decision tells
    it (`%3 body`)."""

    graph: Graph
    first: int
    owner: int
    name: str
    within: str


@record
class FlatGraph:
    """`nodes` of all `parts`; the first part is the graph itself."""

    parts: tuple[GraphPart, ...]

    @property
    def nodes(self) -> list[tuple[GraphPart, Node]]:
        return [(part, node) for part in self.parts for node in part.graph.nodes]

    def first_within(self) -> Mapping[str, int]:
        """By path of regions the number of the first node in there."""
        return {part.within: part.first for part in self.parts}

    def first_of(self, graph: Graph) -> int | None:
        """The number of the first node of a graph that is this one or a region in it."""
        return next((part.first for part in self.parts if part.graph is graph), None)


def flat_graph(graph: Graph) -> FlatGraph:
    """A graph with the regions that its nodes hold."""
    return _flat(graph, _regions(graph))


def flat_plan(plan: Plan) -> FlatGraph:
    """The graph of a plan, with those that the plans of its loops and branches were made of."""
    assert plan.graph is not None
    return _flat(plan.graph, _inner_graphs(plan))


def launch_nodes(plan: Plan, flat: FlatGraph) -> Iterator[tuple[int, ...]]:
    """Of each step in the order of `all_steps` the numbers of the nodes that a launch computes."""
    first = flat.first_within()

    def walk(plan: Plan, within: str) -> Iterator[tuple[int, ...]]:
        begin = first[within]
        for step in plan.steps:
            nodes = step.nodes if isinstance(step, Launch) else ()
            yield tuple(begin + node for node in nodes)
            if isinstance(step, Loop | Branch):
                for name, inner in zip(_names(plan, step), step.plans):
                    yield from walk(inner, _path(within, step.node, name))

    return walk(plan, "")


def _flat(graph: Graph, children: Children) -> FlatGraph:
    parts = [GraphPart(graph, 0, -1, "", "")]
    size = len(graph.nodes)

    def add(part: GraphPart, children: Children) -> None:
        nonlocal size
        for identity in range(len(part.graph.nodes)):
            for name, inner, deeper in children(identity):
                path = _path(part.within, identity, name)
                own = GraphPart(inner, size, part.first + identity, name, path)
                parts.append(own)
                size += len(inner.nodes)
                add(own, deeper)

    add(parts[0], children)
    return FlatGraph(tuple(parts))


def _path(within: str, identity: int, name: str) -> str:
    return f"{within} %{identity} {name}".strip()


def _regions(graph: Graph) -> Children:
    def children(identity: int) -> list[tuple[str, Graph, Children]]:
        node = graph.nodes[identity]
        names = lookup(node.op).region_names if node.regions else ()
        return [(name, inner, _regions(inner)) for name, inner in zip(names, node.regions)]

    return children


def _inner_graphs(plan: Plan) -> Children:
    steps = {step.node: step for step in plan.steps if isinstance(step, Loop | Branch)}

    def children(identity: int) -> list[tuple[str, Graph, Children]]:
        step = steps.get(identity)
        if step is None:
            return []
        named = zip(_names(plan, step), step.plans)
        return [(name, inner.graph, _inner_graphs(inner)) for name, inner in named if inner.graph]

    return children


def _names(plan: Plan, step: Loop | Branch) -> tuple[str, ...]:
    assert plan.graph is not None
    names: tuple[str, ...] = lookup(plan.graph.nodes[step.node].op).region_names
    return names
