"""The minimum cut: the same as networkx's on random networks, the side nearest to the sink."""

from __future__ import annotations

import math
import random

import networkx
import pytest

from graphc.autodiff.flow import Network


@pytest.mark.parametrize("seed", range(40))
def test_a_minimum_cut_is_the_one_networkx_finds(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(2, 30)
    network, oracle = Network(), networkx.DiGraph()
    oracle.add_nodes_from(range(count))
    pairs = {(draw.randrange(count), draw.randrange(count)) for _ in range(4 * count)}
    for tail, head in sorted(pairs):
        if tail == head:
            continue
        # No way of unlimited edges alone: those lead to greater numbers only, and none to the last.
        if tail < head < count - 1 and draw.random() < 0.3:
            network.add(tail, head)
            oracle.add_edge(tail, head)
        else:
            capacity = draw.randint(0, 9)
            network.add(tail, head, capacity)
            oracle.add_edge(tail, head, capacity=capacity)
    _, (near, _) = networkx.minimum_cut(oracle, 0, count - 1)
    # Nodes without edges are in neither's way: networkx counts them to the source's side.
    isolated = set(networkx.isolates(oracle)) - {0}
    assert network.cut(0, count - 1) == near - isolated


def test_a_chain_is_cut_at_its_narrowest_edge() -> None:
    network = Network()
    for node, capacity in enumerate((5, 2, 4, 2, 3)):
        network.add(node, node + 1, capacity)
    # Of the two edges of capacity 2 the one nearer to the sink.
    assert network.cut(0, 5) == {0, 1, 2, 3}


def test_unlimited_capacity_from_end_to_end_is_an_error() -> None:
    network = Network()
    network.add("source", "between", math.inf)
    network.add("between", "sink", math.inf)
    with pytest.raises(ValueError, match="no finite cut"):
        network.cut("source", "sink")


def test_long_chains_need_no_recursion() -> None:
    network = Network()
    for node in range(5000):
        network.add(node, node + 1, 1 + (node == 17))
    assert len(network.cut(0, 5000)) == 5000
