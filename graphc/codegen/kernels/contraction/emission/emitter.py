"""What stages and leaves write with: elements, sums, the body's outputs.

In: an `EmissionContext` (what the kernel is written with) and a problem. Out: an `Emitter`, which
holds no more than these and what follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.copier import Copier
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.leaf_loops import each
from graphc.codegen.kernels.contraction.emission.guarded_sums import GuardedSums
from graphc.codegen.kernels.contraction.problem.k_blocks import first_addend
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.ir.dims import Extent
from graphc.ir.nodes import Value
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.records import record
from graphc.schedule.access import Index, behind_reshape


@record
class EmissionContext:
    """A kernel being written: its builder, the evaluator of its body, its output buffers."""

    builder: LoopBuilder
    evaluator: Evaluator
    outputs: list[Buffer]

    def finish(
        self, anchor: Value, index: Index, guards: tuple[Guard, ...], total: LoopValue
    ) -> None:
        """Compute and store the body's outputs for one vector of the anchor's results. A reshaped
        output has its elements where they lie without."""
        body = self.evaluator.body
        self.evaluator.bind(anchor, index, total, self.builder.block)
        domain = body.type_of(anchor).shape
        ready = []
        for buffer, output in zip(self.outputs, body.outputs, strict=True):
            same = body.type_of(output).shape == domain
            inner = output if same else behind_reshape(body, output)
            value = self.evaluator.value(inner, index, guards)
            ready.append((buffer, flatten(index, domain), value))
        for buffer, linear, value in ready:
            self.evaluator.store(buffer, linear, value, guards)


class Emitter:
    """Writes one kernel for a problem, by vectors of so many lanes."""

    def __init__(self, context: EmissionContext, problem: ContractionProblem, lanes: int) -> None:
        self.context = context
        self.builder = context.builder
        self.numbers = context.builder.numbers
        self.evaluator = context.evaluator
        self.addresses = context.evaluator.addresses
        self.problem = problem
        self.view = problem.view
        self.dtype = problem.dtype
        self.lanes = lanes
        self.copier = Copier(self.builder, self.evaluator, lanes)
        self.zero = self.builder.splat(self.builder.const(self.dtype, 0), lanes)
        self.guarded = GuardedSums(self.copier, self.view.singly, self.zero)
        self._tile_memory: dict[tuple[DType, int], Buffer] = {}

    def tile_memory(self, dtype: DType, count: int) -> Buffer:
        """Scratch for so many sums of a tile, the same for all tiles."""
        known = self._tile_memory.get((dtype, count))
        if known is None:
            known = self.builder.scratch(f"tile_{dtype.value}_{count}", dtype, count)
            self._tile_memory[dtype, count] = known
        return known

    def nested(self, variables: Sequence[Variable], name: str, body: Callable[[], object]) -> None:
        """`body` inside a loop for each of the variables."""
        if not variables:
            body()
            return
        first, *inner = variables
        bounds = 0, first.extent
        each(self.addresses, first, bounds, name, lambda _: self.nested(inner, name, body))

    # -- elements ----------------------------------------------------------------------------

    def zeros(self, count: int) -> list[LoopValue]:
        return [self.zero] * count

    def scratch(self, name: str, size: Extent) -> Buffer:
        return self.builder.scratch(name, self.dtype, size)

    def tile_lane(self) -> Expr:
        """The lanes of a tile's vectors: one variable, so that tiles share what depends on it."""
        lane = Variable("tile_lane", self.lanes)
        self.addresses.bind_lane(lane, self.builder.block)
        return of(lane)

    def first_addend(self) -> LoopValue:
        """What the first K block of a sum is added to."""
        return first_addend(self.builder, self.view.k, self.builder.const(self.dtype, 0))

    def multiply_add(self, x: LoopValue, y: LoopValue, total: LoopValue) -> LoopValue:
        if self.dtype.is_float:
            return self.builder.fma(x, y, total)
        return self.builder.add(self.builder.mul(x, y), total)

    def clear(
        self, memory: Buffer, vectors: Extent, first: Callable[[Expr], Expr],
        value: LoopValue | None = None,
    ) -> None:  # fmt: skip
        """Zeros, or copies of a scalar, in so many vectors of scratch, the i-th of them at element
        first(i)."""
        value = value or self.builder.const(self.dtype, 0)
        self.copier.loop(
            vectors, "clear",
            lambda at: self.evaluator.store(memory, first(at) + self.copier.lane(), value),
        )  # fmt: skip

    def finish(self, index: Index, guards: tuple[Guard, ...], total: LoopValue) -> None:
        """Compute and store the body's outputs for one vector of results."""
        self.context.finish(self.view.anchor, index, guards, total)
