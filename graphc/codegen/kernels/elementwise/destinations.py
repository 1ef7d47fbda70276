"""Where a kernel stores its outputs: each in a buffer of its own, or as a part of one.

in : a body, and a buffer for each output
out: the body with each `concat` of parts of one shape replaced by the parts, and the
     destination of each output: parts are computed over their own shape and stored where they
     belong, side by side: each is a subview of the buffer
"""

from __future__ import annotations

from graphc.codegen.loop_ir.nodes import Buffer
from graphc.ir.dims import Extent
from graphc.ir.nodes import Graph, Value
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, flatten
from graphc.records import record
from graphc.schedule.access import Index, parts_of


@record
class StoreDestination:
    """The elements of a buffer of shape `shape` from `start` on along `axis`, or from `low` on."""

    buffer: Buffer
    shape: Shape
    axis: int = 0
    start: int = 0
    is_part: bool = False
    low: tuple[Extent, ...] = ()

    def linear(self, at: Index) -> Expr:
        """The position in the buffer of the element at an index of the output."""
        if self.is_part:
            at = (*at[: self.axis], at[self.axis] + self.start, *at[self.axis + 1 :])
        if self.low:
            at = tuple(i + low for i, low in zip(at, self.low, strict=True))
        return flatten(at, self.shape)


def by_parts(body: Graph, buffers: list[Buffer]) -> tuple[Graph, tuple[StoreDestination, ...]]:
    """The body whose outputs are parts where they can be, and where each is stored."""
    outputs: list[Value] = []
    destinations: list[StoreDestination] = []
    for output, buffer in zip(body.outputs, buffers, strict=True):
        shape = body.type_of(output).shape
        parts = parts_of(body, output)
        outputs += parts or (output,)
        if not parts:
            destinations.append(StoreDestination(buffer, shape))
            continue
        axis = body.nodes[output.node].attribute("axis")
        size = body.type_of(parts[0]).shape[axis]
        destinations += [
            StoreDestination(buffer, shape, axis, i * size, True) for i in range(len(parts))
        ]
    return Graph(body.name, body.nodes, tuple(outputs), body.aliases), tuple(destinations)
