"""Products with one matrix, as one product of all their rows (XLA's dot merger).

in : a graph in normal form in which several products have the same right operand (a layer that is
     applied to the shares of a batch, to several inputs, or to each step of a sequence)
out: the graph with one product of their left operands, one behind another, of which each takes its
     rows: the matrix is read once; in normal form again

Rows do not depend on one another, so every bit stays. Merged are products that are equally far from
the inputs: none of them depends on another, and no two merged products do on each other both ways.
What is put together and cut again has to be little beside the matrix that is not read again, and
that has to be as large as a core's own cache: from there it is read as fast as it is multiplied
with a few rows.

Gradients by the input of convolutions with one weight are merged too, where each has few images of
few channels: images run along vectors on small planes, and one vector of them with few rows leaves
most of the registers, and half of what the core can do, unused.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from graphc.ir.copying import copy_nodes
from graphc.ir.dims import symbols_in
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.graph_queries import live_nodes
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.passes.canonicalize import canonicalize

GAIN = 4
"""Elements of the matrix that are not read again, for each that is put together or cut."""

OWN_CACHE = 1 << 20
"""Bytes of a core's own cache, about."""

FEW_IMAGES = 16
FEW_CHANNELS = 12
SMALL_PLANE = 256
"""Below this many images and channels, and on planes of at most so many places, a gradient by the
input fills no register tile."""
MOVED = 64
"""Products such a gradient has for each element that is put together or cut."""


def merge_products(graph: Graph, own_cache: int = OWN_CACHE) -> Graph:
    """Make products with the same right operand one, where that has `own_cache` bytes at least, and
    gradients by the input of convolutions that have few images each.

    %1 = matmul(%a, %w) : f32[2,64]  =>   %1 = concat(%a, %b) axis=0 : f32[5,64]
    %2 = matmul(%b, %w) : f32[3,64]       %2 = matmul(%1, %w) : f32[5,64]
                                          %3 = slice(%2) size=[2,64] start=[0,0] step=[1,1] : …
                                          %4 = slice(%2) size=[3,64] start=[2,0] step=[1,1] : …
    """
    groups = _groups(graph, own_cache)
    order = _order(graph, groups) if groups else None
    if order is None:
        return graph
    group_of = {member: group for group in groups for member in group}
    draft, values, positions = Draft(), dict[Value, Value](), iter(order)
    products: dict[int, Value] = {}
    starts: dict[int, int] = {}
    for group in groups:
        row = 0
        for member in group:
            starts[member] = row
            row += graph.nodes[member].types[0].shape[0]

    def place(node: Node, operands: Values) -> Values:
        identity = next(positions)
        group = group_of.get(identity)
        if group is None:
            return draft.add(moved(node, operands))
        draft.location = node.location
        if group[0] not in products:
            lefts = [values[graph.nodes[member].operands[0]] for member in group]
            whole = _only(draft, draft.make("concat", *lefts, axis=0))
            product = draft.make(node.op, whole, operands[1], **dict(node.attributes))
            products[group[0]] = _only(draft, product)
        size = node.types[0].shape
        start, step = (starts[identity], *(0,) * (len(size) - 1)), (1,) * len(size)
        return draft.add(draft.make("slice", products[group[0]], start=start, size=size, step=step))

    copy_nodes(graph.nodes, order, values, place)
    outputs = [values[value] for value in graph.outputs]
    return canonicalize(draft.graph(graph.name, outputs, graph.aliases))


def _only(draft: Draft, node: Node) -> Value:
    (value,) = draft.add(node)
    return value


def _groups(graph: Graph, own_cache: int) -> list[tuple[int, ...]]:
    """The products that become one, each in the order of the graph."""
    depths: list[int] = []
    live = live_nodes(graph)
    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for identity, node in enumerate(graph.nodes):
        depth = 1 + max((depths[operand.node] for operand in node.operands), default=0)
        depths.append(depth)
        if identity in live and (node.op == "conv_input_grad" or _is_product(node)):
            alike[node.op, node.operands[1], node.attributes, depth].append(identity)
    return [tuple(members) for members in alike.values() if _pays(graph, members, own_cache)]


def _is_product(node: Node) -> bool:
    return node.op == "matmul" and node.types[0].rank == 2


def _pays(graph: Graph, members: Sequence[int], own_cache: int) -> bool:
    if len(members) < 2:
        return False
    if _is_product(graph.nodes[members[0]]):
        return _reads_less(graph, members, own_cache)
    return all(_fills_no_tile(graph, graph.nodes[member]) for member in members)


def _fills_no_tile(graph: Graph, node: Node) -> bool:
    """Whether a convolution's gradient by the input leaves most of the registers unused, and has
    many products for each element that is moved."""
    gradient, weight = (graph.type_of(operand) for operand in node.operands)
    images, channels, *plane = node.types[0].shape
    if symbols_in(*node.types[0].shape, *gradient.shape) or node.attribute("groups") != 1:
        return False
    few = images < FEW_IMAGES and channels < FEW_CHANNELS and math.prod(plane) <= SMALL_PLANE
    taps = math.prod(weight.shape[2:])
    products = gradient.numel * channels * taps
    moved = gradient.numel + node.types[0].numel
    return few and 0 < moved * MOVED <= products


def _reads_less(graph: Graph, members: Sequence[int], own_cache: int) -> bool:
    """Whether what is read less is not in the cache, and much more than what is moved."""
    matrix = graph.type_of(graph.nodes[members[0]].operands[1])
    depth, columns = matrix.shape
    rows = [graph.nodes[member].types[0].shape[0] for member in members]
    if symbols_in(depth, columns, *rows) or matrix.nbytes < own_cache:
        return False
    moved = sum(rows) * (depth + columns)
    return 0 < moved * GAIN <= (len(members) - 1) * depth * columns


def _order(graph: Graph, groups: Sequence[tuple[int, ...]]) -> list[int] | None:
    """Nodes in an order near to the graph's in which all that a group reads is ahead of it; None
    where that would change the order of what is done outside of the graph."""
    import networkx as nx

    before = nx.DiGraph()
    before.add_nodes_from(range(len(graph.nodes)))
    before.add_edges_from(
        (operand.node, identity)
        for identity, node in enumerate(graph.nodes)
        for operand in node.operands
    )
    place = {identity: identity for identity in range(len(graph.nodes))}
    for number, group in enumerate(groups, len(graph.nodes)):
        # A node of its own between what a group reads and its members, for few edges.
        place[number] = group[0]
        for member in group:
            before.add_edges_from(
                (operand.node, number) for operand in graph.nodes[member].operands
            )
            before.add_edge(number, member)
    outside = [
        identity
        for identity, node in enumerate(graph.nodes)
        if node.op not in (INPUT, CONSTANT) and lookup(node.op).kind == "host"
    ]
    nx.add_path(before, outside)
    if not nx.is_directed_acyclic_graph(before):
        return None
    order = nx.lexicographical_topological_sort(before, key=place.__getitem__)
    return [identity for identity in order if identity < len(graph.nodes)]
