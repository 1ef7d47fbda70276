"""Graphs made ready for scheduling: content checks as values, one used result per node.

in : an optimised graph of primitive ops
out: the same graph with, as further outputs, what the content checks test
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphc.ir.builder import GraphBuilder, Var, rebuilt
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Location, Node, Value
from graphc.ir.registry import lookup
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.op import Check as ContentCheck
from graphc.ops.op import raise_if_broken


@dataclass(frozen=True, slots=True)
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


def with_checks(graph: Graph) -> tuple[Graph, list[CheckValues]]:
    """Each content check of an op becomes reductions of the checked operand. Checks of constants
    are done here and raise here."""
    builder, inputs = rebuilt(graph)
    values: dict[Value, Var] = {}
    given = iter(inputs)
    extra: list[Var] = []
    made: dict[tuple[Value, bool], tuple[int, int]] = {}
    checks: dict[tuple[Value, int | None], CheckValues] = {}
    protected: dict[tuple[Value, int | None], list[int]] = {}
    for identity, node in enumerate(graph.nodes):
        if node.op == INPUT:
            values[Value(identity)] = next(given)
            continue
        with builder.at(node.location or Location("", 0)):
            if node.op == CONSTANT:
                values[Value(identity)] = builder.constant(node.attribute("value"))
                continue
            open_checks = _open_checks(graph, node)
            for check in open_checks:
                operand = node.operands[check.operand]
                key = (operand, check.bound is None)
                if key not in made:
                    first = len(graph.outputs) + len(extra)
                    extra += _tested(values[operand], check)
                    made[key] = (first, first + (check.bound is not None))
                message = f"{node.op}: {check.message}"
                checks.setdefault(
                    (operand, check.bound),
                    CheckValues(*made[key], check.bound, message, node.location, ()),
                )
            results = _copied(builder, node, values, graph, identity)
            for check in open_checks:
                behind = protected.setdefault((node.operands[check.operand], check.bound), [])
                behind += [result.value.node for result in results.values()]
        values.update(results)
    outputs = [values[output] for output in graph.outputs]
    found = [replace(check, protected=tuple(protected[key])) for key, check in checks.items()]
    return builder.finish(*outputs, *extra, aliases=graph.aliases), found


def _open_checks(graph: Graph, node: Node) -> list[ContentCheck]:
    """The checks of a node that must be made at run time."""
    types = tuple(graph.type_of(operand) for operand in node.operands)
    result = []
    for check in lookup(node.op).checks(types, dict(node.attributes)):
        operand = graph.nodes[node.operands[check.operand].node]
        if operand.op == CONSTANT:
            raise_if_broken(check, operand.attribute("value").array, node.op)
        elif types[check.operand].numel:
            result.append(check)
    return result


def _tested(operand: Var, check: ContentCheck) -> list[Var]:
    axes = tuple(range(len(operand.shape)))
    if check.bound is not None:
        return [r.min(operand, axes=axes), r.max(operand, axes=axes)]
    return [r.any(e.logical_not(e.cast(operand, dtype=_BOOL)), axes=axes)]


_BOOL = e.logical_not.dtypes[0]


def _copied(
    builder: GraphBuilder, node: Node, values: dict[Value, Var], graph: Graph, identity: int
) -> dict[Value, Var]:
    """The node in `builder`, once for each result that is used."""
    op, attributes = lookup(node.op), dict(node.attributes)
    operands = tuple(values[operand] for operand in node.operands)
    if len(node.types) == 1:
        return {Value(identity): builder.apply(op, operands, attributes, node.regions)[0]}
    used = {v for other in graph.nodes for v in other.operands if v.node == identity}
    used |= {v for v in graph.outputs if v.node == identity}
    return {
        value: builder.apply(op, operands, attributes, node.regions)[value.index]
        for value in sorted(used, key=lambda v: v.index)
    }
