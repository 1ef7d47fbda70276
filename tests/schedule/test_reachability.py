"""Paths between groups while they merge, against networkx on the condensed graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from graphc.ir.nodes import Value
from graphc.schedule.groups import FusionGroup
from graphc.schedule.reachability import GroupReachability


def drawn(rng: np.random.Generator) -> dict[int, FusionGroup]:
    """Groups of one node each, of a graph of 4 to 14 nodes; every third number is no kept node."""
    names = [3 * i + int(rng.integers(2)) for i in range(int(rng.integers(4, 15)))]
    groups = {}
    for position, name in enumerate(names):
        earlier = [other for other in names[:position] if rng.random() < 0.3]
        group = FusionGroup([name], ())
        group.sources = {Value(other) for other in earlier if rng.random() < 0.8}
        group.after = frozenset(set(earlier) - {value.node for value in group.sources})
        group.sources.add(Value(1000))  # an input
        groups[name] = group
    return groups


def condensed(groups: dict[int, FusionGroup], needs: dict[int, set[int]]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(id(group) for group in groups.values())
    for name, group in groups.items():
        graph.add_edges_from((id(groups[other]), id(group)) for other in needs[name])
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def around(graph: nx.DiGraph, one: int, other: int) -> bool:
    return any(
        third != other and nx.has_path(graph, third, other) for third in graph.successors(one)
    )


@pytest.mark.parametrize("seed", range(12))
def test_paths_are_those_of_the_quotient_after_each_merge(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = drawn(rng)
    needs = {
        name: ({value.node for value in group.sources} | group.after) & groups.keys()
        for name, group in groups.items()
    }
    paths = GroupReachability(groups)
    while True:
        graph = condensed(groups, needs)
        assert nx.is_directed_acyclic_graph(graph)
        live = list({id(group): group for group in groups.values()}.values())
        pairs = [(one, other) for one in live for other in live if one is not other]
        for one, other in pairs:
            assert paths.depends_on(other, one) == nx.has_path(graph, id(one), id(other))
            assert paths.merge_creates_cycle(one, other) == around(graph, id(one), id(other))
        free = [
            (one, other)
            for one, other in pairs
            if not (paths.merge_creates_cycle(one, other) or paths.merge_creates_cycle(other, one))
        ]
        if not free:
            return
        one, other = free[int(rng.integers(len(free)))]
        merged = FusionGroup(sorted(one.nodes + other.nodes), ())
        paths.merge(one, other)
        groups.update(dict.fromkeys(merged.nodes, merged))
