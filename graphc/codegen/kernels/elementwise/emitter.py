"""What every strategy for nests writes loops with: loops over a domain, vectors, stores.

In: a builder, the evaluator of the body, a problem. Out: a `NestEmitter`, which holds no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.elements.addresses import Addresses, Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.common import lanes_within
from graphc.codegen.kernels.elementwise.destinations import StoreDestination
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.ir.dims import Extent
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import record
from graphc.schedule.access import Index

AtPosition = Callable[[Expr, tuple[Guard, ...]], None]
"""Writes what is done at the elements of a vector of a loop."""


@record
class NestEmitter:
    """Writes one kernel for a nest."""

    builder: LoopBuilder
    evaluator: Evaluator
    outputs: Sequence[StoreDestination]

    @property
    def addresses(self) -> Addresses:
        return self.evaluator.addresses

    # -- loops -------------------------------------------------------------------------------

    def vector(
        self, nest: LoopNest, lanes: int, number: Expr, rest: Extent | None, body: AtPosition
    ) -> None:
        """One vector of the innermost loop, or what is left of the last one. Index maps are told
        that there are no more elements, so that rows of an image stay rows also where a vector is
        longer."""
        addresses, first = self.evaluator.addresses, number * lanes
        if rest is not None:
            lanes = lanes_within(lanes, rest, self.evaluator.lanes)
        lane = every = Variable(f"lane_{nest.inner.first}", lanes)
        addresses.bind_lane(every, self.builder.block)
        guards: tuple[Guard, ...] = ()
        if rest is not None:
            lane = Variable(f"rest_{nest.inner.first}", rest)
            addresses.bind_lane(lane, self.builder.block, every)
            if rest not in (1, lanes):
                guards = ((of(every), 0, rest),)
        body(first + of(lane), guards)

    # -- stores ------------------------------------------------------------------------------

    def store(
        self, nest: LoopNest, level: int, index: Index, guards: tuple[Guard, ...] = (),
        outputs: Sequence[StoreDestination] = (),
    ) -> None:  # fmt: skip
        """Stores the outputs whose last axis is covered by the first `level` loops; `outputs`:
        where, if not where the problem says."""
        ready = []
        for output, destination in zip(nest.body.outputs, outputs or self.outputs, strict=True):
            rank = len(nest.body.type_of(output).shape)
            if nest.level_of(rank) == level:
                value = self.evaluator.value(output, index[:rank], guards)
                ready.append((destination, index[:rank], value))
        # All values first: an output may take the place of something another still reads.
        for destination, at, value in ready:
            self.evaluator.store(destination.buffer, destination.linear(at), value, guards)
