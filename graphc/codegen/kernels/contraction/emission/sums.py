"""The stage of sums in scratch, from one K block to the next.

In: its name, the axes it has sums of, and how many vectors. Out: a `Sums`, which a nest declares,
leaves clear and add to, and which is filled where nothing is added any more.
"""

from __future__ import annotations

import math

from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.loop_ir.nodes import Buffer
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.nests.nest import Holds, NestPlace, Room
from graphc.ir.dims import Extent
from graphc.records import record


@record
class Sums:
    """Sums in vectors; `room`, `whole`: see Stage. `lanes`: positions of it that one vector has."""

    name: str
    room: Room
    whole: tuple[str, ...] = ()
    lanes: int = 1
    holds: Holds = Holds.SUMS

    @property
    def vectors(self) -> Extent:
        return math.prod(extent for _, extent in self.room) // self.lanes

    @property
    def text(self) -> str:
        return f"sums [{self.vectors} vectors]"

    def declare(self, emit: Emitter) -> Buffer:
        return emit.scratch(self.name, self.vectors * emit.lanes)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        start = emit.first_addend() if emit.problem.has_sizes else None
        emit.clear(place.memory[self.name], self.vectors, lambda at: at * emit.lanes, start)

    def fill(self, emit: Emitter, place: NestPlace) -> OpenBlock:
        """Nothing is added any more: readers may read them once."""
        return emit.builder.block
