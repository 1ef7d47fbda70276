"""What processes that work on one thing exchange: a place in a graph, at which it is cut.

Native code does not stop for other processes. So a graph with `exchange` nodes is compiled as
several parts (`passes.split_exchanges`), between which Python exchanges their operands for their
results. The op by itself is what comes of processes that all hand in the same: each gets that back,
or as many of it as there are processes. So tools that run a graph elsewhere need no others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.ir.types import TensorType
from graphc.ops.kinds.host import Host

Array = np.ndarray[Any, Any]


def _exchange(*operands: Array, number: int, rows: int) -> tuple[Array, ...]:
    """`number`: which exchange of the program it is. `rows`: how many of each operand come back, in
    an axis of their own; 0 for a result like the operand."""
    if not rows:
        return tuple([operand.copy() for operand in operands])
    return tuple([np.stack([operand] * rows) for operand in operands])


def _types(*operands: TensorType, number: int, rows: int) -> tuple[TensorType, ...]:
    if not rows:
        return operands
    return tuple([TensorType(x.dtype, (rows, *x.shape)) for x in operands])


exchange = Host(
    "exchange", _exchange, _types, cost=1e9,  # so that nothing makes a second one of it
    samples=lambda m: [
        m(m.normal(3, 4), m.normal(2), number=0, rows=0), m(m.normal(2), number=1, rows=2),
    ],
    exempt={"gradient": "gradients are what is exchanged"},
)  # fmt: skip
