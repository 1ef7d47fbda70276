"""In which order the groups of a graph run.

in : groups of nodes, the condensed graph acyclic
out: the same groups, each behind those it needs
"""

from __future__ import annotations

from graphc.ir.graph_queries import condensation, reachable, topological_order
from graphc.ir.nodes import Graph, Value
from graphc.schedule.groups import FusionGroup


def ordered(graph: Graph, groups: list[FusionGroup]) -> list[FusionGroup]:
    """A topological order in which memory is needed for a short time: of the groups that can run
    the one with the earliest node first, or on which such a one waits. So a weight's gradient and
    update, one group, run where the gradient is derived, not behind the whole backward; but behind
    the other readers of the weight, which is then updated in place."""
    owner = {identity: i for i, group in enumerate(groups) for identity in group.nodes}
    before = condensation(
        owner, [{*group.after, *(value.node for value in group.sources)} for group in groups]
    )
    behind: list[set[int]] = [set() for _ in groups]
    readers: dict[Value, list[int]] = {}
    for i, group in enumerate(groups):
        for j in before[i]:
            behind[j].add(i)
        for value in group.sources:
            readers.setdefault(value, []).append(i)
    for position, target in graph.aliases:
        update = owner.get(graph.outputs[position].node)
        if update is None:
            continue
        # Little runs behind an update: to search from it is to search little.
        later = reachable([update], behind.__getitem__)
        for i in readers.get(Value(target), ()):
            if i not in later:
                before[update].add(i)
                behind[i].add(update)
    urgent = [min(group.nodes) for group in groups]
    for i in reversed(topological_order(before, urgent)):
        for j in before[i]:
            urgent[j] = min(urgent[j], urgent[i])
    return [groups[i] for i in topological_order(before, urgent)]
