"""Each question asked of a graph, against networkx on drawn graphs."""

from __future__ import annotations

import graphlib

import networkx as nx
import numpy as np
import pytest

import graphc
from graphc.ir.graph_queries import (
    ancestors,
    cheapest_cut,
    condensation,
    descendants,
    determined_by,
    live_nodes,
    postorder,
    reachable,
    topological_order,
)
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.types import TensorType

F32, I64 = TensorType.parse("f32[2]"), TensorType.parse("i64[2]")
INFINITE = float("inf")


def drawn(seed: int) -> tuple[Graph, np.random.Generator]:
    """Up to 40 nodes with one or two results and up to three operands; a few outputs."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 41))
    nodes = [Node(INPUT, (), (("name", f"x{i}"),), (F32,)) for i in range(3)]
    for _ in range(count):
        makers = rng.integers(0, len(nodes), int(rng.integers(0, 4)))
        operands = tuple(Value(int(i), int(rng.integers(len(nodes[i].types)))) for i in makers)
        types = (F32, I64)[: int(rng.integers(1, 3))]
        nodes.append(Node("op" if operands else CONSTANT, operands, (), types))
    outputs = {int(i) for i in rng.integers(0, len(nodes), 3)}
    return Graph("drawn", tuple(nodes), tuple(Value(i) for i in sorted(outputs))), rng


def some(rng: np.random.Generator, graph: Graph, share: float) -> set[int]:
    return {i for i in range(len(graph.nodes)) if rng.random() < share}


def values_view(graph: Graph) -> nx.DiGraph:
    """An edge from each node to its values, and from those to their readers."""
    view = nx.DiGraph()
    view.add_edges_from((value.node, value) for value in graph.values())
    view.add_edges_from((v, reader) for reader, n in enumerate(graph.nodes) for v in n.operands)
    return view


def closed(view: nx.DiGraph, roots: set[int], of: object) -> set[int]:
    return roots.union(*(of(view, root) for root in roots))  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(20))
def test_ancestors_live_nodes_and_descendants(seed: int) -> None:
    graph, rng = drawn(seed)
    view = graph.nx()
    roots = some(rng, graph, 0.1) or {len(graph.nodes) - 1}
    up = closed(view, roots, nx.ancestors)
    assert ancestors(graph.nodes, map(Value, roots)) == up
    assert reachable(roots, view.predecessors) == up
    assert live_nodes(graph) == closed(view, {v.node for v in graph.outputs}, nx.ancestors)
    values = [value for value in graph.values() if value.node in roots]
    down = {value.node for value in descendants(graph, values)}
    assert down == closed(view, roots, nx.descendants)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_known_needs_no_ancestors(seed: int) -> None:
    graph, rng = drawn(seed)
    known = {value for value in graph.values() if rng.random() < 0.3}
    view = values_view(graph)
    view.remove_nodes_from(known)
    roots = [value for value in graph.values() if value.node > len(graph.nodes) - 4]
    expected = {node for value in roots if value not in known for node in nx.ancestors(view, value)}
    actual = ancestors(graph.nodes, roots, known.__contains__)
    assert actual == {node for node in expected if isinstance(node, int)}


@pytest.mark.parametrize("seed", range(20))
def test_descendants_along_floats(seed: int) -> None:
    graph, _ = drawn(seed)
    view = values_view(graph)
    view.remove_nodes_from([value for value in graph.values() if graph.type_of(value) == I64])
    expected = {Value(0)} | {v for v in nx.descendants(view, Value(0)) if isinstance(v, Value)}
    assert descendants(graph, [Value(0)], lambda type: type.dtype.is_float) == expected


@pytest.mark.parametrize("seed", range(20))
def test_determined_by_inputs_and_constants(seed: int) -> None:
    graph, rng = drawn(seed)
    view, barred = graph.nx(), some(rng, graph, 0.1)
    kinds = [node.op for node in graph.nodes]
    others = {i for i, kind in enumerate(kinds) if kind == INPUT} - {0, 1} | barred
    others = {i for i in others if kinds[i] != CONSTANT} - {0, 1}
    behind = closed(view, others, nx.descendants)
    reached = closed(view, {0, 1}, nx.descendants)
    by_node = {id(node): i for i, node in enumerate(graph.nodes)}
    admits = lambda node: by_node[id(node)] not in barred  # noqa: E731
    assert determined_by(graph, {0, 1}, admits) == {0, 1} | (reached - behind)


@pytest.mark.parametrize("seed", range(20))
def test_postorder(seed: int) -> None:
    graph, rng = drawn(seed)
    inside = some(rng, graph, 0.8)
    roots = sorted(some(rng, graph, 0.2) & inside)
    view = nx.DiGraph()
    view.add_edges_from(("root", root) for root in roots)
    for identity in inside:
        operands = graph.nodes[identity].operands
        view.add_edges_from((identity, v.node) for v in operands if v.node in inside)
    order = list(nx.dfs_postorder_nodes(view, "root"))[:-1] if roots else []
    assert postorder(graph.nodes, roots, inside) == order


@pytest.mark.parametrize("seed", range(20))
def test_condensation_and_topological_order(seed: int) -> None:
    graph, rng = drawn(seed)
    # Runs of neighbouring nodes are groups whose graph is acyclic; some nodes are in none.
    borders = np.cumsum(rng.random(len(graph.nodes)) < 0.4)
    owner = {i: int(g) for i, g in enumerate(borders) if rng.random() < 0.9}
    groups = [{i for i, own in owner.items() if own == g} for g in range(int(borders[-1]) + 1)]
    needs = [{v.node for i in group for v in graph.nodes[i].operands} for group in groups]
    before = condensation(owner, needs)
    quotient = nx.quotient_graph(
        nx.DiGraph(graph.nx()).subgraph(owner),
        [group for group in groups if group], create_using=nx.DiGraph,
    )  # fmt: skip
    number = {frozenset(group): i for i, group in enumerate(groups)}
    edges = {(number[a], number[b]) for a, b in quotient.edges}
    assert {(j, i) for i, others in enumerate(before) for j in others} == edges
    view = nx.DiGraph()
    view.add_nodes_from(range(len(groups)))
    view.add_edges_from(edges)
    priority = [int(p) for p in rng.integers(0, 4, len(groups))]
    expected = nx.lexicographical_topological_sort(view, key=lambda i: (priority[i], i))
    assert topological_order(before, priority) == list(expected)


def test_a_cycle_has_no_topological_order() -> None:
    with pytest.raises(graphlib.CycleError, match="nodes are in a cycle"):
        topological_order([{1}, {0}], [0, 0])


def costs(graph: Graph, kept: set[Value], early: set[int], read: list[Value], work: list[float],
          prices: dict[Value, int]) -> float:  # fmt: skip
    """What is kept, and what is computed again for what is read and not kept."""
    inside = {i for i in early if graph.nodes[i].op != CONSTANT}
    there = lambda v: v in kept or v.node not in inside  # noqa: E731
    again = ancestors(graph.nodes, read, there)
    return sum(prices[v] for v in kept) + sum(work[i] for i in again)


@pytest.mark.parametrize("seed", range(20))
def test_the_cheapest_cut_is_the_best_of_all_choices(seed: int) -> None:
    graph, rng = drawn(seed)
    early = set(sorted(some(rng, graph, 0.7))[:6])
    read = [value for value in graph.values() if value.node in early and rng.random() < 0.6]
    work = [INFINITE if node.op == INPUT else int(rng.integers(0, 9)) for node in graph.nodes]
    prices = {value: int(rng.integers(1, 9)) for value in graph.values()}
    kept = cheapest_cut(graph, early, read, work.__getitem__, prices.__getitem__)
    inside = [v for v in graph.values() if v.node in early and graph.nodes[v.node].op != CONSTANT]
    choices = [
        {v for bit, v in enumerate(inside) if number >> bit & 1}
        for number in range(1 << len(inside))
    ]
    best = min(costs(graph, choice, early, read, work, prices) for choice in choices)
    assert costs(graph, kept, early, read, work, prices) == best


def test_the_networkx_view_of_some_nodes() -> None:
    graph, _ = drawn(3)
    among = set(range(1, len(graph.nodes), 2))
    view, whole = graph.nx(among), graph.nx().subgraph(among)
    assert set(view.edges(keys=True)) == set(whole.edges(keys=True))
    assert set(view.nodes) == among


def test_a_long_chain_needs_no_recursion() -> None:
    g = graphc.GraphBuilder("chain")
    value = g.input("x", "f32[2]")
    for _ in range(20_000):
        value = graphc.ops.neg(value)
    graph = g.finish(value)
    everything = set(range(20_001))
    assert live_nodes(graph) == everything
    assert postorder(graph.nodes, [20_000], everything) == sorted(everything)
