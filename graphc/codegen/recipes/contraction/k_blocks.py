"""The order of a contraction's sums: where chains of products end, and the loops that add them.

In: the extents of the reduced coordinates, and what adds the products at one of them. Out: loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Variable, of
from graphc.schedule.access import Index

CHAIN = 256
"""Products of one FMA chain at most; longer sums add chains in order (level exact's arithmetic)."""


def cut(k: Shape) -> tuple[int, int]:
    """Where chains end: after each `step` indices of `axis` of the reduced coordinates, with all
    indices of the axes behind it: as many as make at most `CHAIN` products."""
    inner = 1
    for axis in reversed(range(len(k))):
        if inner * k[axis] > CHAIN:
            return axis, max(CHAIN // inner, 1)
        inner *= k[axis]
    return 0, k[0] if k else 1


Accumulate = Callable[[Index, list[LoopValue]], list[LoopValue]]


class Chains:
    """Writes the loops of a sum over k. `body(k, sums)` adds the products at k to all sums; axes
    from `unrolled` on are written out, the others are loops."""

    def __init__(
        self, builder: LoopBuilder, evaluator: Evaluator, k: Shape, unrolled: int, body: Accumulate
    ) -> None:
        self.builder = builder
        self.integers = evaluator.integers
        self.k = k
        self.unrolled = unrolled
        self.body = body
        self.axis, self.step = cut(k)

    def total(
        self,
        zeros: list[LoopValue],
        start: list[LoopValue] | None = None,
        first: int | LoopValue = 0,
        last: int | LoopValue | None = None,
    ) -> list[LoopValue]:
        """The sums, on top of those in `start`; of indices first…last of the first axis only."""
        if 0 in self.k:
            return start or zeros
        if start is None and math.prod(self.k) <= CHAIN:
            return self._nest(0, (), zeros, 0, self.k[0] if self.k else 1)
        self.zeros = zeros
        bounds = (first, self.k[0] if last is None else last)
        return self._chains(0, (), start or zeros, bounds)

    def _chains(
        self, level: int, prefix: Index, totals: list[LoopValue],
        bounds: tuple[int | LoopValue, int | LoopValue],
    ) -> list[LoopValue]:  # fmt: skip
        extent, step = self.k[level], self.step if level == self.axis else 1
        if level == self.axis and bounds == (0, extent) and step >= extent:
            return self._added(totals, self._nest(level, prefix, self.zeros, 0, extent))
        begin, end = bounds
        with self.builder.loop(begin, end, step, carried=totals, hint="chain") as loop:
            variable = Variable(f"chain{level}", extent)
            self.integers.bind(variable, loop.variable, self.builder.block)
            carried = list(loop.carried)
            if level == self.axis:
                limit = self._limit(loop.variable, end, step)
                chain = self._nest(level, prefix, self.zeros, loop.variable, limit)
                loop.yield_(*self._added(carried, chain))
            else:
                inner = (0, self.k[level + 1])
                loop.yield_(*self._chains(level + 1, (*prefix, of(variable)), carried, inner))
        return list(loop.results)

    def _limit(self, begin: LoopValue, end: int | LoopValue, step: int) -> int | LoopValue:
        """Where the chain that starts at `begin` ends."""
        if step == 1 and not isinstance(end, LoopValue):
            return self.builder.add(begin, self.builder.const(DType.i64, 1))
        behind = self.builder.add(begin, self.builder.const(DType.i64, step))
        if isinstance(end, int) and end % step == 0:
            return behind
        bound = end if isinstance(end, LoopValue) else self.builder.const(DType.i64, end)
        return self.builder.minimum(behind, bound)

    def _added(self, totals: list[LoopValue], chain: list[LoopValue]) -> list[LoopValue]:
        return [self.builder.add(a, b) for a, b in zip(totals, chain, strict=True)]

    def _nest(
        self,
        level: int,
        prefix: Index,
        sums: list[LoopValue],
        begin: int | LoopValue,
        end: int | LoopValue,
    ) -> list[LoopValue]:
        """One chain: indices begin…end of axis `level`, and all of the axes behind it."""
        if level >= len(self.k):
            return self.body(prefix, sums)
        static = isinstance(begin, int) and isinstance(end, int)
        if static and (level >= self.unrolled or end - begin == 1):  # type: ignore[operator]
            for position in range(begin, end):  # type: ignore[arg-type]
                sums = self._inner(level, (*prefix, of(position)), sums)
            return sums
        with self.builder.loop(begin, end, carried=sums, hint=f"k{level}") as loop:
            variable = Variable(f"k{level}", self.k[level])
            self.integers.bind(variable, loop.variable, self.builder.block)
            loop.yield_(*self._inner(level, (*prefix, of(variable)), list(loop.carried)))
        return list(loop.results)

    def _inner(self, level: int, prefix: Index, sums: list[LoopValue]) -> list[LoopValue]:
        if level + 1 == len(self.k):
            return self.body(prefix, sums)
        return self._nest(level + 1, prefix, sums, 0, self.k[level + 1])
