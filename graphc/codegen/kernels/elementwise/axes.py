"""A domain as the axes of a nest, splits of them, and the outputs along them.

In: a `LoopNest`. Out: axes `i0`, `i1`, … for its loops, the outermost first; which of them an
output has.
"""

from __future__ import annotations

from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.nests.nest import OF_NUMBERS, Axis, NestOutput, NestPlace, Role, Split
from graphc.codegen.nests.tails import Tail
from graphc.schedule.access import Index

OF_VECTORS = OF_NUMBERS | {Tail.MASKED, Tail.BEHIND}
"""Tails of the innermost loop that leaves with guards take."""


def axis_of(over: LoopNest, level: int) -> Axis:
    return Axis(f"i{level}", over.loops[level].variable.extent, Role.ELEMENTS, level)


def split_of(over: LoopNest, level: int) -> Split:
    """One position after the other, as the loop's variable."""
    axis = axis_of(over, level)
    return Split(axis.name, axis, 1, Tail.EXACT, variable=over.loops[level].variable.name)


def vectors_of(over: LoopNest, lanes: int) -> Split:
    """Vectors along the innermost loop, the last one masked."""
    axis = axis_of(over, len(over.loops) - 1)
    return Split("v", axis, lanes, Tail.MASKED, variable=f"v_{over.inner.first}")


def index_at(over: LoopNest, place: NestPlace, levels: int) -> Index:
    """The coordinates that so many of the outer loops are at."""
    index: Index = ()
    for level in range(levels):
        index += over.domain.at(over.loops[level], place[f"i{level}"].number)
    return index


def outputs_of(over: LoopNest) -> list[NestOutput]:
    """In the order of the body's."""
    destinations = over.problem.outputs
    listed = []
    for number, (output, to) in enumerate(zip(over.body.outputs, destinations, strict=True)):
        level = over.level_of(len(over.body.type_of(output).shape))
        name = f"{to.buffer.name}.{number}" if to.is_part else to.buffer.name
        listed.append(NestOutput(name, tuple(f"i{i}" for i in range(level))))
    return listed


def stored_at(over: LoopNest, level: int) -> tuple[str, ...]:
    """The outputs that so many loops cover."""
    return tuple(output.name for output in outputs_of(over) if len(output.axes) == level)
