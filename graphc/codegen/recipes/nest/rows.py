"""Strategy: row by row, the innermost loop by vectors. It fits every nest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.copier import Copier
from graphc.codegen.evaluate.evaluator import Position
from graphc.codegen.evaluate.loop_cut import LoopCut, Part
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.recipes.nest.destinations import StoreDestination
from graphc.codegen.recipes.nest.emitter import NestEmitter
from graphc.codegen.recipes.nest.problem import LoopNest
from graphc.codegen.recipes.nest.row_values import output_to_hold, rows_to_keep
from graphc.codegen.recipes.nest.widths import registers
from graphc.ir.dims import Extent
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, flatten
from graphc.schedule.access import Index, unflatten

ROW_LIMIT = 1 << 16
"""Elements of a row up to which values are kept in scratch."""


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """Loops, and lanes that may fill several registers."""

    nest: LoopNest
    lanes: int

    @staticmethod
    def of(nest: LoopNest) -> RowsPlan:
        return RowsPlan(nest, nest.lanes * registers(nest))

    def lower(self, emit: NestEmitter) -> Kernel:
        if not self.nest.loops:
            emit.store(self.nest, 0, ())
            return emit.builder.finish(extent=1)
        return emit.over_loops(self.nest, 1, partial(self._row, emit))

    def _row(self, emit: NestEmitter, index: Index, part: Part | None) -> Extent:
        outputs, inner = emit.outputs, self.nest.inner
        if part is None:
            # First, so that reductions which are outputs read what is kept.
            outputs = keep_rows(emit, self.nest, self.lanes, index)
            emit.store(self.nest, len(self.nest.loops) - 1, index, (), outputs)
        cut = LoopCut(inner.variable.extent, self.lanes)

        def at(position: Expr, guards: tuple[Guard, ...]) -> None:
            element = index + self.nest.domain.at(inner, position)
            emit.store(self.nest, len(self.nest.loops), element, guards, outputs)

        def vector(number: Expr, rest: Extent | None) -> None:
            emit.vector(self.nest, self.lanes, number, rest, at)

        cut.each(emit.evaluator.addresses, f"v_{inner.first}", vector, part)
        return cut.tiles


def keep_rows(
    emit: NestEmitter, nest: LoopNest, lanes: int, index: Index
) -> Sequence[StoreDestination]:
    """Computes costly values that several sweeps over this row read once, into memory. Where the
    outputs are then stored: that of one may be read back."""
    loop, outputs, shape = nest.inner, list(emit.outputs), nest.domain.shape
    extent = loop.variable.extent
    if not isinstance(extent, int) or extent > ROW_LIMIT:
        return outputs
    inner = shape[loop.first :]
    kept = rows_to_keep(nest.body, shape, loop.first)
    output = output_to_hold(nest.body, shape, loop.first, kept)
    copier = Copier(emit.builder, emit.evaluator, lanes)
    for value in kept:
        if output is not None and value == kept[0]:
            destination = outputs[output]
            memory = emit.builder.read_back(destination.buffer)
            position: Position = destination.linear
            outputs[output] = replace(destination, buffer=memory)
        else:
            dtype = nest.body.type_of(value).dtype
            memory = emit.builder.scratch(f"row{value.node}", dtype, extent)
            position = partial(_in_row, first=loop.first, shape=inner)
        copier.row(
            extent,
            lambda _, at, guards, v=value: emit.evaluator.value(  # type: ignore[misc]
                v, index + unflatten(at, inner), guards
            ),
            lambda _, at, p=position: p(index + unflatten(at, inner)),  # type: ignore[misc]
            memory,
        )
        emit.evaluator.keep_row(value, index, memory, position, emit.builder.block)
    return outputs


def _in_row(at: Index, first: int, shape: Shape) -> Expr:
    """The position of an element in a row of `shape`, the axes from `first` on."""
    return flatten(at[first:], shape)
