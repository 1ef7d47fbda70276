"""Loops that leaves and stages write for themselves: over what is summed, what a copy holds, or
what is gone through with values in registers.

In: a variable, the positions it runs over, what is done at each. Out: the loop, in which indices
know the variable. One that is known to have one position or none is not written as a loop, unless
it is asked for. Loops over the axes of a nest are the nests' writer's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number, is_known, known_range
from graphc.ir.dims import Extent
from graphc.ops.kinds.index_expr import Expr, Variable, of

Bounds = tuple[Number, Number]
"""The first position, and the one behind the last."""


def counted_loop(
    builder: LoopBuilder, begin: Number, end: Number,
    body: Callable[[Number, list[LoopValue]], Sequence[LoopValue]],
    carried: Sequence[LoopValue] = (), step: int = 1, hint: str = "i", always: bool = False,
) -> list[LoopValue]:  # fmt: skip
    """What `body(position, values)` makes of `carried` at `begin`, `begin + step`, … below `end`,
    in order. `always`: a loop also where it is known that there is one position."""
    positions = known_range(begin, end, step)
    if positions is not None and len(positions) <= (not always):
        values = list(carried)
        for position in positions:
            values = list(body(position, values))
        return values
    with builder.loop(begin, end, step, carried=carried, hint=hint) as loop:
        loop.yield_(*body(loop.variable, list(loop.carried)))
    return list(loop.results)


def position_of(addresses: Addresses, name: str, extent: Extent, number: Number) -> Expr:
    """A loop's position below `extent`, by this name in index expressions."""
    if is_known(number):
        return of(number)
    variable = Variable(name, extent)
    addresses.bind(variable, addresses.builder.numbers.value(number), addresses.builder.block)
    return of(variable)


def each(
    addresses: Addresses, variable: Variable, bounds: Bounds, hint: str,
    body: Callable[[Expr], object],
) -> None:  # fmt: skip
    """`body` at each position."""

    def added(position: Expr, values: list[LoopValue]) -> Sequence[LoopValue]:
        body(position)
        return ()

    fold(addresses, variable, bounds, hint, (), added)


def fold(
    addresses: Addresses, variable: Variable, bounds: Bounds, hint: str,
    values: Sequence[LoopValue],
    body: Callable[[Expr, list[LoopValue]], Sequence[LoopValue]], step: int = 1,
) -> list[LoopValue]:  # fmt: skip
    """What `body` makes of the values position by position, in order, every `step`-th of them."""

    builder = addresses.builder

    def at(number: Number, carried: list[LoopValue]) -> Sequence[LoopValue]:
        addresses.bind(variable, builder.numbers.value(number), builder.block)
        return body(of(variable), carried)

    return counted_loop(builder, *bounds, at, values, step, hint, always=True)
