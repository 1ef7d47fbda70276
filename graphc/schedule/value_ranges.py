"""Value range analysis: what is known of values from the graph that makes them.

in : a graph
out: of an integer value the least and the greatest it may be, those of its dtype where nothing is
     known, so that no check is made of what cannot fail; of a float whether it is nowhere above
     zero, so that functions of it need not look after what only happens above (a softmax takes its
     exponentials of such values)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops.kinds.movement import Movement
from graphc.schedule.access import as_index, coordinates, movement_cases

Range = tuple[int, int]

# What a float may be as an integer: more than any dtype holds.
ANYTHING: Range = (-(1 << 100), 1 << 100)


class Ranges:
    """Ranges of the values of one graph, each computed once."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self._known: dict[int, Range] = {}

    def of(self, value: Value) -> Range:
        """The range of a value."""
        nodes = self.graph.nodes
        # Not by recursion: graphs are deeper than Python's stack.
        for identity in sorted(ancestors(nodes, [value], lambda v: v.node in self._known)):
            self._known[identity] = self._fitting(nodes[identity])
        return self._known[value.node]

    def _fitting(self, node: Node) -> Range:
        """The range, if the dtype holds all of it: else numbers may have wrapped."""
        dtype = node.types[0].dtype
        if dtype.is_float:
            return ANYTHING
        limits = (0, 1) if dtype is DType.bool else _limits(dtype)
        if dtype is DType.bool or len(node.types) != 1:
            return limits
        range_ = self._range(node)
        fits = range_ is not None and limits[0] <= range_[0] and range_[1] <= limits[1]
        return range_ if range_ is not None and fits else limits

    def _range(self, node: Node) -> Range | None:
        if node.op == INPUT:
            return None
        if node.op == CONSTANT:
            array = node.attribute("value").array
            return (int(array.min()), int(array.max())) if array.size else None
        kind = lookup(node.op).kind
        if kind in ("argreduce", "scan", "sort"):
            return self._position(node, kind)
        if node.op == "iota":
            return (0, max(node.types[0].shape[node.attribute("axis")] - 1, 0))
        if node.op == "check_index":
            return (0, node.attribute("bound") - 1)
        operands = [self._known[operand.node] for operand in node.operands]
        if kind == "gather" or node.op in ("max", "min"):
            return operands[0]
        if kind == "movement":
            return _hull(operands)
        if kind == "elementwise":
            return _elementwise(node.op, operands)
        return None

    def _position(self, node: Node, kind: str) -> Range | None:
        """Positions along an axis of the operand."""
        if kind == "scan" and not node.op.startswith("arg"):
            return None
        axis = node.attribute("axes")[0] if kind == "argreduce" else node.attribute("axis")
        return (0, max(self.graph.type_of(node.operands[0]).shape[axis] - 1, 0))


def _limits(dtype: DType) -> Range:
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def _hull(ranges: list[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _elementwise(op: str, operands: list[Range]) -> Range | None:
    if op == "cast":
        return operands[0]
    if op == "where":
        return _hull(operands[1:])
    if op == "mod":
        return (0, operands[1][1] - 1) if operands[1][0] > 0 else None
    if op == "clamp":
        return _extreme(min, _extreme(max, operands[0], operands[1]), operands[2])
    if op in ("minimum", "maximum"):
        return _extreme(min if op == "minimum" else max, *operands)
    if op in ("add", "sub", "mul"):
        (a, b), (c, d) = operands
        if op == "add":
            return a + c, b + d
        if op == "sub":
            return a - d, b - c
        return min(a * c, a * d, b * c, b * d), max(a * c, a * d, b * c, b * d)
    return None


def _extreme(pick: Callable[[int, int], int], left: Range, right: Range) -> Range:
    return pick(left[0], right[0]), pick(left[1], right[1])


def is_nonpositive(body: Graph, value: Value) -> bool:
    """Whether each element is at most 0, or NaN: x less a maximum over some axes of x, or -|x|.
    False where that is not known."""
    node = body.nodes[value.node]
    if node.op == "neg":
        return body.nodes[node.operands[0].node].op == "abs"
    return node.op == "sub" and _is_maximum_of(body, *node.operands)


def _is_maximum_of(body: Graph, x: Value, bound: Value) -> bool:
    """Whether `bound` is, at each place, a maximum that the element of x there takes part in."""
    place = coordinates(body.type_of(x).shape)
    index = place
    node = body.nodes[bound.node]
    while node.op not in (INPUT, CONSTANT) and isinstance(lookup(node.op), Movement):
        cases = movement_cases(lookup(node.op), body, bound.node, index)
        if len(cases) > 1 or cases[0].guards:
            return False
        bound, index = node.operands[cases[0].operand], as_index(cases[0].index)
        node = body.nodes[bound.node]
    if node.op != "max" or node.operands != (x,):
        return False
    axes = node.attribute("axes")
    return index == tuple(item for axis, item in enumerate(place) if axis not in axes)
