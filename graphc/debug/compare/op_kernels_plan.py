"""A plan with a kernel for each op of the program, as eager mode has them.

in : a graph as it was traced
out: the graph of primitive ops that is scheduled, and its plan

What eager mode runs as one op is one kernel here, the definition of a composite optimised as it is
for a kernel of its own; a movement that is a view there is part of what reads it. So what sets this
plan apart from eager mode with native kernels is that it was recorded, and nothing else.

Nodes carry the number of the op they stem from in place of their line, through all passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphc.debug.verification.op_kernels import graph_of
from graphc.ir.copying import inlined, replayed
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Location, Node, Value, exact
from graphc.ir.registry import lookup
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.movement import Movement
from graphc.passes.layouts import Preferred
from graphc.passes.pipelines import optimize
from graphc.records import replace
from graphc.schedule.build import Scheduler
from graphc.schedule.fusion import Fusion
from graphc.schedule.groups import FusionGroup
from graphc.schedule.merging import Merger
from graphc.schedule.plan import Plan
from graphc.schedule.plan_verifier import verify_plan

COPIES = frozenset({"concat", "pad", "diagonal_embed", "unpack", "unwindows"})
"""Movements that eager mode cannot have as views."""
OWN_OP = "a result of an op of the program"
OTHER_OP = "another op of the program"


def plan_of_ops(
    graph: Graph, passes: bool, preferred: Preferred | None = None
) -> tuple[Graph, Plan]:
    """The scheduled graph and its plan, without planned memory. `passes`: after those of level
    *exact*, else after none."""
    tagged = _tagged(graph, _Numbers())
    primitive = optimize(tagged, "exact", preferred=preferred) if passes else _expanded(tagged, {})
    plan = _OpScheduler(primitive, fusion=False, plan_memory=False).plan()
    verify_plan(plan)
    return primitive, plan


def is_view(node: Node) -> bool:
    """Whether eager mode has a node's result without computing anything."""
    return isinstance(lookup(node.op), Movement) and node.op not in COPIES


# -- ops by number ---------------------------------------------------------------------------------


class _Numbers:
    """Counts ops, those inside of loops too."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


def _tagged(graph: Graph, numbers: _Numbers) -> Graph:
    """The graph whose locations are the numbers of its ops."""
    nodes = tuple(
        replace(
            node,
            location=Location("op", numbers.next()),
            regions=tuple(_tagged(region, numbers) for region in node.regions),
        )
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def op_number(node: Node) -> int:
    """The op of the program that a node stems from; 0 for what checks test."""
    return node.location.line if node.location is not None else 0


def _expanded(graph: Graph, known: dict[Any, Graph]) -> Graph:
    """The graph with each composite replaced by its optimised definition."""
    draft = Draft()

    def visit(node: Node, operands: Values) -> Values:
        regions = tuple(_expanded(region, known) for region in node.regions)
        node = replace(node, regions=regions)
        op = None if node.op == CONSTANT else lookup(node.op)
        if not isinstance(op, Composite):
            return draft.add(moved(node, operands))
        types = tuple(draft.type(value) for value in operands)
        key = (node.op, types, exact(node.attributes))
        if key not in known:
            known[key] = optimize(graph_of(node, types), "exact")
        return inlined(known[key], draft, operands)

    return replayed(graph, draft, visit)


# -- kernels ---------------------------------------------------------------------------------------


class _OpMerger(Merger):
    """Merges within an op alone."""

    def _refusal(self, producer: FusionGroup, consumer: FusionGroup) -> str | None:
        if not self._of_one_op(producer, consumer):
            return OTHER_OP
        return super()._refusal(producer, consumer)

    def _independent(self, left: FusionGroup, right: FusionGroup) -> bool:
        return self._of_one_op(left, right) and super()._independent(left, right)

    def _of_one_op(self, one: FusionGroup, other: FusionGroup) -> bool:
        first, second = (op_number(self.graph.nodes[group.nodes[0]]) for group in (one, other))
        return first == second


class _OpFusion(Fusion):
    """Kernels of ops: what an op hands to others is kept, but for views."""

    merger_of = _OpMerger

    def __init__(
        self, graph: Graph, *, enabled: bool = True,
        before: Mapping[int, frozenset[int]] | None = None,
    ):  # fmt: skip
        super().__init__(graph, enabled=True, before=before)

    def kept_in(self, graph: Graph, enabled: bool) -> dict[int, str]:
        return super().kept_in(graph, True) | dict.fromkeys(_handed_on(graph), OWN_OP)


def _handed_on(graph: Graph) -> set[int]:
    """The nodes whose results another op reads, straight or through views."""
    positions: set[int] = set()
    for node in graph.nodes:
        if node.op in (INPUT, CONSTANT) or is_view(node):
            continue
        for operand in node.operands:
            source = _behind_views(graph, operand)
            source_node = graph.nodes[source.node]
            if source_node.op not in (INPUT, CONSTANT) and op_number(source_node) != op_number(
                node
            ):
                positions.add(source.node)
    return positions


def _behind_views(graph: Graph, value: Value) -> Value:
    """What a value is a view of: the op that is no view, or an input."""
    node = graph.nodes[value.node]
    while node.op not in (INPUT, CONSTANT) and is_view(node):
        value = node.operands[0]
        node = graph.nodes[value.node]
    return value


class _OpScheduler(Scheduler):
    fusion_of = _OpFusion
