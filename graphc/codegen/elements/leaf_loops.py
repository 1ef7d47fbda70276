"""Loops that leaves and stages write for themselves: over what is summed, or what a copy holds.

In: a variable, the positions it runs over, what is done at each. Out: the loop, in which indices
know the variable. Loops over the axes of a nest are the nests' writer's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.ops.kinds.index_expr import Expr, Variable, of

Bounds = tuple[Number, Number]
"""The first position, and the one behind the last."""


def each(
    addresses: Addresses, variable: Variable, bounds: Bounds, hint: str,
    body: Callable[[Expr], object],
) -> None:  # fmt: skip
    """`body` at each position."""
    builder = addresses.builder
    with builder.loop(*bounds, hint=hint) as loop:
        addresses.bind(variable, loop.variable, builder.block)
        body(of(variable))


def fold(
    addresses: Addresses, variable: Variable, bounds: Bounds, hint: str,
    values: Sequence[LoopValue],
    body: Callable[[Expr, list[LoopValue]], Sequence[LoopValue]], step: int = 1,
) -> list[LoopValue]:  # fmt: skip
    """What `body` makes of the values position by position, in order, every `step`-th of them."""
    builder = addresses.builder
    with builder.loop(*bounds, step, carried=list(values), hint=hint) as loop:
        addresses.bind(variable, loop.variable, builder.block)
        loop.yield_(*body(of(variable), list(loop.carried)))
    return list(loop.results)
