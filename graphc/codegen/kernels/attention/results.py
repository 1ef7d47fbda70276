"""Where a kernel of attention stores its results: as they are, or in other orders.

in : the kernel's body, and the buffers of its outputs
out: for each result of the composite the places its rows go to
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.codegen.loop_ir.nodes import Buffer
from graphc.ir.dims import Extent
from graphc.ir.nodes import Graph, Value
from graphc.ops.kinds.index_expr import Expr, flatten
from graphc.records import record
from graphc.schedule.access import Index, coordinates
from graphc.schedule.output_layouts import store_destinations


@record(slots=False)
class Destination:
    """A result's elements lie at `place` of a buffer, an expression of their index."""

    buffer: Buffer
    place: Expr
    index: Index

    def stride(self, axis: int) -> Extent:
        """How far two neighbours along an axis are apart."""
        total: Extent = 0
        for variable in self.index[axis].variables():
            step = self.place.coefficient(variable)
            total = total if step is None else total + step
        return total

    def start(self, lead: Index) -> Expr:
        """Where the matrix of a head starts."""
        begin = Expr(self.place.constant)
        for axis, item in enumerate(lead):
            begin = begin + item * self.stride(axis)
        return begin


def stored(body: Graph, anchor: int, buffers: list[Buffer]) -> dict[int, list[Destination]]:
    """By result of the node `anchor` the places of its elements."""
    by_output: dict[int, list[Destination]] = {}
    for value, buffer in zip(body.outputs, buffers, strict=True):
        shape = body.type_of(value).shape
        placed: Mapping[Value, tuple[Expr, ...]] = store_destinations(body, value) or {}
        if value.node == anchor:
            placed = {value: (flatten(coordinates(shape), shape),)}
        for result, places in placed.items():
            index = coordinates(body.type_of(result).shape)
            targets = by_output.setdefault(result.index, [])
            targets += [Destination(buffer, place, index) for place in places]
    return by_output
