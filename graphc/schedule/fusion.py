"""Which nodes become one kernel.

in : a graph of primitive ops (composites expanded)
out: groups of nodes; the condensed graph, a node for each group, is acyclic

A kernel computes any element it is asked for, so a node may also be computed again inside several
kernels ("inlined"). Cheap nodes and index maps are; a node is kept in memory where computing it
again would cost more: contractions, reductions, and costly nodes with several readers. What is
kept starts a group of its own; groups are then merged along the edges between them:

- elementwise behind a contraction or reduction (an epilogue) or behind elementwise of one shape,
- rows: a group over [R] whose results are read along the rows of a group over [R, C], and a
  reduction to [R] of what a group over [R, C] computes, as in softmax,
- horizontally: reductions of one shape over the same axes that read the same value, as the
  gradients of a normalisation's weight and bias: it is read once,
- joins: a `concat` of parts of one shape and what computes the parts; its domain is that of a part,
  and each part is stored where it belongs.

A merge that would create a cycle is refused, by reachability on the condensed graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from graphc.ir.graph_queries import reachable
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.passes.dequantized import in_products
from graphc.schedule.access import (
    ANCHORS,
    REDUCTIONS,
    Read,
    behind_reshape,
    coordinates,
    parts_of,
    reads,
)
from graphc.schedule.bodies import body_nodes, is_source, read_by, used_results
from graphc.schedule.groups import FusionGroup
from graphc.schedule.merging import Merger, cost_of, kind_of, takes_epilogue
from graphc.schedule.order import ordered
from graphc.schedule.output_layouts import layout_ends, stores_anywhere
from graphc.schedule.read_once import read_once
from graphc.schedule.recompute_factor import only_picked, widens
from graphc.schedule.regions import carries

# Computing a node again costs its operations (an addition counts 1); reading it back costs a load
# and a store. Up to this many operations are computed again rather than kept.
RECOMPUTE_LIMIT = 4
# Nodes of one chain computed again: lowering goes down a chain by recursion.
CHAIN_LIMIT = 48

# Why a node is kept.
NO_FUSION = "without fusion each node has a kernel"
BUILT_AROUND = "a reduction, or what a kernel is built around"
OUTPUT = "an output of the graph"
LOOP_READS = "a loop or branch reads it from memory"
PYTHON_READS = "a function of Python reads it"
READ_OFTEN = "a product reads each element often"
STORED_SO = "the order in which a recipe stores its results"
LONG_CHAIN = f"a chain of {CHAIN_LIMIT} nodes computed again ends here"
COSTLY_SHARED = "several read it, and computing it again costs more than reading it back"
COSTLY_WIDENED = "its reader would compute each element several times"
SHARED_EPILOGUE = "several read it, and it is computed where a product's results lie in registers"


class Fusion:
    """The kernels of a graph. `groups` are in an order in which they can run; `kept` says of each
    node whose result lies in memory why it does; `refused` why what could be one kernel is two.

    With `enabled` false: a kernel per node. `before[node]` are the kept nodes (content checks) that
    must have run when `node` runs."""

    merger_of: type[Merger] = Merger

    def __init__(
        self, graph: Graph, *, enabled: bool = True,
        before: Mapping[int, frozenset[int]] | None = None,
    ):  # fmt: skip
        self.kept = self.kept_in(graph, enabled)
        used = used_results(graph)
        groups = {i: _group(graph, i, used[i], self.kept, before or {}) for i in sorted(self.kept)}
        self._merger = self.merger_of(graph, groups)
        if enabled:
            self._merger.run()
        self.groups = ordered(graph, list({id(group): group for group in groups.values()}.values()))

    def kept_in(self, graph: Graph, enabled: bool) -> dict[int, str]:
        return _kept(graph, enabled)

    def refused(self) -> list[tuple[int, int, str]]:
        """The edges that are left between groups: a node that one keeps, a node of the other, and
        why the two are not one."""
        return self._merger.refused()


def _kept(graph: Graph, enabled: bool) -> dict[int, str]:
    """The nodes whose results lie in memory between kernels, and why."""
    kinds = [kind_of(graph, identity) for identity in range(len(graph.nodes))]
    compute = [i for i, kind in enumerate(kinds) if kind not in (INPUT, CONSTANT)]
    if not enabled:
        return dict.fromkeys(compute, NO_FUSION)
    users = graph.users()
    dequantized = in_products(graph, users)
    unpacked = {node for matrix in dequantized.values() for node in matrix.nodes}
    kept = dict.fromkeys((i for i in compute if kinds[i] in ANCHORS + REDUCTIONS), BUILT_AROUND)
    _keep(kept, (v.node for v in graph.outputs if kinds[v.node] not in (INPUT, CONSTANT)), OUTPUT)
    for identity in compute:
        _keep_buffers(kept, graph, kinds, identity)
        if kinds[identity] in ("contract", "composite"):
            candidates = _behind_movement(graph, graph.nodes[identity].operands, kinds)
            candidates -= read_once(graph, identity, kinds, users)
            if identity in dequantized:
                candidates -= unpacked
            _keep(kept, candidates, f"{graph.nodes[identity].op} reads each element often")
    for identity in compute:
        if kinds[identity] == "composite" and stores_anywhere(graph, identity):
            candidates = layout_ends(graph, identity, users)
            _keep(kept, candidates, STORED_SO)
    cost = [0] * len(graph.nodes)
    size = [0] * len(graph.nodes)
    picked = only_picked(graph, kinds, users)
    epilogue: set[int] = set()  # the only way from a contraction's result to its readers
    for identity in compute:
        node = graph.nodes[identity]
        if identity in kept or identity in unpacked:
            continue
        inlined = {v.node for v in node.operands if v.node not in kept}
        cost[identity] = cost_of(graph, identity) + sum(cost[i] for i in inlined)
        size[identity] = 1 + sum(size[i] for i in inlined)
        readers = {
            user for index in range(len(node.types)) for user in users[Value(identity, index)]
        }
        if size[identity] > CHAIN_LIMIT:
            kept[identity] = LONG_CHAIN
        elif kinds[identity] != "movement":
            if kinds[identity] == "elementwise" and any(
                set(users[v]) == {identity}
                and (takes_epilogue(graph, v.node) or v.node in epilogue)
                for v in node.operands
            ):
                epilogue.add(identity)
            costly = cost[identity] > RECOMPUTE_LIMIT
            shared = len(readers) > 1
            widened = any(widens(graph, kinds, users, identity, i) for i in readers - picked)
            # An epilogue is kept instead of the contraction's result, so it costs nothing.
            if costly and (shared or widened):
                kept[identity] = COSTLY_SHARED if shared else COSTLY_WIDENED
            elif shared and identity in epilogue:
                kept[identity] = SHARED_EPILOGUE
    return kept


def _keep_buffers(kept: dict[int, str], graph: Graph, kinds: list[str], identity: int) -> None:
    """What a loop or Python reads lies in memory."""
    if kinds[identity] == "region":  # its operands are buffers
        carry = carries(graph.nodes[identity])
        operands = graph.nodes[identity].operands
        sources = {v.node for v in operands[:carry]}
        sources |= {behind_reshape(graph, v).node for v in operands[carry:]}
        candidates = {node for node in sources if kinds[node] not in (INPUT, CONSTANT)}
        _keep(kept, candidates, LOOP_READS)
    if kinds[identity] == "host":  # Python is handed arrays
        read = {v.node for v in graph.nodes[identity].operands}
        _keep(kept, (n for n in read if kinds[n] not in (INPUT, CONSTANT)), PYTHON_READS)


def _keep(kept: dict[int, str], nodes: Iterable[int], why: str) -> None:
    for node in nodes:
        kept.setdefault(node, why)


def _behind_movement(graph: Graph, values: Iterable[Value], kinds: list[str]) -> set[int]:
    """The nodes behind index maps: what a contraction's or composite's operands are read from.
    Values that were joined lie in memory: a product reads an element often, and would pick its
    part."""

    def is_map(value: Value) -> bool:
        return kinds[value.node] == "movement" and graph.nodes[value.node].op != "concat"

    behind = reachable(values, lambda v: graph.nodes[v.node].operands if is_map(v) else ())
    return {v.node for v in behind if not is_map(v) and kinds[v.node] not in (INPUT, CONSTANT)}


def _group(
    graph: Graph, identity: int, used: list[int], kept: Collection[int],
    before: Mapping[int, frozenset[int]],
) -> FusionGroup:  # fmt: skip
    kind = kind_of(graph, identity)
    values = [Value(identity, index) for index in used]
    shape = graph.type_of((parts_of(graph, values[0]) or values)[0]).shape
    group = FusionGroup([identity], shape, identity if kind in ANCHORS else None)
    group.reads = _reads_of(graph, values, kept)
    inside = body_nodes(graph, group.nodes, kept)
    group.sources = set(read_by(graph, inside, inside))
    group.size = len(inside)
    group.work = sum(cost_of(graph, i) for i in inside)
    group.after = frozenset().union(*(before[i] for i in inside if i in before))
    return group


def _reads_of(graph: Graph, values: list[Value], kept: Collection[int]) -> list[Read]:
    """What values read from memory, at the index of their domain."""
    element_reads: dict[Read, None] = {}

    def stops(value: Value) -> bool:
        return value.node in kept or is_source(graph, value)

    for value in values:
        for part in parts_of(graph, value) or (value,):
            at = coordinates(graph.type_of(part).shape)
            if part != value and stops(part):
                element_reads[Read(part, at, False, ())] = None
                continue
            element_reads.update(dict.fromkeys(reads(graph, part, at, stops)))
    return list(element_reads)
