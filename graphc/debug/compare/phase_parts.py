"""A training step as the calls it would be by hand: forward, backward, update.

in : the graph of a whole step, whose nodes know their phases
out: a graph for each phase that there is, in order; each takes inputs of the whole and what parts
     before it made

A node belongs to its phase, or to a later one if it reads what is made there. Constants and views
are made where they are read. An input is updated by the last part that reads what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from graphc.debug.compare.op_kernels_plan import is_view
from graphc.ir.copying import extract
from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import CONSTANT, INPUT, PHASES, Graph, Node, Value
from graphc.records import record

Run = Callable[[list[Any]], tuple[Any, ...]]


@record
class PhasePart:
    """A part: its graph, what its inputs are and what its outputs are, by values of the whole."""

    graph: Graph
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    positions: tuple[int, ...]
    """Which outputs of the whole are among its outputs, first ones first; the rest is for later
    parts."""


def phase_parts(graph: Graph) -> list[PhasePart]:
    """The parts of a graph, one where there is one phase."""
    parts = _parts_of_nodes(graph)
    assigned = _parts_of_outputs(graph, parts)
    numbers = sorted({*(parts[i] for i in range(len(parts)) if _counts(graph.nodes[i])), *assigned})
    cut: list[PhasePart] = []
    wanted: set[Value] = set()
    for number in reversed(numbers):
        positions = [i for i, part in enumerate(assigned) if part == number]
        own = [graph.outputs[position] for position in positions]
        handed = sorted(v for v in wanted if parts[v.node] == number and v not in own)
        part = _part(graph, parts, number, positions, [*own, *handed])
        wanted |= {v for v in part.inputs if graph.nodes[v.node].op != INPUT}
        cut.insert(0, part)
    return cut


def _counts(node: Node) -> bool:
    return node.op not in (INPUT, CONSTANT) and not is_view(node)


def _parts_of_nodes(graph: Graph) -> list[int]:
    """The phase of each node by number; of inputs and constants the first."""
    parts: list[int] = []
    for node in graph.nodes:
        before = max((parts[v.node] for v in node.operands), default=0)
        if node.op in (INPUT, CONSTANT):
            parts.append(0)
            continue
        own = PHASES.index(node.location.phase) if node.location is not None else 0
        parts.append(before if is_view(node) else max(before, own))
    return parts


def _parts_of_outputs(graph: Graph, parts: Sequence[int]) -> list[int]:
    """The part that hands out each output: one that updates an input, the last that reads that."""
    last: dict[int, int] = {}
    for identity, node in enumerate(graph.nodes):
        for value in node.operands:
            if _counts(node):
                for source in _sources(graph, value):
                    last[source.node] = max(last.get(source.node, 0), parts[identity])
    assigned = [parts[value.node] for value in graph.outputs]
    for output, target in graph.aliases:
        assigned[output] = max(assigned[output], last.get(target, 0))
    return assigned


def _sources(graph: Graph, value: Value) -> list[Value]:
    """What a value is behind views, constants left out."""
    node = graph.nodes[value.node]
    if node.op == CONSTANT:
        return []
    if node.op != INPUT and is_view(node):
        return [source for operand in node.operands for source in _sources(graph, operand)]
    return [value]


def _part(
    graph: Graph, parts: Sequence[int], number: int, positions: list[int], outputs: list[Value]
) -> PhasePart:
    def known(value: Value) -> bool:
        node = graph.nodes[value.node]
        return node.op == INPUT or (_counts(node) and parts[value.node] < number)

    inside = ancestors(graph.nodes, outputs, known)
    read = {v for i in inside for v in graph.nodes[i].operands if known(v)}
    read |= {value for value in outputs if known(value)}
    targets = {output: target for output, target in graph.aliases if output in positions}
    read |= {Value(target) for target in targets.values()}
    inputs = sorted(read, key=lambda v: (graph.nodes[v.node].op != INPUT, v))
    aliases = tuple((positions.index(o), t) for o, t in targets.items())
    graph_part = extract(graph, f"{graph.name}_{PHASES[number]}", inputs, outputs, aliases)
    return PhasePart(graph_part, tuple(inputs), tuple(outputs), tuple(positions))


class CallsInTurn:
    """The parts of a graph, run one after the other by `runs`: the whole graph's outputs."""

    def __init__(self, graph: Graph, parts: Sequence[PhasePart], runs: Sequence[Run]):
        place = {Value(i): i for i in range(len(graph.inputs))}
        count = len(place)
        results: dict[int, int] = {}
        self._calls: list[tuple[Run, Any]] = []
        for part, run in zip(parts, runs, strict=True):
            self._calls.append((run, _picker([place[value] for value in part.inputs])))
            for offset, value in enumerate(part.outputs):
                place.setdefault(value, count + offset)
            results |= {p: count + offset for offset, p in enumerate(part.positions)}
            count += len(part.outputs)
        self._results = _picker([results[i] for i in range(len(graph.outputs))])

    def run(self, arrays: list[Any]) -> tuple[Any, ...]:
        """The outputs, of a list that is used up."""
        for run, pick in self._calls:
            arrays += run([*pick(arrays)])
        outputs: tuple[Any, ...] = self._results(arrays)
        return outputs


def _picker(positions: list[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda items: tuple([items[position] for position in positions])
