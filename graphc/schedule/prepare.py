"""Graphs made ready for scheduling: content checks as values, one used result per node.

in : an optimised graph of primitive ops
out: the same graph with, as further outputs, what the content checks test
"""

from __future__ import annotations

from collections.abc import Iterator

from graphc.errors import ContentError, GraphError
from graphc.ir.builder import GraphBuilder, Var, rebuilt
from graphc.ir.copying import copy_nodes
from graphc.ir.graph_queries import reachable
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Location, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.size_guards import equal
from graphc.ir.types import TensorType
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.kinds.op import ContentCheck as ContentCheck
from graphc.ops.kinds.op import check_text, raise_if_broken
from graphc.passes.recorder import Recorder, recorded
from graphc.records import record, replace
from graphc.schedule.bodies import used_results
from graphc.schedule.groups import FusionGroup
from graphc.schedule.output_layouts import propagate_output_layouts
from graphc.schedule.value_ranges import Ranges


@record
class CheckValues:
    """A content check: the output positions that hold the least and the greatest element (or,
    for `bound` None, twice whether any element is zero), and the nodes that must not run before
    the check has passed: they would read outside their operands."""

    least: int
    greatest: int
    bound: int | None
    message: str
    location: Location | None
    protected: tuple[int, ...]
    raises: type[GraphError] = ContentError


def prepare(
    graph: Graph, fusion: bool = True, recorder: Recorder | None = None
) -> tuple[Graph, list[CheckValues]]:
    """The graph that is scheduled, and its content checks: what results are stored in orders of
    their own, and what checks test is computed."""
    checks: list[CheckValues] = []

    def checked() -> Graph:
        result, added = with_checks(graph)
        checks.extend(added)
        return result

    if fusion:
        graph = recorded(recorder, "output_layouts", graph, lambda: propagate_output_layouts(graph))
    return recorded(recorder, "content_checks", graph, checked), checks


def with_checks(graph: Graph) -> tuple[Graph, list[CheckValues]]:
    """Each content check of an op becomes reductions of the checked operand. Checks of constants
    are done here and raise here."""
    builder, inputs = rebuilt(graph)
    ranges = Ranges(graph)
    used = iter(used_results(graph)[len(inputs) :])
    values = {Value(identity): var for identity, var in enumerate(inputs)}
    extra: list[Var] = []
    positions: dict[tuple[Value, bool], tuple[int, int]] = {}
    checks: dict[tuple[Value, int | None], CheckValues] = {}
    protected: dict[tuple[Value, int | None], list[int]] = {}

    def place(node: Node, operands: tuple[Var, ...]) -> tuple[Var, ...]:
        wanted = next(used)
        if node.op == CONSTANT:
            return builder.copied(node, operands)
        open_checks = _open_checks(graph, node, ranges)
        keys = [(_origin(graph, node.operands[c.operand]), c.bound) for c in open_checks]
        with builder.at(node.location):
            for check, (operand, bound) in zip(open_checks, keys, strict=True):
                test = (operand, bound is None)
                if test not in positions:
                    first = len(graph.outputs) + len(extra)
                    extra.extend(_tested(values[operand], check))
                    positions[test] = (first, first + (bound is not None))
                message = check_text(node.op, check.message)
                checks.setdefault(
                    (operand, bound),
                    CheckValues(*positions[test], bound, message, node.location, (), check.raises),
                )
        # Behind its checks: what is protected stands behind what protects it.
        results = _of_one_result(builder, node, operands, wanted)
        for key in keys:
            protected.setdefault(key, []).extend(result.value.node for result in results)
        return results

    copy_nodes(graph.nodes, range(len(inputs), len(graph.nodes)), values, place)
    outputs = [values[output] for output in graph.outputs]
    check_values = [
        replace(check, protected=tuple(protected[key])) for key, check in checks.items()
    ]
    return builder.finish(*outputs, *extra, aliases=graph.aliases), check_values


