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

from collections.abc import Iterable, Mapping

from graphc.ir.graph_queries import reachable
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup
from graphc.ops.kinds.index_expr import flatten
from graphc.schedule.access import (
    ANCHORS,
    REDUCTIONS,
    Read,
    behind_reshape,
    coordinates,
    outer_axes,
    parts_of,
    reads,
)
from graphc.schedule.bodies import body_nodes, is_source, read_by, used_results
from graphc.schedule.groups import FusionGroup
from graphc.schedule.horizontal_fusion import fusable_reductions
from graphc.schedule.order import ordered
from graphc.schedule.output_layouts import layout_ends, store_destinations, stores_anywhere
from graphc.schedule.reachability import GroupReachability
from graphc.schedule.recompute_factor import only_picked, widens
from graphc.schedule.regions import carries

# Computing a node again costs its operations (an addition counts 1); reading it back costs a load
# and a store. Up to this many operations are computed again rather than kept.
RECOMPUTE_LIMIT = 4
# A row's elementwise part may be computed once more for each reduction over the row.
ROW_RECOMPUTE_LIMIT = 24
# Nodes of one kernel, those computed again included, and of one chain computed again: LLVM's time
# grows faster than the size of a function, and lowering goes down a chain by recursion.
GROUP_LIMIT = 160
CHAIN_LIMIT = 48


def fuse(
    graph: Graph, *, enabled: bool = True, before: Mapping[int, frozenset[int]] | None = None
) -> list[FusionGroup]:
    """The groups in an order in which they can run. With `enabled` false: a kernel per node.
    `before[node]` are the kept nodes (content checks) that must have run when `node` runs."""
    kept = _kept(graph, enabled)
    used = used_results(graph)
    groups = {i: _group(graph, i, used[i], kept, before or {}) for i in sorted(kept)}
    if enabled:
        _Merger(graph, groups).run()
    return ordered(graph, list({id(group): group for group in groups.values()}.values()))


def _kind(graph: Graph, identity: int) -> str:
    op = graph.nodes[identity].op
    return op if op in (INPUT, CONSTANT) else str(lookup(op).kind)


def _takes_epilogue(graph: Graph, identity: int) -> bool:
    """Whether a node's recipe computes elementwise work behind its result."""
    kind = _kind(graph, identity)
    if kind != "composite":
        return kind == "contract"
    return bool(lookup(graph.nodes[identity].op).epilogue)


def _kept(graph: Graph, enabled: bool) -> set[int]:
    """The nodes whose results lie in memory between kernels."""
    kinds = [_kind(graph, identity) for identity in range(len(graph.nodes))]
    compute = [i for i, kind in enumerate(kinds) if kind not in (INPUT, CONSTANT)]
    if not enabled:
        return set(compute)
    kept = {i for i in compute if kinds[i] in ANCHORS + REDUCTIONS}
    kept |= {output.node for output in graph.outputs if kinds[output.node] not in (INPUT, CONSTANT)}
    for identity in compute:
        if kinds[identity] == "region":  # its operands are buffers
            carry = carries(graph.nodes[identity])
            operands = graph.nodes[identity].operands
            sources = {v.node for v in operands[:carry]}
            sources |= {behind_reshape(graph, v).node for v in operands[carry:]}
            kept |= {node for node in sources if kinds[node] not in (INPUT, CONSTANT)}
        if kinds[identity] in ("contract", "composite"):
            kept |= _behind_movement(graph, graph.nodes[identity].operands, kinds)
    users = graph.users()
    for identity in compute:
        if kinds[identity] == "composite" and stores_anywhere(graph, identity):
            kept |= layout_ends(graph, identity, users)
    cost = [0] * len(graph.nodes)
    size = [0] * len(graph.nodes)
    picked = only_picked(graph, kinds, users)
    epilogue: set[int] = set()  # the only way from a contraction's result to its readers
    for identity in compute:
        node = graph.nodes[identity]
        if identity in kept:
            continue
        inlined = {v.node for v in node.operands if v.node not in kept}
        cost[identity] = getattr(lookup(node.op), "cost", 0) + sum(cost[i] for i in inlined)
        size[identity] = 1 + sum(size[i] for i in inlined)
        readers = {
            user for index in range(len(node.types)) for user in users[Value(identity, index)]
        }
        if size[identity] > CHAIN_LIMIT:
            kept.add(identity)
        elif kinds[identity] != "movement":
            if kinds[identity] == "elementwise" and any(
                set(users[v]) == {identity}
                and (_takes_epilogue(graph, v.node) or v.node in epilogue)
                for v in node.operands
            ):
                epilogue.add(identity)
            costly = cost[identity] > RECOMPUTE_LIMIT
            shared = len(readers) > 1
            widened = any(widens(graph, kinds, users, identity, i) for i in readers - picked)
            # An epilogue is kept instead of the contraction's result, so it costs nothing.
            if (costly and (shared or widened)) or (shared and identity in epilogue):
                kept.add(identity)
    return kept


