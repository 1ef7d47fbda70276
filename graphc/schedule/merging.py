"""Which groups of nodes become one kernel, and why others do not.

in : a graph, and a group for each kept node
out: the groups, merged along the edges between them while the condensed graph stays acyclic; for
     each edge that is left a reason
"""

from __future__ import annotations

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup
from graphc.ir.size_guards import typical
from graphc.ops.kinds.index_expr import flatten
from graphc.schedule.access import (
    REDUCTIONS,
    Read,
    behind_reshape,
    coordinates,
    outer_axes,
    parts_of,
)
from graphc.schedule.groups import FusionGroup
from graphc.schedule.horizontal_fusion import fusable_reductions
from graphc.schedule.output_layouts import store_destinations
from graphc.schedule.reachability import GroupReachability

# A row's elementwise part may be computed once more for each reduction over the row.
ROW_RECOMPUTE_LIMIT = 24
# Nodes of one kernel, those computed again included: LLVM's time grows faster than the size of a
# function.
GROUP_LIMIT = 160
# Operations for an element in one kernel where both of two groups have many: a sine is a hundred
# instructions, and from a thousand on LLVM takes twice the time for each. Reading a value back
# costs little beside them.
WORK_LIMIT = 200
MUCH_WORK = 10

# Why two groups stay two kernels.
OWN_ANCHOR = "the reader has a product, scan, sort or loop of its own"
TOO_MANY = f"together more than {GROUP_LIMIT} nodes"
TOO_MUCH_WORK = f"together more than {WORK_LIMIT} operations for an element"
CHECK_FIRST = "a content check must be over before the reader starts"
NO_EPILOGUE = "the recipe of what makes it computes nothing behind its results"
OTHER_RESULTS = "what the reader stores has not the elements of the product's results"
REDUCES_BEHIND = "the reader reduces what a product makes"
JOINS_BEHIND = "the reader joins it with other parts"
NOT_READ = "the reader reads none of its elements"
GUARDED = "read behind a bound, as in padding and windows"
SUMS_COLUMNS = "sums of columns need all rows first"
OTHER_ORDER = "read in another order, or over another shape, than it is made"
COSTLY_ROWS = "the reader reduces rows that would be computed anew for each reduction"
NOT_ALONG_ROWS = "it reduces along other axes than the reader's rows"
CYCLE = "something else stands between them, and would depend on itself"
LATER_ALLOWED = "allowed only since other reductions became one kernel"


def kind_of(graph: Graph, identity: int) -> str:
    op = graph.nodes[identity].op
    return op if op in (INPUT, CONSTANT) else str(lookup(op).kind)


def cost_of(graph: Graph, identity: int) -> int:
    """Operations for an element of a node, in additions; 0 for what is no elementwise work."""
    op = graph.nodes[identity].op
    return 0 if op in (INPUT, CONSTANT) else int(getattr(lookup(op), "cost", 0))


def takes_epilogue(graph: Graph, identity: int) -> bool:
    """Whether a node's recipe computes elementwise work behind its result."""
    kind = kind_of(graph, identity)
    if kind != "composite":
        return kind == "contract"
    return bool(lookup(graph.nodes[identity].op).epilogue)


