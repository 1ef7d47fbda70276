"""In which order the groups of a graph run.

in : groups of nodes, the condensed graph acyclic
out: the same groups, each behind those it needs
"""

from __future__ import annotations

import graphlib
import heapq

from graphc.ir.nodes import Graph, Value
from graphc.schedule.groups import FusionGroup


def ordered(graph: Graph, groups: list[FusionGroup]) -> list[FusionGroup]:
    """A topological order in which memory is needed for a short time: of the groups that can run
    the one with the earliest node first, or on which such a one waits. So a weight's gradient and
    update, one group, run where the gradient is derived, not behind the whole backward; but behind
    the other readers of the weight, which is then updated in place."""
    owner = {identity: i for i, group in enumerate(groups) for identity in group.nodes}
    before: list[set[int]] = []  # of each group, those that run first
    readers: dict[Value, list[int]] = {}
    for i, group in enumerate(groups):
        sources = {owner[value.node] for value in group.sources if value.node in owner}
        before.append((sources | {owner[check] for check in group.after}) - {i})
        for value in group.sources:
            readers.setdefault(value, []).append(i)
    for position, target in graph.aliases:
        update = owner.get(graph.outputs[position].node)
        if update is None:
            continue
        for i in readers.get(Value(target), ()):
            if i != update and not _waits(before, i, update):
                before[update].add(i)
    urgent = [min(group.nodes) for group in groups]
    sorter = graphlib.TopologicalSorter(dict(enumerate(before)))
    for i in reversed(list(sorter.static_order())):
        for j in before[i]:
            urgent[j] = min(urgent[j], urgent[i])
    sorter = graphlib.TopologicalSorter(dict(enumerate(before)))
    sorter.prepare()
    order: list[FusionGroup] = []
    ready: list[tuple[int, int]] = []
    while sorter.is_active():
        for i in sorter.get_ready():
            heapq.heappush(ready, (urgent[i], i))
        _, i = heapq.heappop(ready)
        order.append(groups[i])
        sorter.done(i)
    return order


def _waits(before: list[set[int]], group: int, other: int) -> bool:
    """Whether `group` runs behind `other`, directly or not."""
    seen = work = {group}
    while work:
        work = set().union(*(before[i] for i in work)) - seen
        if other in work:
            return True
        seen = seen | work
    return False
