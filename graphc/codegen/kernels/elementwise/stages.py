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

from graphc.codegen.kernels.elementwise.axes import vectors_of
from graphc.codegen.kernels.elementwise.element_nest import StoreOutputs, element_nest, store_level
from graphc.codegen.kernels.elementwise.kept_values import KeepValues, KeptValues
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.kernels.elementwise.widths import CHAIN, chain_length, registers
from graphc.codegen.nests.nest import Compute, Fill, ForEach, Nest, Split, Statement
from graphc.codegen.nests.tails import Tail
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.types import DType
from graphc.records import record
from graphc.schedule.access import coordinates, reads

VECTORS = range(16, 3, -1)
"""Vectors of a block: the first of these numbers that divides the loop's, else the last."""
KEPT = (DType.f32, DType.f64, DType.i32, DType.i64)
MOST_KEPT = 3
"""Values that may be kept; storing and reading five of an LSTM's cell again took what it gained."""


@record
class StagesPlan:
    """The lanes, which fill several registers, vectors of a block, and what each stage but the last
    keeps."""

    over: LoopNest
    lanes: int
    block: int
    stages: tuple[tuple[GraphValue, ...], ...]

    @staticmethod
    def of(over: LoopNest) -> StagesPlan | None:
        """For an elementwise nest of long chains. None where no two of them wait for one
        another."""
        lanes = over.lanes * registers(over)
        if lanes == over.lanes:
            return None
        stages, extent = values_to_keep(over), over.length
        if not stages or extent is None or extent < VECTORS[-1] * lanes:
            return None
        whole = extent // lanes
        block = next((count for count in VECTORS if whole % count == 0), VECTORS[-1])
        return StagesPlan(over, lanes, block, stages)

    def nest(self) -> Nest:
        """Blocks of vectors, and in each a loop for every stage; of what is left all at once."""
        over, depth = self.over, len(self.over.loops)
        vectors, count = vectors_of(over, self.lanes), self.block
        blocks = Split("u", vectors, count, Tail.BEHIND, variable=f"u_{over.inner.first}")
        kept: list[KeptValues] = []
        body: list[Statement] = []
        for values in self.stages:
            elements, before = count * self.lanes, tuple(kept)
            stages = [KeptValues(over, v, elements, self.lanes, blocks.name) for v in values]
            leaves = tuple(Compute(KeepValues(stage, before)) for stage in stages)
            body.append(ForEach(vectors, leaves, within=blocks))
            body += map(Fill, stages)
            kept += stages
        store, alone = (
            ForEach(vectors, (Compute(StoreOutputs(over, depth, self.lanes, reads)),), blocks)
            for reads in (kept, ())
        )
        loop = ForEach(blocks, (*body, store), rest=(alone,))
        inside = (*(store_level(over, depth - 1) if depth > 1 else ()), loop)
        return element_nest(over, inside, blocks, stages=tuple(kept))


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
