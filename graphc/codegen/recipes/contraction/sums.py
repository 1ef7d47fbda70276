"""The stage of sums in scratch, from one K block to the next.

In: its name, the axes it has sums of, and how many vectors. Out: a `Sums`, which a nest declares,
leaves clear and add to, and which is filled where nothing is added any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.codegen.loop_ir.nodes import Buffer
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.nests.nest import NestPlace
from graphc.codegen.recipes.contraction.emitter import Emitter
from graphc.ir.dims import Extent


@dataclass(frozen=True, slots=True)
class Sums:
    """`vectors` of sums; `whole`: see Stage."""

    name: str
    axes: tuple[str, ...]
    vectors: Extent
    whole: tuple[str, ...] = ()

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
