"""The nest for long chains of operations that wait for one another: stages, each a loop of its own.

Before, for `exp(x * sigmoid(x))`:         After:

    for v:                                     for u:
        y[v] = exp(x[v] * sigmoid(x[v]))           for v in u: kept[v] = x[v] * sigmoid(x[v])
                                                   for v in u: y[v] = exp(kept[v])

A processor looks ahead by a few hundred operations. Where an element takes as many, one after the
other, little is left to be done meanwhile; two loops of half as many overlap their elements. What
is kept is a block's, and stays in L1. The bits of a result do not depend on it.
"""

from __future__ import annotations

from functools import partial

from graphc.codegen.evaluate.loop_cut import LoopCut, Part
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.nest.rows import AxisLoop, Nest
from graphc.codegen.recipes.nest.widths import CHAIN, chain_length
from graphc.ir.dims import fixed
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.schedule.access import Index, coordinates, reads, unflatten

VECTORS = range(16, 3, -1)
"""Vectors of a block: the first of these numbers that divides the loop's, else the last."""
KEPT = (DType.f32, DType.f64, DType.i32, DType.i64)
MOST_KEPT = 3
"""Values that may be kept; storing and reading five of an LSTM's cell again took what it gained."""


class StagedNest(Nest):
    """A nest whose innermost loop goes through blocks of vectors, stage by stage."""

    stages: list[list[GraphValue]]
    """What each stage but the last keeps; that one stores the outputs."""

    @staticmethod
    def instead_of(nest: Nest) -> StagedNest | None:
        """Instead of an elementwise nest of long chains whose lanes are chosen. None where no two
        of them wait for one another."""
        stages = values_to_keep(nest)
        extent = nest.loops[-1].variable.extent
        if not stages or not isinstance(extent, int) or extent < VECTORS[-1] * nest.lanes:
            return None
        staged = StagedNest(nest.builder, nest.evaluator, nest.body, nest.outputs)
        staged.lanes, staged.stages = nest.lanes, stages
        return staged

    def _vectors(self, loop: AxisLoop) -> int:
        """Vectors of a block."""
        whole = fixed(loop.variable.extent) // self.lanes
        return next((count for count in VECTORS if whole % count == 0), VECTORS[-1])

    def _parts(self, loop: AxisLoop) -> int:
        return -(-(fixed(loop.variable.extent) // self.lanes) // self._vectors(loop))

    def _vector_loop(self, loop: AxisLoop, index: Index, part: Part | None = None) -> None:
        """As Nest's; the parts are blocks. The last block may have fewer vectors."""
        b, integers, parts = self.builder, self.evaluator.integers, self._parts(loop)
        vectors, cut = self._vectors(loop), LoopCut(loop.variable.extent, self.lanes)
        begin, end = part or (0, parts)
        with b.loop(begin, end, hint="u") as blocks_loop:
            block = Variable(f"u_{loop.first}", parts)
            integers.bind(block, blocks_loop.variable, b.block)
            count: int | LoopValue = vectors
            if fixed(cut.whole) % vectors:
                most = b.const(DType.i64, vectors)
                left = b.sub(b.size(cut.whole), b.mul(blocks_loop.variable, most))
                count = b.minimum(most, left)
            self._block(loop, index, of(block) * vectors, count)
        cut.last(integers, partial(self._vector, loop, index), part, parts)

    def _block(self, loop: AxisLoop, index: Index, first: Expr, count: int | LoopValue) -> None:
        """All stages for `count` vectors from `first` on."""
        shape, vectors = self.domain[loop.first :], self._vectors(loop)

        def inside(at: Index) -> Expr:
            return flatten(at[loop.first :], shape) - first * self.lanes

        for stage in self.stages:
            rows = {
                value: self.builder.scratch(
                    f"stage{value.node}", self.body.type_of(value).dtype, vectors * self.lanes
                )
                for value in stage
            }
            with self.builder.loop(0, count, hint="s") as vector_loop:
                at = index + unflatten(self._position(first, vector_loop.variable, vectors), shape)
                for value, row in rows.items():
                    self.evaluator.store(row, inside(at), self.evaluator.value(value, at), ())
            for value, row in rows.items():
                self.evaluator.keep_row(value, index, row, inside, self.builder.block)
        with self.builder.loop(0, count, hint="v") as vector_loop:
            self._store_inner(loop, index, self._position(first, vector_loop.variable, vectors), ())

    def _position(self, first: Expr, count: LoopValue, vectors: int) -> Expr:
        """The elements of one vector of a block."""
        integers, inside = self.evaluator.integers, self.builder.block
        vector, lane = Variable(count.name, vectors), Variable(f"lane_{count.name}", self.lanes)
        integers.bind(vector, count, inside)
        integers.bind_lane(lane, inside)
        return (first + of(vector)) * self.lanes + of(lane)


def values_to_keep(nest: Nest) -> list[list[GraphValue]]:
    """For each stage what later ones read of it, in order; none where that is not to be kept.

    A long chain that waits for another one of its stage begins the next stage. Of what stages read
    from earlier ones, all that is behind a long chain is kept, the rest computed again."""
    body, stages = nest.body, list[int]()
    behind: set[int] = set()
    crossing: set[GraphValue] = set()
    for identity, node in enumerate(body.nodes):
        stage = max((stages[operand.node] for operand in node.operands), default=0)
        waits = [operand for operand in node.operands if operand.node in behind]
        is_long = chain_length(nest, node) >= CHAIN
        stage += is_long and any(stages[operand.node] == stage for operand in waits)
        stages.append(stage)
        behind |= {identity} if is_long or waits else set()
        crossing |= {operand for operand in waits if stages[operand.node] < stage}
    last = max(stages)
    crossing |= {v for v in body.outputs if v.node in behind and stages[v.node] < last}
    if not last or len(crossing) > MOST_KEPT or not _can_be_kept(nest, crossing):
        return []
    return [
        sorted(value for value in crossing if stages[value.node] == stage) for stage in range(last)
    ]


def _can_be_kept(nest: Nest, values: set[GraphValue]) -> bool:
    """Whether each is a number over the whole domain, as all outputs are, that is read at its own
    place only."""
    body, at = nest.body, coordinates(nest.domain)
    if any(body.type_of(value).shape != nest.domain for value in (*values, *body.outputs)):
        return False
    own_reads = [
        read
        for root in (*values, *body.outputs)
        for read in reads(body, root, at, values.__contains__)
    ]
    own = all(read.index == at and not read.guards and not read.reduced for read in own_reads)
    return own and all(body.type_of(value).dtype in KEPT for value in values)
