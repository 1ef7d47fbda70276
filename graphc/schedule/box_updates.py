"""Kernels that change a box of a tensor in place: one row of a cache of keys, not all of it.

in : the body of a kernel whose output lies in the memory of one of its inputs
out: `BoxUpdate`: which value goes where, and which input keeps the elements outside

A slice that is assigned to is `where(inside, placed, x)`, `inside` and `placed` being padded from
the slice to the size of x. Written straight into x, only the slice need be stored. Of bf16 and
other storage types it is a `where` of what they compute in, cast there and back.
"""

from __future__ import annotations

from graphc.ir.dims import Extent
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.types import DType
from graphc.records import record

MOVING = ("broadcast", "reshape", "transpose")


@record
class BoxUpdate:
    """`new` is what the elements from `low` on become; all others stay as the input `kept`."""

    new: Value
    low: tuple[Extent, ...]
    kept: int


def box_update(body: Graph) -> BoxUpdate | None:
    """What the one output of a body changes; None where it may change anything."""
    if len(body.outputs) != 1:
        return None
    where = _chosen(body, body.outputs[0])
    if where is None or body.nodes[where[2].node].op != INPUT:
        return None
    inside, placed = (body.nodes[operand.node] for operand in where[:2])
    if inside.op != "pad" or placed.op != "pad" or any(inside.attribute("interior")):
        return None
    same = all(inside.attribute(name) == placed.attribute(name) for name in _GEOMETRY)
    ends = (_uniform(body, operand) for operand in inside.operands)
    if not same or tuple(ends) != (True, False):
        return None
    low = tuple(inside.attribute("low"))
    return BoxUpdate(placed.operands[0], low, where[2].node)


def _chosen(body: Graph, value: Value) -> tuple[Value, ...] | None:
    """The operands of the `where` that a value is. Of a storage type it is one between casts, which
    hold each element as it is: what they are casts of."""
    node = body.nodes[value.node]
    if node.op == "where":
        return node.operands
    dtype = body.type_of(value).dtype
    if node.op != "cast" or not dtype.is_storage:
        return None
    where = body.nodes[node.operands[0].node]
    if where.op != "where" or where.types[0].dtype is not dtype.computes_as:
        return None
    inside, *casts = where.operands
    stored = [part for each in casts for part in _cast_from(body, each, dtype)]
    return (inside, *stored) if len(stored) == len(casts) else None


def _cast_from(body: Graph, value: Value, dtype: DType) -> tuple[Value, ...]:
    """What of this dtype a value is a cast of, if it is one."""
    node = body.nodes[value.node]
    is_cast = node.op == "cast" and body.type_of(node.operands[0]).dtype is dtype
    return node.operands if is_cast else ()


_GEOMETRY = ("low", "high", "interior")


def _uniform(body: Graph, value: Value) -> object:
    """What all elements of a value are, where that is seen; else None."""
    node: Node = body.nodes[value.node]
    if node.op in MOVING:
        return _uniform(body, node.operands[0])
    return node.attribute("value").scalar if node.op == CONSTANT else None
