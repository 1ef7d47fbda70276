"""What is known of a value's sign from the graph that makes it.

In: a kernel's body and a value. Out: whether the value is nowhere above zero, so that functions of
it need not look after what only happens above. A softmax takes its exponentials of such values.
"""

from __future__ import annotations

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup
from graphc.ops.kinds.movement import Movement
from graphc.schedule.access import as_index, coordinates, movement_cases


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
