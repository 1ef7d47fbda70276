"""Strategy: stages, each a loop of its own, for long chains of operations that wait for another.

Before, for `exp(x * sigmoid(x))`:         After:

    for v:                                     for u:
        y[v] = exp(x[v] * sigmoid(x[v]))           for v in u: kept[v] = x[v] * sigmoid(x[v])
                                                   for v in u: y[v] = exp(kept[v])

A processor looks ahead by a few hundred operations. Where an element takes as many, one after the
other, little is left to be done meanwhile; two loops of half as many overlap their elements. What
is kept is a block's, and stays in L1. The bits of a result do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.loop_cut import LoopCut, Part
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.recipes.nest.emitter import NestEmitter
from graphc.codegen.recipes.nest.problem import LoopNest
from graphc.codegen.recipes.nest.widths import CHAIN, chain_length, registers
from graphc.ir.dims import Extent, fixed
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.schedule.access import Index, coordinates, reads, unflatten

VECTORS = range(16, 3, -1)
"""Vectors of a block: the first of these numbers that divides the loop's, else the last."""
KEPT = (DType.f32, DType.f64, DType.i32, DType.i64)
MOST_KEPT = 3
"""Values that may be kept; storing and reading five of an LSTM's cell again took what it gained."""


@dataclass(frozen=True, slots=True)
class StagesPlan:
    """The lanes, which fill several registers, and what each stage but the last keeps."""

    nest: LoopNest
    lanes: int
    stages: tuple[tuple[GraphValue, ...], ...]

    @staticmethod
    def of(nest: LoopNest) -> StagesPlan | None:
        """For an elementwise nest of long chains. None where no two of them wait for one
        another."""
        lanes = nest.lanes * registers(nest)
        if lanes == nest.lanes:
            return None
        stages, extent = values_to_keep(nest), nest.inner.variable.extent
        if not stages or not isinstance(extent, int) or extent < VECTORS[-1] * lanes:
            return None
        return StagesPlan(nest, lanes, stages)

    def lower(self, emit: NestEmitter) -> Kernel:
        return emit.over_loops(self.nest, 1, StagedRow(emit, self).write)


@dataclass(frozen=True, slots=True)
class StagedRow:
    """Writes the innermost loop: through blocks of vectors, stage by stage."""

    emit: NestEmitter
    plan: StagesPlan

    @property
    def cut(self) -> LoopCut:
        return LoopCut(self.plan.nest.inner.variable.extent, self.plan.lanes)

    @property
    def vectors(self) -> int:
        """Those of a block."""
        whole = fixed(self.cut.whole)
        return next((count for count in VECTORS if whole % count == 0), VECTORS[-1])

    def write(self, index: Index, part: Part | None) -> int:
        """The parts are blocks. The last block may have fewer vectors."""
        emit, nest, lanes = self.emit, self.plan.nest, self.plan.lanes
        b, addresses, whole, vectors = (
            emit.builder,
            emit.evaluator.addresses,
            self.cut.whole,
            self.vectors,
        )
        blocks = LoopCut(whole, vectors)
        parts = fixed(blocks.tiles)
        if part is None:
            emit.store(nest, len(nest.loops) - 1, index)
        begin, end = part or (0, parts)
        with b.loop(begin, end, hint="u") as blocks_loop:
            block = Variable(f"u_{nest.inner.first}", parts)
            addresses.bind(block, blocks_loop.variable, b.block)
            count = blocks.present(addresses, of(block))
            self._block(index, of(block) * vectors, count)

        def rest(number: Expr, rest: Extent | None) -> None:
            emit.vector(nest, lanes, number, rest, partial(self._store, index))

        self.cut.last(addresses, rest, part, parts)
        return parts

    def _store(self, index: Index, position: Expr, guards: tuple[Guard, ...] = ()) -> None:
        nest = self.plan.nest
        element = index + nest.domain.at(nest.inner, position)
        self.emit.store(nest, len(nest.loops), element, guards)

    def _block(self, index: Index, first: Expr, count: Number) -> None:
        """All stages for `count` vectors from `first` on."""
        builder, evaluator, body = self.emit.builder, self.emit.evaluator, self.plan.nest.body
        lanes, inner = self.plan.lanes, self.plan.nest.inner.first
        shape = self.plan.nest.domain.shape[inner:]

        def inside(at: Index) -> Expr:
            return flatten(at[inner:], shape) - first * lanes

        for stage in self.plan.stages:
            rows = {
                value: builder.scratch(
                    f"stage{value.node}", body.type_of(value).dtype, self.vectors * lanes
                )
                for value in stage
            }
            with builder.loop(0, count, hint="s") as vector_loop:
                at = index + unflatten(self._position(first, vector_loop.variable), shape)
                for value, row in rows.items():
                    evaluator.store(row, inside(at), evaluator.value(value, at), ())
            for value, row in rows.items():
                evaluator.keep_row(value, index, row, inside, builder.block)
        with builder.loop(0, count, hint="v") as vector_loop:
            self._store(index, self._position(first, vector_loop.variable))

    def _position(self, first: Expr, number: LoopValue) -> Expr:
        """The elements of one vector of a block."""
        addresses, inside, lanes = (
            self.emit.evaluator.addresses,
            self.emit.builder.block,
            self.plan.lanes,
        )
        vector, lane = Variable(number.name, self.vectors), Variable(f"lane_{number.name}", lanes)
        addresses.bind(vector, number, inside)
        addresses.bind_lane(lane, inside)
        return (first + of(vector)) * lanes + of(lane)


def values_to_keep(nest: LoopNest) -> tuple[tuple[GraphValue, ...], ...]:
    """For each stage what later ones read of it, in order; none where that is not to be kept.

    A long chain that waits for another one of its stage begins the next stage. Of what stages read
    from earlier ones, all that is behind a long chain is kept, the rest computed again."""
    body, stages = nest.body, list[int]()
    behind: set[int] = set()
    crossing: set[GraphValue] = set()
    for identity, node in enumerate(body.nodes):
        stage = max((stages[operand.node] for operand in node.operands), default=0)
        waits = [operand for operand in node.operands if operand.node in behind]
        is_long = chain_length(body, node) >= CHAIN
        stage += is_long and any(stages[operand.node] == stage for operand in waits)
        stages.append(stage)
        behind |= {identity} if is_long or waits else set()
        crossing |= {operand for operand in waits if stages[operand.node] < stage}
    last = max(stages)
    crossing |= {v for v in body.outputs if v.node in behind and stages[v.node] < last}
    if not last or len(crossing) > MOST_KEPT or not _can_be_kept(nest, crossing):
        return ()
    return tuple(
        tuple(sorted(value for value in crossing if stages[value.node] == stage))
        for stage in range(last)
    )


def _can_be_kept(nest: LoopNest, values: set[GraphValue]) -> bool:
    """Whether each is a number over the whole domain, as all outputs are, that is read at its own
    place only."""
    body, shape = nest.body, nest.domain.shape
    at = coordinates(shape)
    if any(body.type_of(value).shape != shape for value in (*values, *body.outputs)):
        return False
    own_reads = [
        read
        for root in (*values, *body.outputs)
        for read in reads(body, root, at, values.__contains__)
    ]
    own = all(read.index == at and not read.guards and not read.reduced for read in own_reads)
    return own and all(body.type_of(value).dtype in KEPT for value in values)