def _behind_movement(graph: Graph, values: Iterable[Value], kinds: list[str]) -> set[int]:
    """The nodes behind index maps: what a contraction's or composite's operands are read from.
    Values that were joined lie in memory: a product reads an element often, and would pick its
    part."""

    def is_map(value: Value) -> bool:
        return kinds[value.node] == "movement" and graph.nodes[value.node].op != "concat"

    behind = reachable(values, lambda v: graph.nodes[v.node].operands if is_map(v) else ())
    return {v.node for v in behind if not is_map(v) and kinds[v.node] not in (INPUT, CONSTANT)}


def _group(
    graph: Graph, identity: int, used: list[int], kept: set[int],
    before: Mapping[int, frozenset[int]],
) -> FusionGroup:  # fmt: skip
    kind = _kind(graph, identity)
    values = [Value(identity, index) for index in used]
    shape = graph.type_of((parts_of(graph, values[0]) or values)[0]).shape
    group = FusionGroup([identity], shape, identity if kind in ANCHORS else None)
    group.reads = _reads_of(graph, values, kept)
    inside = body_nodes(graph, group.nodes, kept)
    group.sources = set(read_by(graph, inside, inside))
    group.size = len(inside)
    group.after = frozenset().union(*(before[i] for i in inside if i in before))
    return group


def _reads_of(graph: Graph, values: list[Value], kept: set[int]) -> list[Read]:
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


