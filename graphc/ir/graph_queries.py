"""What is asked about the paths of a graph, each question in one place.

in : the nodes of a graph, and where to begin
out: sets and orders of nodes, and the cheapest cut; nothing here changes a graph

A minimum cut is networkx's. The others are searches of a few lines that every compile makes. They
are written here: networkx takes 0.12 s to import, and its view of 10,000 nodes 120 ms to build,
much more than they do. Tests hold them against networkx; docs/graph_questions.md says who asks.
"""

from __future__ import annotations

import graphlib
import heapq
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import TypeVar

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.types import TensorType
from graphc.system import IMPORTING

K = TypeVar("K", bound=Hashable)


def reachable(roots: Iterable[K], following: Callable[[K], Iterable[K]]) -> set[K]:
    """`roots`, and all that a path of any relation leads to from them."""
    reached: set[K] = set()
    work = list(roots)
    while work:
        item = work.pop()
        if item not in reached:
            reached.add(item)
            work += following(item)
    return reached


# Of 10,000 nodes: 6 ms; `networkx.ancestors` 7 ms on the view.
def ancestors(
    nodes: Sequence[Node], values: Iterable[Value], known: Callable[[Value], bool] | None = None
) -> set[int]:
    """The nodes that `values` depend on, those that make them included. What is `known` needs
    none. The operands of a node stand before it, so sorted they are in an order to run."""
    needed: set[int] = set()
    work = [value.node for value in values if known is None or not known(value)]
    while work:
        identity = work.pop()
        if identity not in needed:
            needed.add(identity)
            operands = nodes[identity].operands
            work += [v.node for v in operands if known is None or not known(v)]
    return needed


def live_nodes(graph: Graph) -> set[int]:
    """The nodes that an output depends on."""
    return ancestors(graph.nodes, graph.outputs)


# Of 10,000 nodes: 10 ms; `networkx.descendants` 9 ms on the view, of nodes instead of values.
def descendants(
    graph: Graph, roots: Iterable[Value], counts: Callable[[TensorType], bool] | None = None
) -> set[Value]:
    """The values that depend on `roots`, and those: only along values whose type `counts`."""
    reached = set(roots)
    for identity, node in enumerate(graph.nodes):
        if not reached.isdisjoint(node.operands):
            reached.update(
                Value(identity, index)
                for index, type in enumerate(node.types)
                if counts is None or counts(type)
            )
    return reached


def determined_by(graph: Graph, inputs: Set[int], admits: Callable[[Node], bool]) -> set[int]:
    """These inputs, and the nodes that depend on them and constants alone, through nodes that
    `admits` lets pass."""
    determined = set(inputs)
    constant: set[int] = set()  # what depends on no input at all
    for identity, node in enumerate(graph.nodes):
        if node.op == INPUT:
            continue
        sources = {v.node for v in node.operands} - constant
        if node.op == CONSTANT or (not sources and admits(node)):
            constant.add(identity)
        elif sources and sources <= determined and admits(node):
            determined.add(identity)
    return determined


# Of 10,000 nodes: 9 ms; `networkx.dfs_postorder_nodes` 12 ms on a view.
def postorder(nodes: Sequence[Node], roots: Iterable[int], inside: Set[int]) -> list[int]:
    """The nodes `inside` as a depth-first walk from the roots, in order, leaves them: each behind
    its operands, and those from left to right."""
    order: dict[int, None] = {}
    work = [(identity, False) for identity in reversed(list(roots))]
    while work:
        identity, left = work.pop()
        if left:
            order.setdefault(identity)
        elif identity in inside and identity not in order:
            work.append((identity, True))
            work += [(operand.node, False) for operand in reversed(nodes[identity].operands)]
    return list(order)


# Of 2,000 nodes in groups of 4: 0.4 ms; `networkx.quotient_graph` 11 s, as it tries all pairs.
def condensation(owner: Mapping[int, int], needs: Iterable[Iterable[int]]) -> list[set[int]]:
    """The graph of groups of nodes: of each group, the others that it needs. `owner` gives the
    group of each node that is in one, `needs` the nodes that each group reads."""
    return [
        {owner[node] for node in read if node in owner} - {group}
        for group, read in enumerate(needs)
    ]


# Of 10,000 items with two before each: 60 ms; `networkx.lexicographical_topological_sort` 54 ms on
# a view.
def topological_order(before: Sequence[Set[int]], priority: Sequence[int]) -> list[int]:
    """The positions in `before`, each behind those it lists: of what can come next the one of the
    least priority, of equal ones the first. Raises graphlib.CycleError."""
    sorter = graphlib.TopologicalSorter(dict(enumerate(before)))
    sorter.prepare()
    order: list[int] = []
    ready: list[tuple[int, int]] = []
    while sorter.is_active():
        for item in sorter.get_ready():
            heapq.heappush(ready, (priority[item], item))
        _, item = heapq.heappop(ready)
        order.append(item)
        sorter.done(item)
    return order


def cheapest_cut(
    graph: Graph, early: Set[int], read: Iterable[Value],
    work: Callable[[int], float], price: Callable[[Value], int],
) -> set[Value]:  # fmt: skip
    """The values of `early` nodes to keep, so that what is `read` is kept or can be computed again
    from what is: a minimum cut. To compute a node again costs its `work` (infinite: it cannot be),
    to keep a value its `price`. Constants and what is not early are there anyway."""
    with IMPORTING:
        import networkx

    network = networkx.DiGraph()
    network.add_nodes_from(("source", "sink"))
    inside = {identity for identity in early if graph.nodes[identity].op != CONSTANT}
    # Of a node on the source's side results can be kept; one on the sink's side is computed again,
    # which costs the edge from the source and needs all operands there.
    for identity in inside:
        cost = work(identity)
        capacity = {} if math.isinf(cost) else {"capacity": int(cost)}
        network.add_edge("source", identity, **capacity)
        for index in range(len(graph.nodes[identity].types)):
            value = Value(identity, index)
            network.add_edge(identity, value, capacity=price(value))
    network.add_edges_from(
        (Value(maker, index), reader)
        for maker, reader, (_, index) in graph.nx(inside).edges(keys=True)
    )
    network.add_edges_from((value, "sink") for value in read if value.node in inside)
    _, (reached, _) = networkx.minimum_cut(network, "source", "sink")
    return {
        value
        for identity in inside & reached
        for value in network.successors(identity)
        if value not in reached
    }
