"""Numbers, loops and vectors as the recipe `winograd` writes them.

In: an `EmissionContext`. Out: `Numbers`, index expressions of loop variables and of numbers that
a kernel computes; `TransformVector`, on which the transforms are written as sums and differences.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Index, LoopValue
from graphc.codegen.recipes.contraction.emitter import EmissionContext
from graphc.ir.dims import Dim, Extent
from graphc.ops.kinds.index_expr import Expr, Variable, of

Number = LoopValue | Extent


@dataclass(frozen=True, slots=True)
class TransformVector:
    """A loop value that is added and subtracted as the transforms are written."""

    builder: LoopBuilder
    value: LoopValue

    def __add__(self, other: TransformVector) -> TransformVector:
        return TransformVector(self.builder, self.builder.add(self.value, other.value))

    def __sub__(self, other: TransformVector) -> TransformVector:
        return TransformVector(self.builder, self.builder.sub(self.value, other.value))


class Numbers:
    """Names each number that an index depends on."""

    def __init__(self, context: EmissionContext) -> None:
        self.builder = context.builder
        self.addresses = context.evaluator.addresses
        self.names = itertools.count()

    def number(self, number: Number) -> LoopValue:
        return number if isinstance(number, LoopValue) else self.builder.size(number)

    def times(self, x: LoopValue, by: int) -> LoopValue:
        return self.builder.mul(x, self.number(by))

    def minimum(self, x: LoopValue, y: Number) -> LoopValue:
        return self.builder.minimum(x, self.number(y))

    def bound(self, value: Number, extent: Extent) -> Expr:
        """A number below `extent` as an index expression."""
        if not isinstance(value, LoopValue):
            return of(value)
        variable = Variable(f"winograd{next(self.names)}", extent)
        self.addresses.bind(variable, value, self.builder.block)
        return of(variable)

    def each(
        self, extent: int, hint: str, body: Callable[[Expr], None], end: Number | None = None
    ) -> None:
        """`body` for each position below `extent`, or below `end`, which is not greater."""
        if extent == 1 and end is None:
            body(of(0))
            return
        last = self.number(end) if isinstance(end, Dim) else end
        with self.builder.loop(0, extent if last is None else last, hint=hint) as loop:
            body(self.bound(loop.variable, extent))

    def lane(self, lanes: int) -> Expr:
        variable = Variable(f"winograd{next(self.names)}", lanes)
        self.addresses.bind_lane(variable, self.builder.block)
        return of(variable)

    def at(self, linear: Expr) -> Index:
        return self.addresses.offset(linear)[0]
