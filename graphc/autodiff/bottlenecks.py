"""Bottleneck cuts of a graph: where little of what was computed is still to be read.

in : a graph, a run of its nodes, and values that lie along them
out: checkpoint candidates: values that cut the run into segments, so that each segment can be
     computed by itself from them

What backward computes again lies in memory together, from the first that is needed to the last that
is used. So it is to be computed in segments: at the border of two all is kept that one hands to the
other (Chen et al., "Training deep nets with sublinear memory cost", 2016).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import accumulate, pairwise

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.size_guards import typical


class Bottlenecks:
    """The values alive between the nodes of `early`, those that are `free` aside."""

    def __init__(self, graph: Graph, early: Set[int], free: Set[Value]) -> None:
        self.graph = graph
        self.last: dict[Value, int] = {}  # where a value is read last
        for identity in sorted(early):
            for value in graph.nodes[identity].operands:
                if value.node in early and graph.nodes[value.node].op not in (INPUT, CONSTANT):
                    self.last[value] = identity
        self.free = free
        bounds = (min(early, default=0), max(early, default=0) + 2)
        self.start = bounds[0]
        change = [0] * (bounds[1] - bounds[0])
        for value, end in self.last.items():
            if value not in free:
                change[value.node - self.start] += typical(graph.type_of(value).nbytes)
                change[end - self.start] -= typical(graph.type_of(value).nbytes)
        self.alive = list(accumulate(change))  # bytes alive behind a node

    def at(self, node: int) -> set[Value]:
        """The values made up to a node that later ones read."""
        return {
            value for value, end in self.last.items()
            if value.node <= node < end and value not in self.free
        }  # fmt: skip

    def segments(self, along: Sequence[Value], count: int) -> tuple[set[Value], int]:
        """Values at the borders of `count` segments that hold about as many bytes of `along`, each
        border at the narrowest place near by; and the bytes in the largest segment."""
        ordered = sorted(along, key=lambda v: (v.node, v.index))
        sizes = [typical(self.graph.type_of(value).nbytes) for value in ordered]
        total = sum(sizes)
        checkpoints: set[Value] = set()
        borders = [self.start - 1]
        for number in range(1, count):
            low, wanted, high = (
                self._reached(ordered, sizes, total * (2 * number + side) / (2 * count))
                for side in (-1, 0, 1)
            )
            nodes = range(max(low, borders[-1]), high + 1)
            narrow = {node: (self.alive[node - self.start], abs(node - wanted)) for node in nodes}
            border = min(narrow, key=narrow.__getitem__, default=low)
            checkpoints |= self.at(border)
            borders.append(border)
        borders.append(self.start + len(self.alive))
        largest = max(
            sum(size for value, size in zip(ordered, sizes) if a < value.node <= b)
            for a, b in pairwise(borders)
        )
        return checkpoints, largest

    def _reached(self, values: Sequence[Value], sizes: Sequence[int], share: float) -> int:
        """The node at which the values up to it have that many bytes."""
        for value, reached in zip(values, accumulate(sizes)):
            if reached >= share:
                return value.node
        return values[-1].node if values else self.start
