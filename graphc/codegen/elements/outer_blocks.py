"""Blocks of outer indices: how a reduction's lanes go through them, level by level.

In: a reduction, and where its lanes are held. Out: its lanes over all outer indices: those of up to
BLOCK of them one after the other, the results of that in order, BLOCK at a time and from the
identity, the results of that again, up to one. The number of outer indices may be known only at run
time: then there is a loop for each level there could be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Protocol, TypeVar

from graphc.codegen.elements.combination import LANES, Combination, Parts
from graphc.codegen.elements.leaf_loops import counted_loop, position_of
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.ir.dims import Extent, at_most, bounds_of, ceil_div, known_number
from graphc.ops.kinds.index_expr import Expr, of

# Registers a vector fills at most: so many chains of operations run side by side.
MOST_REGISTERS = 4
BLOCK = 16
# Levels of blocks where nothing bounds the number of outer indices: 2^32 of them.
MOST_LEVELS = 8

Step = Callable[[Expr, list[Parts]], list[Parts]]
N = TypeVar("N", int, Extent)

_count = itertools.count()


class HeldLanes(Protocol):
    """The lanes of one block of outer indices: in registers, which loops carry, or in scratch."""

    carried: list[Parts]
    """What loops carry: all lanes in the end, or nothing where they are in scratch."""

    def begin(self) -> list[Parts]:
        """What loops carry at first, each lane being the identity."""

    def add(self, outer: Expr, carried: list[Parts]) -> list[Parts]:
        """Combined with the elements at an outer index."""

    def join(self, carried: list[Parts], part: HeldLanes) -> list[Parts]:
        """Combined with the lanes of a block inside."""


H = TypeVar("H", bound=HeldLanes)


def levels_of(count: Extent) -> int:
    """Levels of blocks that hold `count` outer indices, whatever the sizes are."""
    least, most = bounds_of(count)
    levels = 1
    while BLOCK**levels < (most if levels < MOST_LEVELS else least):
        levels += 1
    return levels


class OuterBlocks(Combination):
    """A reduction whose lanes are loop values."""

    def _repeat(
        self, count: Extent, carried: list[Parts], step: Step, end: Number | None = None
    ) -> list[Parts]:
        """`step` for each number below `count`, in order; with `end`, below that, which is at most
        `count`."""
        size = len(carried[0]) if carried else 1

        def at(number: Number, flat: list[LoopValue]) -> list[LoopValue]:
            r = position_of(self.access.addresses, f"r{next(_count)}", count, number)
            return _flat(step(r, _grouped(flat, size)))

        flat = counted_loop(
            self.builder, 0, count if end is None else end, at, _flat(carried), hint="r"
        )
        return _grouped(flat, size)

    def _in_tiles(
        self, count: N, size: int, carried: list[Parts],
        step: Callable[[Expr, N, list[Parts]], list[Parts]],
    ) -> list[Parts]:  # fmt: skip
        """`step` for each tile of `size`, in order; the last one may have fewer elements, a number
        of them."""
        whole, rest = count // size, count % size
        carried = self._repeat(whole, carried, lambda tile, carried: step(tile, size, carried))
        return step(of(whole), rest, carried) if rest else carried

    # -- blocks of outer indices -------------------------------------------------------------

    def _blocks(self, start: Expr, count: Extent, hold: Callable[[], H]) -> H:
        """Lanes over the outer indices from `start` on: so many, or where their number is known
        only at run time up to so many. What combines in any order is one block."""
        held, levels = hold(), 1 if self.any_order else levels_of(count)
        unit = BLOCK ** (levels - 1)

        def add(block: Expr, count: Extent, carried: list[Parts]) -> list[Parts]:
            first = start + block * unit
            if levels == 1:
                return held.add(first, carried)
            return held.join(carried, self._blocks(first, count, hold))

        if known_number(self.outer) is None:
            most = ceil_div(count, unit)
            end = self._left(start, unit, most)
            held.carried = self._repeat(
                most, held.begin(), lambda block, carried: add(block, unit, carried), end
            )
        else:
            held.carried = self._in_tiles(count, unit, held.begin(), add)
        return held

    def _left(self, start: Expr, unit: int, most: Extent) -> LoopValue:
        """How many units of outer indices there are from `start` on, at most `most`."""
        n = self.builder.numbers
        every = n.value(ceil_div(self.outer, unit))
        if start.is_constant and start.constant == 0:
            return every
        ahead = n.sub(self.outer, self.access.addresses.scalar(start))
        return n.value(n.minimum(n.floordiv(n.add(ahead, unit - 1), unit), most))

    def _width_of_lanes(self) -> tuple[int, int]:
        """How many values hold a result's lanes, and how many numbers each of them holds."""
        if self.run == 1:
            return 1, max((self.access.addresses.lanes_of(i) for i in self.index), default=1)
        present = at_most(self.run, LANES)
        width = min(self.access.lanes, LANES)
        while 2 * width <= min(present, MOST_REGISTERS * self.access.lanes):
            width *= 2
        return -(-present // width), width

    def _in_registers(self, add: Step) -> list[Parts]:
        """Lanes over all outer indices, in registers; `add` combines them with those of one."""
        return self._blocks(of(0), self.outer, lambda: _InRegisters(self, add)).carried


class _InRegisters:
    def __init__(self, reduction: OuterBlocks, add: Step) -> None:
        self._reduction = reduction
        self.add = add
        self.carried: list[Parts] = []

    def begin(self) -> list[Parts]:
        reduction = self._reduction
        number, width = reduction._width_of_lanes()
        identity = tuple(reduction.builder.splat(x, width) for x in reduction._identity())
        return [identity] * number

    def join(self, carried: list[Parts], part: HeldLanes) -> list[Parts]:
        pairs = zip(carried, part.carried, strict=True)
        return [self._reduction._combine(a, b) for a, b in pairs]


def _flat(grouped: list[Parts]) -> list[LoopValue]:
    return [part for parts in grouped for part in parts]


def _grouped(flat: list[LoopValue], size: int) -> list[Parts]:
    return [tuple(flat[i : i + size]) for i in range(0, len(flat), size)]