def checks_before(graph: Graph, checks: list[CheckValues]) -> dict[int, frozenset[int]]:
    """For each node behind content checks the nodes that compute what the checks test."""
    before: dict[int, frozenset[int]] = {}
    for check in checks:
        tested = frozenset(graph.outputs[p].node for p in (check.least, check.greatest))
        for node in check.protected:
            before[node] = before.get(node, frozenset()) | tested
    return before


def checks_first(
    graph: Graph, groups: list[FusionGroup], checks: list[CheckValues]
) -> list[FusionGroup]:
    """The groups reordered so that those a check depends on run before all others."""
    owner = {identity: group for group in groups for identity in group.nodes}
    roots = [
        owner[graph.outputs[position].node]
        for check in checks
        for position in (check.least, check.greatest)
        if graph.outputs[position].node in owner
    ]
    needed = reachable(
        roots, lambda group: [owner[v.node] for v in group.sources if v.node in owner]
    )
    return sorted(groups, key=lambda group: group not in needed)


_SAME_ELEMENTS = (
    "check_index", "check_all", "check_assertion", "reshape", "transpose", "broadcast", "saved",
)  # fmt: skip


def _origin(graph: Graph, value: Value) -> Value:
    """The value that has the same elements as `value`, so that a check is made once of both."""
    while graph.nodes[value.node].op in _SAME_ELEMENTS:
        value = graph.nodes[value.node].operands[0]
    return value


def _open_checks(graph: Graph, node: Node, ranges: Ranges) -> list[ContentCheck]:
    """The checks of a node that must be made at run time."""
    types = tuple(graph.type_of(operand) for operand in node.operands)
    result = []
    for check in lookup(node.op).checks(types, dict(node.attributes)):
        operand = graph.nodes[node.operands[check.operand].node]
        if operand.op == CONSTANT:
            raise_if_broken(check, operand.attribute("value").array, node.op)
        elif not _is_empty(types[check.operand]) and not _certain(check, node, ranges):
            result.append(check)
    return result


def certain_checks(graph: Graph) -> Iterator[tuple[int, str, str, tuple[int, int]]]:
    """The content checks that cannot fail, and are not made: node, op, message, and the range of
    the values."""
    ranges = Ranges(graph)
    for identity, node in enumerate(graph.nodes):
        if node.op in (INPUT, CONSTANT):
            continue
        types = tuple(graph.type_of(operand) for operand in node.operands)
        for check in lookup(node.op).checks(types, dict(node.attributes)):
            operand = node.operands[check.operand]
            computed = graph.nodes[operand.node].op != CONSTANT
            if computed and not _is_empty(types[check.operand]) and _certain(check, node, ranges):
                yield identity, node.op, check.message, ranges.of(operand)


def _is_empty(type: TensorType) -> bool:
    return any(equal(extent, 0) for extent in type.shape)


def _certain(check: ContentCheck, node: Node, ranges: Ranges) -> bool:
    """Whether a check cannot fail."""
    least, greatest = ranges.of(node.operands[check.operand])
    if check.bound is None:
        return least > 0 or greatest < 0
    return least >= 0 and greatest < check.bound


def _tested(operand: Var, check: ContentCheck) -> list[Var]:
    axes = tuple(range(len(operand.shape)))
    if check.bound is not None:
        return [r.min(operand, axes=axes), r.max(operand, axes=axes)]
    return [r.any(e.logical_not(e.cast(operand, dtype=_BOOL)), axes=axes)]


_BOOL = e.logical_not.dtypes[0]


def _of_one_result(
    builder: GraphBuilder, node: Node, operands: tuple[Var, ...], used: list[int]
) -> tuple[Var, ...]:
    """The node in `builder`, once for each result that is used: a kernel is built around one. The
    recipe of a composite gives several, and so does a loop or branch, or what Python computes."""
    if len(node.types) == 1 or lookup(node.op).kind in ("composite", "host", "region"):
        return builder.copied(node, operands)
    copies = {index: builder.copied(node, operands)[index] for index in used}
    # Of the other results nobody reads the copy.
    return tuple(copies.get(index, copies[used[0]]) for index in range(len(node.types)))