class Merger:
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
                if producer is not consumer and self._refusal(producer, consumer) is None:
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
                    nbytes = typical(self.graph.type_of(value).nbytes)
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

    def refused(self) -> list[tuple[int, int, str]]:
        """The edges between groups that are left, each pair of groups once, and why."""
        reasons: dict[tuple[int, int], tuple[int, int, str]] = {}
        for source, identity in self._edges():
            producer, consumer = self.groups[source], self.groups[identity]
            pair = (id(producer), id(consumer))
            if producer is not consumer and pair not in reasons:
                why = self._refusal(producer, consumer) or LATER_ALLOWED
                reasons[pair] = (source, identity, why)
        return list(reasons.values())

    def _refusal(self, producer: FusionGroup, consumer: FusionGroup) -> str | None:
        """Why two groups are not one kernel; None where they may be."""
        if self._stores_elsewhere(producer, consumer):
            return CYCLE if self.reachability.merge_creates_cycle(producer, consumer) else None
        if consumer.anchor is not None:
            return OWN_ANCHOR
        if producer.size + consumer.size > GROUP_LIMIT:
            return TOO_MANY
        work = min(producer.work, consumer.work), producer.work + consumer.work
        if work[0] >= MUCH_WORK and work[1] > WORK_LIMIT:
            return TOO_MUCH_WORK
        if consumer.after & set(producer.nodes):
            return CHECK_FIRST
        if producer.anchor is not None:
            if not takes_epilogue(self.graph, producer.anchor):
                return NO_EPILOGUE
            if not self._stores_like(producer, consumer):
                return OTHER_RESULTS
            if self._reduces(consumer):
                return REDUCES_BEHIND
            if any(parts_of(self.graph, Value(identity)) for identity in consumer.nodes):
                return JOINS_BEHIND
        between = [read for read in consumer.reads if read.value.node in producer.nodes]
        if not between:
            return NOT_READ  # a slice next to the part: the domains say nothing
        for read in between:
            misfit = self._misfit(read, producer, consumer)
            if misfit is not None:
                return misfit
        return CYCLE if self.reachability.merge_creates_cycle(producer, consumer) else None

    def _stores_like(self, producer: FusionGroup, consumer: FusionGroup) -> bool:
        """Whether each value the consumer stores has the elements of the producer's results: their
        shape or, behind a product, that shape reshaped."""
        reshaped = kind_of(self.graph, producer.anchor or 0) == "contract"
        return all(
            self.graph.type_of(value).shape == producer.domain
            or (
                reshaped
                and self.graph.type_of(behind_reshape(self.graph, value)).shape == producer.domain
            )
            for value in map(Value, consumer.nodes)
        )

    def _reduces(self, group: FusionGroup) -> bool:
        return any(kind_of(self.graph, identity) in REDUCTIONS for identity in group.nodes)

    def _misfit(self, read: Read, producer: FusionGroup, consumer: FusionGroup) -> str | None:
        """Why a read between the two is not of an element the merged kernel computes there."""
        shape = self.graph.type_of(read.value).shape
        at = coordinates(consumer.domain)
        rank = len(shape)
        if read.guarded:
            return GUARDED
        if read.reduced and self._sums_columns(producer):
            return SUMS_COLUMNS  # it needs all rows, a few at a time, before the next one
        if producer.anchor is not None and producer.domain != consumer.domain:
            same = flatten(read.index, shape) == flatten(at, consumer.domain)
            return None if same else OTHER_ORDER
        if read.reduced and read.index != at[:rank]:
            # A reduction over the rows of what the producer computes.
            rows = consumer.domain
            lead = read.index[: len(rows)] == at
            longer = len(producer.domain) > len(rows) and producer.domain[: len(rows)] == rows
            of_rows = lead and longer and rows != () and shape == producer.domain
            if not of_rows or producer.anchor is not None:
                return OTHER_ORDER
            return COSTLY_ROWS if self._row_cost(producer) > ROW_RECOMPUTE_LIMIT else None
        if read.index != at[:rank]:
            return OTHER_ORDER
        if producer.domain == consumer.domain:
            return None
        # Rows: the producer's results are read along the rows of the consumer.
        # A total ([]) is left alone: nothing could run concurrently.
        prefix = (
            producer.domain != () and consumer.domain[: len(producer.domain)] == producer.domain
        )
        longer = len(consumer.domain) > len(producer.domain)
        if prefix and longer:
            return None if self._rows_trail(producer) else NOT_ALONG_ROWS
        # An epilogue of a row group that already has the longer domain.
        prefix = producer.domain[: len(consumer.domain)] == consumer.domain
        return None if prefix and rank == len(consumer.domain) else OTHER_ORDER

    def _rows_trail(self, group: FusionGroup) -> bool:
        """Whether the group's reductions run along contiguous rows, the last axes of what they
        reduce: only then a loop over rows reads them in order."""
        for identity in group.nodes:
            if kind_of(self.graph, identity) in REDUCTIONS:
                node = self.graph.nodes[identity]
                rank = self.graph.type_of(node.operands[0]).rank
                axes = node.attribute("axes")
                if axes != tuple(range(rank - len(axes), rank)):
                    return False
        return True

    def _sums_columns(self, group: FusionGroup) -> bool:
        """Whether a reduction of the group is over leading axes alone."""
        nodes = [self.graph.nodes[i] for i in group.nodes if kind_of(self.graph, i) in REDUCTIONS]
        reduced = [(self.graph.type_of(n.operands[0]).shape, n.attribute("axes")) for n in nodes]
        return any(axes and outer_axes(shape, axes) == axes for shape, axes in reduced)

    def _row_cost(self, group: FusionGroup) -> int:
        return sum(cost_of(self.graph, identity) for identity in group.nodes)

    def _merge(self, producer: FusionGroup, consumer: FusionGroup) -> None:
        longer = max(producer.domain, consumer.domain, key=len)
        if producer.anchor is not None:
            longer = producer.domain
        nodes = sorted(producer.nodes + consumer.nodes)
        merged = FusionGroup(nodes, longer, producer.anchor)
        merged.after = producer.after | consumer.after
        merged.size = producer.size + consumer.size
        merged.work = producer.work + consumer.work
        inside = set(nodes)
        merged.reads = [r for r in producer.reads + consumer.reads if r.value.node not in inside]
        merged.sources = {v for v in producer.sources | consumer.sources if v.node not in inside}
        self.reachability.merge(producer, consumer)
        self.groups.update(dict.fromkeys(nodes, merged))
