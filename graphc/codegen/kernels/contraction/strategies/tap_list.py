"""Lists of the kernel positions that exist, for strategies that leave out all others.

A list is made ahead of all loops from the guards of the op's own index map, so strides, dilation,
and the gradient by the input, of whose taps a stride leaves few, need no code of their own (an
indirect convolution, after Dukhan, "The Indirect Convolution Algorithm", 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.leaf_loops import counted_loop, fold
from graphc.codegen.kernels.contraction.emission.axes import sum_axis
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.problem.k_blocks import cut, is_one_block
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.nests.nest import ForEach, Holds, NestPlace, Room, Split, Statement
from graphc.codegen.nests.tails import Tail
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import record

Entry = Callable[[Expr, Expr], tuple[tuple[Expr, ...], tuple[Guard, ...]]]
"""Of a position and a tap: the numbers to list, and the guards under which the tap exists."""


@record
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


@record
class Taps:
    """The stage that lists the taps of all positions, one position after the other, each as `size`
    numbers."""

    positions: int
    taps: int
    size: int
    entry: Entry
    name: str = "taps"
    room: Room = ()
    whole: tuple[str, ...] = ()
    holds: Holds = Holds.NUMBERS

    @property
    def text(self) -> str:
        return f"i64 [{self.positions} positions][taps that exist][{self.size}]"

    def declare(self, emit: Emitter) -> TapList:
        # One more: an entry is written first, and counted if its tap exists.
        size = self.size * (self.positions * self.taps + 1)
        listed = emit.builder.scratch("listed", DType.i64, size)
        starts = emit.builder.scratch("starts", DType.i64, self.positions + 1)
        return TapList(emit, listed, starts, self.size)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> TapList:
        builder, addresses = emit.builder, emit.addresses
        taps: TapList = place.memory[self.name]
        listed, starts = taps.listed, taps.starts
        zero, more = emit.numbers.value(0), emit.numbers.value(self.size)

        def listing(position: Expr, tap: Expr, listed_at: list[LoopValue]) -> list[LoopValue]:
            numbers, guards = self.entry(position, tap)
            (at,) = listed_at
            for number, value in enumerate(numbers):
                builder.store(listed, builder.index(number, at), addresses.scalar(value))
            held, _ = addresses.mask(guards)
            return [builder.add(at, builder.select(held, more, zero))]

        def of_position(position: Expr, at: list[LoopValue]) -> list[LoopValue]:
            builder.store(starts, addresses.scalar(position), at[0])
            tap = Variable("listed_tap", self.taps)
            return fold(
                addresses, tap, (0, self.taps), "tap", at, lambda t, at: listing(position, t, at)
            )

        position = Variable("listed_position", self.positions)
        bounds = 0, self.positions
        (end,) = fold(addresses, position, bounds, "position", [zero], of_position)
        builder.store(starts, self.positions, end)
        return taps


def is_cut(k: Shape) -> bool:
    """Whether there are several K blocks."""
    return not is_one_block(math.prod(k))


def in_k_blocks(
    problem: ContractionProblem, clear: tuple[Statement, ...], body: tuple[Statement, ...]
) -> tuple[Statement, ...]:
    """`body` for the indices of k's first axis, those of one K block at a time; where there are
    several, behind what clears the sums that it adds to."""
    axis, step = cut(problem.view.k)
    assert axis == 0, "the taps of one plane are part of one K block"
    if not is_cut(problem.view.k):
        return body
    planes = Split("k", sum_axis(problem), step, Tail.STEPPED)
    return (*clear, ForEach(planes, body))


def planes_of(emit: Emitter, place: NestPlace) -> tuple[tuple[Number, Number], bool]:
    """The indices of k's first axis at a place, and whether their products are added to sums that
    are there, or are all."""
    if "k" not in place.spans:
        return (0, emit.numbers.bound(emit.view.k[0])), False
    bounds = place["k"].bounds
    assert bounds is not None
    return bounds, True


def over_taps(
    emit: Emitter, taps: TapList, position: Expr, planes: tuple[Number, Number],
    zeros: list[LoopValue],
    body: Callable[[Expr, LoopValue, list[LoopValue]], list[LoopValue]],
    begun: Callable[[Expr], None] = lambda plane: None,
) -> list[LoopValue]:  # fmt: skip
    """The sums of body(plane, entry, sums) over the taps that are listed of a position, plane after
    plane; `begun`: ahead of those of a plane."""
    listed = taps.bounds(emit.addresses.scalar(position))

    def of_plane(plane: Expr, sums: list[LoopValue]) -> list[LoopValue]:
        begun(plane)

        def added(entry: Number, sums: list[LoopValue]) -> list[LoopValue]:
            return body(plane, emit.numbers.value(entry), sums)

        return counted_loop(emit.builder, *listed, added, sums, taps.size, "tap")

    variable = Variable("plane", emit.view.k[0])
    return fold(emit.addresses, variable, planes, "plane", zeros, of_plane)


def store_sums(
    emit: Emitter, sums: Buffer, positions: list[Expr], totals: list[LoopValue], added: bool
) -> None:
    """Stores vectors of sums, or adds them to what is there."""
    for position, total in zip(positions, totals, strict=True):
        if added:
            before = emit.evaluator.load(sums, position, (), emit.builder.block)
            total = emit.builder.add(before, total)
        emit.evaluator.store(sums, position, total)