class _Merger:
    """Merges groups along their edges while the condensed graph stays acyclic."""

    def __init__(self, graph: Graph, groups: dict[int, FusionGroup]):
        self.graph = graph
        self.groups = groups
        self.reachability = GroupReachability(groups)

    def run(self) -> None:
        """Merge while a merge is allowed, along the edge first that saves the most bytes."""
        merged = True
        while merged:
            merged = False
            for source, identity in self._edges():
                producer, consumer = self.groups[source], self.groups[identity]
                if producer is not consumer and self._allowed(producer, consumer):
                    self._merge(producer, consumer)
                    merged = True
        self._fuse_horizontally()

    def _edges(self) -> list[tuple[int, int]]:
        """The kept nodes that another group reads, with a node of the reader: those first whose
        groups pass the most bytes from one to the other."""
        nbytes_of: dict[tuple[int, int], int] = {}
        for identity, consumer in self.groups.items():
            read: dict[int, int] = {}
            for value in consumer.sources:
                producer = self.groups.get(value.node)
                if producer is not None and producer is not consumer:
                    nbytes = self.graph.type_of(value).nbytes
                    read[id(producer)] = read.get(id(producer), 0) + nbytes
            for value in consumer.sources:
                if id(self.groups.get(value.node)) in read:
                    nbytes_of[value.node, identity] = read[id(self.groups[value.node])]
        return sorted(nbytes_of, key=lambda edge: (-nbytes_of[edge], edge))

    def _fuse_horizontally(self) -> None:
        for first, second in fusable_reductions(self.graph, self.groups):
            left, right = self.groups[first], self.groups[second]
            if left is not right and self._independent(left, right):
                self._merge(left, right)

    def _independent(self, left: FusionGroup, right: FusionGroup) -> bool:
        """Whether neither group needs the other, and both together are no more than a kernel."""
        if left.size + right.size > GROUP_LIMIT:
            return False
        return not (
            self.reachability.depends_on(left, right) or self.reachability.depends_on(right, left)
        )

    def _stores_elsewhere(self, producer: FusionGroup, consumer: FusionGroup) -> bool:
        """Whether the consumer is what the producer's anchor computes, in another order, and its
        recipe stores it so."""
        if producer.anchor is None or len(consumer.nodes) != 1:
            return False
        destinations = store_destinations(self.graph, Value(consumer.nodes[0]))
        return destinations is not None and {value.node for value in destinations} == {
            producer.anchor
        }

    def _allowed(self, producer: FusionGroup, consumer: FusionGroup) -> bool:
        if self._stores_elsewhere(producer, consumer):
            return not self.reachability.merge_creates_cycle(producer, consumer)
        if consumer.anchor is not None or producer.size + consumer.size > GROUP_LIMIT:
            return False
        if consumer.after & set(producer.nodes):
            return False  # a content check is over before what it protects starts
        if producer.anchor is not None and (
            not _takes_epilogue(self.graph, producer.anchor)
            or not self._stores_like(producer, consumer)
            or self._reduces(consumer)
            or any(parts_of(self.graph, Value(identity)) for identity in consumer.nodes)
        ):
            return False
        between = [read for read in consumer.reads if read.value.node in producer.nodes]
        if not between:
            return False  # no element is read (a slice next to the part): the domains say nothing
        if not all(self._fits(read, producer, consumer) for read in between):
            return False
        return not self.reachability.merge_creates_cycle(producer, consumer)

    def _stores_like(self, producer: FusionGroup, consumer: FusionGroup) -> bool:
        """Whether each value the consumer stores has the elements of the producer's results: their
        shape or, behind a product, that shape reshaped."""
        reshaped = _kind(self.graph, producer.anchor or 0) == "contract"
        return all(
            self.graph.type_of(value).shape == producer.domain
            or (
                reshaped
                and self.graph.type_of(behind_reshape(self.graph, value)).shape == producer.domain
            )
            for value in map(Value, consumer.nodes)
        )

    def _reduces(self, group: FusionGroup) -> bool:
        return any(_kind(self.graph, identity) in REDUCTIONS for identity in group.nodes)

    def _fits(self, read: Read, producer: FusionGroup, consumer: FusionGroup) -> bool:
        """Whether a read between the two is of an element the merged kernel computes there."""
        shape = self.graph.type_of(read.value).shape
        at = coordinates(consumer.domain)
        rank = len(shape)
        if read.guarded or (read.reduced and self._sums_columns(producer)):
            return False  # a sum of columns needs all rows, a few at a time, before the next one
        if producer.anchor is not None and producer.domain != consumer.domain:
            return flatten(read.index, shape) == flatten(at, consumer.domain)
        if read.reduced and read.index != at[:rank]:
            # A reduction over the rows of what the producer computes.
            rows = consumer.domain
            lead = read.index[: len(rows)] == at
            longer = len(producer.domain) > len(rows) and producer.domain[: len(rows)] == rows
            return (
                lead and longer and rows != () and shape == producer.domain
                and producer.anchor is None
                and self._row_cost(producer) <= ROW_RECOMPUTE_LIMIT
            )  # fmt: skip
        if read.index != at[:rank]:
            return False
        if producer.domain == consumer.domain:
            return True
        # Rows: the producer's results are read along the rows of the consumer.
        # A total ([]) is left alone: nothing could run concurrently.
        prefix = (
            producer.domain != () and consumer.domain[: len(producer.domain)] == producer.domain
        )
        longer = len(consumer.domain) > len(producer.domain)
        if prefix and longer:
            return self._rows_trail(producer)
        # An epilogue of a row group that already has the longer domain.
        return producer.domain[: len(consumer.domain)] == consumer.domain and rank == len(
            consumer.domain
        )

    def _rows_trail(self, group: FusionGroup) -> bool:
        """Whether the group's reductions run along contiguous rows, the last axes of what they
        reduce: only then a loop over rows reads them in order."""
        for identity in group.nodes:
            if _kind(self.graph, identity) in REDUCTIONS:
                node = self.graph.nodes[identity]
                rank = self.graph.type_of(node.operands[0]).rank
                axes = node.attribute("axes")
                if axes != tuple(range(rank - len(axes), rank)):
                    return False
        return True

    def _sums_columns(self, group: FusionGroup) -> bool:
        """Whether a reduction of the group is over leading axes alone."""
        nodes = [self.graph.nodes[i] for i in group.nodes if _kind(self.graph, i) in REDUCTIONS]
        reduced = [(self.graph.type_of(n.operands[0]).shape, n.attribute("axes")) for n in nodes]
        return any(axes and outer_axes(shape, axes) == axes for shape, axes in reduced)

    def _row_cost(self, group: FusionGroup) -> int:
        return sum(
            getattr(lookup(self.graph.nodes[identity].op), "cost", 0) for identity in group.nodes
        )

    def _merge(self, producer: FusionGroup, consumer: FusionGroup) -> None:
        longer = max(producer.domain, consumer.domain, key=len)
        if producer.anchor is not None:
            longer = producer.domain
        nodes = sorted(producer.nodes + consumer.nodes)
        merged = FusionGroup(nodes, longer, producer.anchor)
        merged.after = producer.after | consumer.after
        merged.size = producer.size + consumer.size
        inside = set(nodes)
        merged.reads = [r for r in producer.reads + consumer.reads if r.value.node not in inside]
        merged.sources = {v for v in producer.sources | consumer.sources if v.node not in inside}
        self.reachability.merge(producer, consumer)
        self.groups.update(dict.fromkeys(nodes, merged))
