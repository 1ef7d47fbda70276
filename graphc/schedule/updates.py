"""Contractions whose result goes into an update of large state, and should get there by memory.

in : a graph
out: the contractions that take no epilogue

An epilogue runs tile by tile: a few rows of a few dozen columns. State that is updated there (a
weight, its momentum, its variance) is read and written in such pieces, each row of a piece in
another page, and where rows are a power of two apart all of them compete for the same few cache
lines. A shallow product goes through the rows of its tiles in order (`row_block`), so its pieces
follow each other. A deep one does not; there a pass of its own over the state is much faster than
what it costs to write the result and read it back (measured: docs/performance.md).
"""

from __future__ import annotations

import math

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup
from graphc.ops.kind_contract import Contract

DEEP = 256
"""Products per result from which a contraction goes through its columns several times."""
MATRICES = 2
"""Inputs of the result's size from which the pass of its own pays."""


def deep_updates(graph: Graph) -> set[int]:
    """The ids of those contractions."""
    users = graph.users()
    return {
        identity
        for identity, node in enumerate(graph.nodes)
        if _is_deep(graph, identity)
        and len(_state_read(graph, Value(identity), users)) >= MATRICES
    }


def _is_deep(graph: Graph, identity: int) -> bool:
    node = graph.nodes[identity]
    op = None if node.op in (INPUT, CONSTANT) else lookup(node.op)
    if not isinstance(op, Contract):
        return False
    types = tuple(graph.type_of(value) for value in node.operands)
    return math.prod(op.space(types, **dict(node.attributes)).k) > DEEP


def _state_read(graph: Graph, value: Value, users: dict[Value, list[int]]) -> set[int]:
    """The inputs of the size of `value` that elementwise nodes behind it read."""
    size = graph.type_of(value).numel
    found: set[int] = set()
    seen: set[int] = set()
    work = list(users[value])
    while work:
        identity = work.pop()
        node = graph.nodes[identity]
        light = lookup(node.op).kind in ("elementwise", "movement")
        if identity in seen or not light or node.types[0].numel != size:
            continue
        seen.add(identity)
        found.update(
            v.node for v in node.operands
            if graph.nodes[v.node].op == INPUT and graph.type_of(v).numel == size
        )  # fmt: skip
        # What is not read itself may be read by what the state is first multiplied with.
        found.update(
            inner.node for v in node.operands for inner in graph.nodes[v.node].operands
            if graph.nodes[inner.node].op == INPUT and graph.type_of(inner).numel == size
            and lookup(graph.nodes[v.node].op).kind == "elementwise"
        )  # fmt: skip
        work += users[Value(identity)]
    return found
