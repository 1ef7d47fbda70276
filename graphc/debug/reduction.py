"""A smaller graph that still fails: delta debugging over outputs, nodes, sizes.

in : a graph, and a function that says whether a graph fails
out: a graph that fails, of which no single step makes a smaller one that does

A step drops outputs or what they update, moves an output up, makes nodes inputs, replaces a node by
an operand or by a constant of zeros or ones, or an input by one; does the same inside of loops and
branches; makes inputs and constants smaller along one size, with all attributes that name that
size. What no longer is a graph is no candidate. Each kind of step is tried on many places at once
first, then on half as many (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input", 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from graphc.debug.reduction_steps import (
    cut,
    operand_variants,
    outputs_moved,
    region_variants,
    replaced_by_constants,
    replaced_by_operands,
    resized,
    with_outputs,
    without_aliases,
)
from graphc.errors import GraphError
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.ir.verifier import verify

Fails = Callable[[Graph], bool]
Step = Callable[[Graph, Any], Graph | None]
_NO_GRAPH = (GraphError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
"""What making a graph of wrong sizes may raise."""


def reduced(graph: Graph, fails: Fails, progress: Callable[[Graph], None] | None = None) -> Graph:
    """The smallest graph that is found; `progress` is called with each that is smaller. `graph`
    itself is taken to fail."""
    return _Reducer(graph, fails, progress).run()


def size_of(graph: Graph) -> tuple[int, ...]:
    """By what graphs are compared, most weighty first: ops, those of regions too; outputs and
    updates; elements; inputs."""
    types = [type for node in graph.nodes for type in node.types]
    elements = sum(type.numel for type in types if isinstance(type.numel, int))
    updates = len(graph.aliases)
    return _ops(graph), len(graph.outputs) + updates, elements, len(graph.inputs), _constants(graph)


def size_text(graph: Graph) -> str:
    """The size in words."""
    ops, _, elements, inputs, _ = size_of(graph)
    return f"{ops} ops, {inputs} inputs, {len(graph.outputs)} outputs, {elements} elements"


def _ops(graph: Graph) -> int:
    inner = sum(_ops(region) for node in graph.nodes for region in node.regions)
    return inner + sum(node.op not in (INPUT, CONSTANT) for node in graph.nodes)


def _constants(graph: Graph) -> int:
    inner = sum(_constants(region) for node in graph.nodes for region in node.regions)
    return inner + sum(node.op == CONSTANT for node in graph.nodes)


class _Reducer:
    def __init__(self, graph: Graph, fails: Fails, progress: Callable[[Graph], None] | None):
        self.graph = graph
        self._fails = fails
        self._progress = progress
        self._seen: set[str] = {str(graph)}

    def run(self) -> Graph:
        before = None
        while before != (before := size_of(self.graph)):
            self._outputs()
            self._try(without_aliases(self.graph))
            self._one_by_one(outputs_moved)
            self._each(_computed, cut)
            self._each(_computed, replaced_by_operands)
            self._one_by_one(operand_variants)
            self._each(_replaceable, replaced_by_constants)
            self._one_by_one(region_variants)
            self._sizes()
        return self.graph

    def _try(self, candidate: Graph | None) -> bool:
        """Take a candidate that is smaller and fails."""
        if candidate is None or size_of(candidate) >= size_of(self.graph):
            return False
        text = str(candidate)
        if text in self._seen:
            return False
        self._seen.add(text)
        try:
            verify(candidate)
        except GraphError:
            return False
        if not self._fails(candidate):
            return False
        self.graph = candidate
        if self._progress is not None:
            self._progress(candidate)
        return True

    def _outputs(self) -> None:
        """Outputs left out, half of them first."""
        parts = 2
        while len(self.graph.outputs) > 1 and parts <= 2 * len(self.graph.outputs):
            count = len(self.graph.outputs)
            chunks = list(_chunks(range(count), max(count // parts, 1)))
            kept = [[i for i in range(count) if i not in chunk] for chunk in chunks]
            smaller = [*map(list, chunks), *kept] if parts == 2 else kept
            if any(self._try(with_outputs(self.graph, each)) for each in smaller if each):
                parts = 2
            elif parts >= count:
                return
            else:
                parts = min(parts * 2, count)

    def _each(self, places: Callable[[Graph], list[int]], step: Step) -> None:
        """A step at many places at once, then at half as many."""
        length = max(len(places(self.graph)), 1)
        while length:
            start = 0
            while start < len(positions := places(self.graph)):
                # From the outputs on: what hangs on a place that goes, goes with it.
                chunk = positions[::-1][start : start + length]
                if not self._try(_made(step, self.graph, chunk)):
                    start += length
            length //= 2

    def _one_by_one(self, variants: Callable[[Graph], Iterator[Graph]]) -> None:
        """The first variant that fails, and of that the first, as long as there is one."""
        while any(self._try(each) for each in variants(self.graph)):
            pass

    def _sizes(self) -> None:
        """Sizes made 1, 2, half, or one less."""
        for size in sorted(_sizes_of(self.graph), reverse=True):
            for smaller in dict.fromkeys((1, 2, 3, size // 2, size - 1)):
                if not 0 < smaller < size:
                    continue
                variants = (_made(resized, self.graph, how) for how in _ways(size, smaller))
                if any(self._try(each) for each in variants):
                    break


def _ways(size: int, smaller: int) -> Iterator[tuple[int, int, bool]]:
    yield size, smaller, True
    yield size, smaller, False


def _made(step: Step, graph: Graph, places: Any) -> Graph | None:
    try:
        return step(graph, places)
    except _NO_GRAPH:
        return None


def _computed(graph: Graph) -> list[int]:
    return [i for i, node in enumerate(graph.nodes) if node.op not in (INPUT, CONSTANT)]


def _replaceable(graph: Graph) -> list[int]:
    """What a constant may stand for: all but constants, and inputs that are updated."""
    updated = {target for _, target in graph.aliases}
    return [i for i, node in enumerate(graph.nodes) if node.op != CONSTANT and i not in updated]


def _sizes_of(graph: Graph) -> set[int]:
    shapes = [type.shape for node in graph.nodes for type in node.types]
    sizes = {dim for shape in shapes for dim in shape if isinstance(dim, int) and dim > 1}
    return sizes.union(*(_sizes_of(r) for node in graph.nodes for r in node.regions))


def _chunks(items: Sequence[int], length: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(items), length):
        yield items[start : start + length]
