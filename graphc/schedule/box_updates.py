"""Kernels that change a box of a tensor in place: one row of a cache of keys, not all of it.

in : the body of a kernel whose output lies in the memory of one of its inputs
out: `BoxUpdate`: which value goes where, and which input keeps the elements outside

A slice that is assigned to is `where(inside, placed, x)`, `inside` and `placed` being padded from
the slice to the size of x. Written straight into x, only the slice need be stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.dims import Extent
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value

MOVING = ("broadcast", "reshape", "transpose")


@dataclass(frozen=True, slots=True)
class BoxUpdate:
    """`new` is what the elements from `low` on become; all others stay as the input `kept`."""

    new: Value
    low: tuple[Extent, ...]
    kept: int


def box_update(body: Graph) -> BoxUpdate | None:
    """What the one output of a body changes; None where it may change anything."""
    if len(body.outputs) != 1:
        return None
    node = body.nodes[body.outputs[0].node]
    if node.op != "where" or body.nodes[node.operands[2].node].op != INPUT:
        return None
    inside, placed = (body.nodes[operand.node] for operand in node.operands[:2])
    if inside.op != "pad" or placed.op != "pad" or any(inside.attribute("interior")):
        return None
    same = all(inside.attribute(name) == placed.attribute(name) for name in _GEOMETRY)
    ends = (_uniform(body, operand) for operand in inside.operands)
    if not same or tuple(ends) != (True, False):
        return None
    low = tuple(inside.attribute("low"))
    return BoxUpdate(placed.operands[0], low, node.operands[2].node)


_GEOMETRY = ("low", "high", "interior")


def _uniform(body: Graph, value: Value) -> object:
    """What all elements of a value are, where that is seen; else None."""
    node: Node = body.nodes[value.node]
    if node.op in MOVING:
        return _uniform(body, node.operands[0])
    return node.attribute("value").scalar if node.op == CONSTANT else None
