"""Horizontal fusion: reductions that go over the same elements, in groups of their own.

in : a graph and the groups of fusion
out: pairs of groups that could be one kernel, and so read what they share once

The gradients of a normalisation's weight and bias are such: sum(g * n) and sum(g), over the same
axes. No edge leads from one to the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.schedule.access import REDUCTIONS, behind_reshape
from graphc.schedule.groups import FusionGroup

Form = tuple[Shape, Shape, tuple[int, ...]]


def fusable_reductions(
    graph: Graph, groups: Mapping[int, FusionGroup]
) -> Iterator[tuple[int, int]]:
    """Nodes of two groups of reductions of one form that read the same value of the shape they
    reduce, perhaps reshaped, or compute it."""
    readers: dict[tuple[Value, Form], list[int]] = {}
    for identity in sorted(groups):
        group = groups[identity]
        form = _form(graph, group)
        if form is None or group.nodes[0] != identity:
            continue
        shared = [read.value for read in group.reads if read.reduced]
        # Also what both compute on the way, as the windows that pooling takes maxima over.
        shared += [_operand(graph, i) for i in group.nodes if _reduces(graph, i)]
        for value in dict.fromkeys(behind_reshape(graph, value) for value in shared):
            if graph.type_of(value).numel == math.prod(form[1]):
                readers.setdefault((value, form), []).append(identity)
    for first, *others in readers.values():
        for other in others:
            yield first, other


def _form(graph: Graph, group: FusionGroup) -> Form | None:
    """Domain, shape of the operand, and axes of a group's reductions, where it stores only values
    of its domain and its reductions have one form. Totals are left alone, as in other merges."""
    if group.anchor is not None or group.domain == ():
        return None
    nodes = [graph.nodes[identity] for identity in group.nodes]
    reductions = [identity for identity in group.nodes if _reduces(graph, identity)]
    forms = {
        (graph.type_of(_operand(graph, i)).shape, graph.nodes[i].attribute("axes"))
        for i in reductions
    }
    if len(forms) != 1 or any(node.types[0].shape != group.domain for node in nodes):
        return None
    return (group.domain, *forms.pop())


def _reduces(graph: Graph, identity: int) -> bool:
    op = graph.nodes[identity].op
    return op not in (INPUT, CONSTANT) and str(lookup(op).kind) in REDUCTIONS


def _operand(graph: Graph, identity: int) -> Value:
    return graph.nodes[identity].operands[0]
