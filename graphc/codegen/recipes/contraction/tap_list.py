"""Lists of the kernel positions that exist, for strategies that leave out all others.

A list is made ahead of all loops from the guards of the op's own index map, so strides, dilation,
and the gradient by the input, of whose taps a stride leaves few, need no code of their own (an
indirect convolution, after Dukhan, "The Indirect Convolution Algorithm", 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.recipes.contraction.emitter import Emitter
from graphc.codegen.recipes.contraction.k_blocks import K_BLOCK, cut
from graphc.ir.dims import always_le
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, of

Entry = Callable[[Expr, Expr], tuple[tuple[Expr, ...], tuple[Guard, ...]]]
"""Of a position and a tap: the numbers to list, and the guards under which the tap exists."""


@dataclass(frozen=True, slots=True)
class TapList:
    """`starts[p]` is where the entries of position p begin in `listed`, each of `size` numbers."""

    emit: Emitter
    listed: Buffer
    starts: Buffer
    size: int

    def bounds(self, position: LoopValue) -> tuple[LoopValue, LoopValue]:
        """Where the entries of a position begin and end."""
        builder = self.emit.builder
        behind = builder.index(1, position)
        return builder.load(self.starts, position), builder.load(self.starts, behind)

    def number(self, entry: LoopValue, number: int, variable: Variable) -> Expr:
        """One of the numbers of the entry that begins there, as `variable`."""
        builder = self.emit.builder
        value = builder.load(self.listed, builder.index(number, entry))
        self.emit.addresses.bind(variable, value, builder.block)
        return of(variable)


def list_taps(emit: Emitter, positions: int, taps: int, size: int, entry: Entry) -> TapList:
    """Writes the loops that list the taps of all positions, one position after the other."""
    builder, addresses = emit.builder, emit.addresses
    # One more: an entry is written first, and counted if its tap exists.
    listed = builder.scratch("listed", DType.i64, size * (positions * taps + 1))
    starts = builder.scratch("starts", DType.i64, positions + 1)
    zero, more = emit.numbers.value(0), emit.numbers.value(size)
    with builder.loop(0, positions, carried=[zero], hint="position") as outer:
        position = Variable("listed_position", positions)
        addresses.bind(position, outer.variable, builder.block)
        builder.store(starts, outer.variable, outer.carried[0])
        with builder.loop(0, taps, carried=outer.carried, hint="tap") as inner:
            tap = Variable("listed_tap", taps)
            addresses.bind(tap, inner.variable, builder.block)
            numbers, guards = entry(of(position), of(tap))
            (at,) = inner.carried
            for number, value in enumerate(numbers):
                builder.store(listed, builder.index(number, at), addresses.scalar(value))
            held, _ = addresses.mask(guards)
            inner.yield_(builder.add(at, builder.select(held, more, zero)))
        outer.yield_(*inner.results)
    builder.store(starts, positions, outer.results[0])
    return TapList(emit, listed, starts, size)


def over_k_blocks(
    emit: Emitter, sums: Buffer, vectors: int, body: Callable[[Number, Number, bool], None]
) -> None:
    """`body(begin, end, added)` for the indices of k's first axis, those of one K block at a time:
    their sums are to be stored, or, where there are several K blocks, to be `added` to what the
    first so many vectors of scratch hold, which are zeros at first."""
    k, builder = emit.view.k, emit.builder
    axis, step = cut(k)
    assert axis == 0, "the taps of one plane are part of one K block"
    if always_le(math.prod(k), K_BLOCK):
        body(0, builder.numbers.bound(k[0]), False)
        return
    start = emit.first_addend() if emit.problem.has_sizes else None
    emit.clear(sums, vectors, lambda at: at * emit.lanes, start)
    with builder.loop(0, k[0], step, hint="k_block") as loop:
        behind = emit.numbers.add(loop.variable, step)
        body(loop.variable, emit.numbers.minimum(behind, k[0]), True)


def store_sums(
    emit: Emitter, sums: Buffer, positions: list[Expr], totals: list[LoopValue], added: bool
) -> None:
    """Stores vectors of sums, or adds them to what is there."""
    for position, total in zip(positions, totals, strict=True):
        if added:
            before = emit.evaluator.load(sums, position, (), emit.builder.block)
            total = emit.builder.add(before, total)
        emit.evaluator.store(sums, position, total)
