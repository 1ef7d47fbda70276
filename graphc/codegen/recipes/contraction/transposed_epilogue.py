"""Outputs of sums that lie in scratch as [position][what runs along vectors], in memory's order.

Sums are turned in blocks of registers, so that what a body computes of them it computes, and
stores, by whole vectors of neighbouring positions, in one short loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.recipes.contraction.loop_order import LoopOrder
from graphc.ops.kinds.index_expr import Expr, of
from graphc.schedule.access import Index


@dataclass(frozen=True)
class TurnedOutputs:
    """The outputs of an order of loops for `positions`, by way of scratch."""

    order: LoopOrder
    positions: int
    turned: Buffer

    @staticmethod
    def of_order(order: LoopOrder, along: int, positions: int) -> TurnedOutputs:
        """For at most so many that run along vectors."""
        turned = order.builder.scratch("turned", order.dtype, along * positions)
        return TurnedOutputs(order, positions, turned)

    def store(
        self, sums: Buffer, first: Callable[[Expr], Expr], along: int,
        index: Callable[[Expr, Expr], Index], joined: bool = False,
    ) -> None:  # fmt: skip
        """first(p) is where the sums of position p begin; index(i, p) the coordinate of the i-th of
        them in the result. `joined`: i-th and next lie behind one another there, so vectors run
        over both, and index(0, i · positions + p) is the coordinate."""
        order, positions = self.order, self.positions
        evaluator, copier, lanes = order.evaluator, order.copier, order.lanes
        block = order.builder.block

        def read(i: Expr, position: Expr, guards: tuple[Guard, ...]) -> LoopValue:
            return evaluator.load(sums, first(position) + i, guards, block)

        copier.transposed(along, positions, read, lambda i, p: i * positions + p, self.turned)
        filled_in = order.builder.block
        runs = 1 if joined else along
        size = along * positions // runs

        def vector(run: Expr, start: Expr, count: int) -> None:
            lane = copier.lane()
            guards = ((lane, 0, count),) if count < lanes else ()
            total = evaluator.load(self.turned, run * size + start + lane, guards, filled_in)
            order.finish(index(run, start + lane), guards, order.builder.splat(total, lanes))

        def one(run: Expr) -> None:
            whole, rest = divmod(size, lanes)
            if whole:
                copier.loop(whole, "out", lambda at: vector(run, at * lanes, lanes))
            if rest:
                vector(run, of(whole * lanes), rest)

        copier.loop(runs, "run", one)
