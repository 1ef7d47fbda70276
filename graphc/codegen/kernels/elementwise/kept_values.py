"""Stages of a nest that keep values of the innermost loop: of a row, or of a block of its vectors.

In: a `LoopNest`, a value. Out: a `KeptValues`, and the leaf that fills it, vector by vector. Costly
values that several sweeps over a row read are kept of the whole row (row_values.py); the first of
them may lie in the row of an output, whose elements take its place one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.elementwise.axes import OF_VECTORS, index_at
from graphc.codegen.kernels.elementwise.destinations import StoreDestination
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.kernels.elementwise.row_values import output_to_hold, rows_to_keep
from graphc.codegen.loop_ir.nodes import Buffer
from graphc.codegen.nests.nest import Effect, Holds, NestPlace, Room
from graphc.ir.nodes import Value
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.records import record, replace
from graphc.schedule.access import Index

ROW_LIMIT = 1 << 16
"""Elements of a row up to which values are kept in scratch."""


@record
class KeptValues:
    """So many elements of a value along the innermost loop, stored by vectors of `lanes`: those of
    a row, or of one tile of `blocks` of vectors. `output`: the one in whose row they lie."""

    over: LoopNest
    value: Value
    elements: int
    lanes: int
    blocks: str | None = None
    output: int | None = None
    holds: Holds = Holds.VALUES

    @property
    def name(self) -> str:
        return f"{'row' if self.blocks is None else 'stage'}{self.value.node}"

    @property
    def room(self) -> Room:
        return ((f"i{len(self.over.loops) - 1}", self.elements),)

    @property
    def whole(self) -> tuple[str, ...]:
        outer = tuple(f"i{level}" for level in range(len(self.over.loops) - 1))
        return outer if self.blocks is None else (*outer, self.blocks)

    @property
    def text(self) -> str:
        where = "" if self.output is None else " in the row of an output"
        return f"{self.over.body.nodes[self.value.node].op} [{self.elements}]{where}"

    def declare(self, emit: NestEmitter) -> Buffer:
        if self.output is not None:
            return emit.builder.read_back(emit.outputs[self.output].buffer)
        dtype = self.over.body.type_of(self.value).dtype
        return emit.builder.scratch(self.name, dtype, self.elements)

    def clear(self, emit: NestEmitter, place: NestPlace) -> None:
        raise NotImplementedError("values are written, never cleared")

    def fill(self, emit: NestEmitter, place: NestPlace) -> Buffer:
        """From here on elements are read where they were stored."""
        memory: Buffer = place.memory[self.name]
        prefix = index_at(self.over, place, len(self.over.loops) - 1)
        emit.evaluator.keep_row(
            self.value, prefix, memory, lambda at: self.position(emit, place, at),
            emit.builder.block,
        )  # fmt: skip
        return memory

    def position(self, emit: NestEmitter, place: NestPlace, at: Index) -> Expr:
        """Where an element lies."""
        if self.output is not None:
            return emit.outputs[self.output].linear(at)
        first = self.over.inner.first
        row = flatten(at[first:], self.over.domain.shape[first:])
        return row if self.blocks is None else row - place[self.blocks].first * self.lanes


@record
class KeepValues:
    """Stores a vector of a stage's values; `before`: the stages that hold what they are made of."""

    stage: KeptValues
    before: tuple[KeptValues, ...]

    @property
    def text(self) -> str:
        return f"{self.stage.text}, vectors of {self.stage.lanes}"

    @property
    def effect(self) -> Effect:
        reads = tuple(stage.name for stage in self.before)
        return Effect(reads=reads, fills=self.stage.name, tails=OF_VECTORS)

    def write(self, emit: NestEmitter, place: NestPlace) -> None:
        stage, over, span = self.stage, self.stage.over, place["v"]
        # Values of a block share what they load; sweeps over a row are apart, by a name for each.
        name = f"lane_k{stage.value.node}" if stage.blocks is None else "lane_k"
        lane = Variable(name, stage.lanes)
        emit.addresses.bind_lane(lane, emit.builder.block)
        guards: tuple[Guard, ...] = () if span.rest is None else ((of(lane), 0, span.rest),)
        position = span.number * stage.lanes + of(lane)
        at = index_at(over, place, len(over.loops) - 1) + over.domain.at(over.inner, position)
        value = emit.evaluator.value(stage.value, at, guards)
        where = stage.position(emit, place, at)
        emit.evaluator.store(place.memory[stage.name], where, value, guards)


def values_of_row(over: LoopNest, lanes: int) -> tuple[KeptValues, ...]:
    """Stages for costly values that several sweeps over a row read."""
    extent = over.length
    if len(over.loops) < 2 or extent is None or extent > ROW_LIMIT:
        return ()
    shape, first = over.domain.shape, over.inner.first
    kept = rows_to_keep(over.body, shape, first)
    held = output_to_hold(over.body, shape, first, kept)
    return tuple(
        KeptValues(over, value, extent, lanes, output=None if number else held)
        for number, value in enumerate(kept)
    )


def redirected(
    emit: NestEmitter, kept: Sequence[KeptValues], place: NestPlace
) -> list[StoreDestination]:
    """Where outputs are stored: that of one may be read back."""
    outputs = list(emit.outputs)
    for stage in kept:
        if stage.output is not None:
            memory = place.memory[stage.name]
            outputs[stage.output] = replace(outputs[stage.output], buffer=memory)
    return outputs
