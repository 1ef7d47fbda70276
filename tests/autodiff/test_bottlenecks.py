"""Where a graph is cut into segments that are computed again one by one."""

from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import pytest

import graphc
from graphc.autodiff.bottlenecks import Bottlenecks
from graphc.autodiff.cut import minimum_cut
from graphc.ir.graph_queries import live_nodes
from graphc.ir.nodes import Value
from graphc.ops import elementwise as e
from graphc.ops.movement import broadcast
from graphc.ops.reduce import sum as summed

ONE = 8 * 4


def chain(length: int, *, wide: int = 1) -> tuple[graphc.Graph, set[int]]:
    """f(f(…)) of a vector, each step through a matrix of `wide` rows; its nodes."""
    g = graphc.GraphBuilder("chain")
    value: Any = g.input("x", "f32[8]")
    for _ in range(length):
        value = e.tanh(value)
        if wide > 1:
            value = summed(e.exp(broadcast(value, shape=(wide, 8))), axes=(0,))
    graph = g.finish(value)
    return graph, set(range(1, len(graph.nodes)))


def test_a_chain_is_cut_into_equal_segments() -> None:
    graph, early = chain(12)
    along = [Value(i) for i in early]
    borders, largest = Bottlenecks(graph, early, set()).segments(along, 4)
    assert sorted(value.node for value in borders) == [3, 6, 9]
    assert largest == 3 * ONE


def test_a_border_lies_where_the_graph_is_narrow() -> None:
    graph, early = chain(8, wide=64)
    along = [Value(i) for i in early if graph.nodes[i].op == "exp"]
    borders, _ = Bottlenecks(graph, early, set()).segments(along, 4)
    assert borders and all(graph.type_of(value).shape == (8,) for value in borders)


@pytest.mark.parametrize("budget", [0, 1, 3, 6, 11])
def test_what_is_kept_fits_and_suffices(budget: int) -> None:
    graph, early = chain(12)
    read = [Value(i) for i in early]
    cut = minimum_cut(graph, early, read, set(), budget * ONE)
    assert cut.bytes == ONE * len(cut.kept) <= budget * ONE
    assert budget < 3 or cut.kept  # a budget is used


def test_without_a_budget_all_that_costs_more_than_its_bytes_is_kept() -> None:
    graph, early = chain(12)
    cut = minimum_cut(graph, early, [Value(i) for i in early], set())
    assert cut.kept == {Value(i) for i in early} and cut.bytes == 12 * ONE


@pytest.mark.parametrize("seed", range(12))
def test_a_bottleneck_of_one_value_is_an_articulation_point(seed: int) -> None:
    rng = np.random.default_rng(seed)
    g = graphc.GraphBuilder("drawn")
    x = g.input("x", "f32[8]")
    values: list[Any] = [e.tanh(x)]
    for _ in range(20):
        recent = values[-3:]
        left, right = rng.integers(0, len(recent), 2)
        values.append(recent[left] * recent[right] if rng.random() < 0.5 else e.neg(values[-1]))
    graph = g.finish(values[-1])
    early = live_nodes(graph) - {0}
    bottlenecks = Bottlenecks(graph, early, set())
    first, last = min(early), max(early)
    single = {n for n in early - {last} if bottlenecks.at(n) == {Value(n)}} - {first}
    dominators = networkx.immediate_dominators(graph.nx(early), first)
    between, node = set(), dominators[last]
    while node != first:
        between.add(node)
        node = dominators[node]
    assert single == between
    articulation = set(networkx.articulation_points(networkx.Graph(graph.nx(early))))
    assert between <= articulation
