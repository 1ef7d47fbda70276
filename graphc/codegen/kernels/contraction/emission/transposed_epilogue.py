"""Outputs of sums that lie in scratch as [position][what runs along vectors], in memory's order.

Sums are transposed in blocks of registers, so that what a body computes of them it computes, and
stores, by whole vectors of neighbouring positions, in one short loop.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.nests.nest import Holds, NestPlace, Room
from graphc.ops.kinds.index_expr import Expr
from graphc.records import record
from graphc.schedule.access import Index


@record
class TransposedEpilogue:
    """The outputs for `positions`, by way of scratch."""

    emit: Emitter
    positions: int
    transposed: Buffer

    def store(
        self, sums: Buffer, first: Callable[[Expr], Expr], along: int,
        index: Callable[[Expr, Expr], Index], joined: bool = False, count: Number | None = None,
    ) -> None:  # fmt: skip
        """first(p) is where the sums of position p begin; index(i, p) the coordinate of the i-th of
        them in the result. `joined`: i-th and next lie behind one another there, so vectors run
        over both, and index(0, i · positions + p) is the coordinate. `count`: only so many of them
        are there."""
        emit, positions, lanes = self.emit, self.positions, self.emit.lanes
        block = emit.builder.block

        def read(i: Expr, position: Expr, guards: tuple[Guard, ...]) -> LoopValue:
            return emit.evaluator.load(sums, first(position) + i, guards, block)

        emit.copier.transposed(
            along, positions, read, lambda i, p: i * positions + p, self.transposed
        )
        filled_in = emit.builder.block
        runs = 1 if joined else along
        size = along * positions // runs

        def vector(run: Expr, start: Expr, count: int) -> None:
            lane = emit.copier.lane()
            guards = ((lane, 0, count),) if count < lanes else ()
            total = emit.evaluator.load(
                self.transposed, run * size + start + lane, guards, filled_in
            )
            emit.finish(index(run, start + lane), guards, emit.builder.splat(total, lanes))

        def one(run: Expr) -> None:
            emit.copier.tiles(size, lanes, "out", lambda at, count: vector(run, at * lanes, count))

        emit.copier.loop(runs, "run", one, count)


@record
class Transposed:
    """The stage of a block's sums in the order of memory, of at most `along` that run along
    vectors: scratch of the leaf that reads it."""

    along: int
    positions: int
    name: str = "transposed"
    room: Room = ()
    whole: tuple[str, ...] = ()
    holds: Holds = Holds.NUMBERS

    @property
    def text(self) -> str:
        return f"sums [{self.along}][{self.positions} positions]"

    def declare(self, emit: Emitter) -> TransposedEpilogue:
        memory = emit.scratch(self.name, self.along * self.positions)
        return TransposedEpilogue(emit, self.positions, memory)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError
