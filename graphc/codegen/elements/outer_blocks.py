"""Blocks of outer indices: how a reduction's lanes go through them, level by level.

In: a reduction, and what a chain of up to BLOCK outer indices gives. Out: its lanes over all of
them: results of chains combine in order, BLOCK at a time and from the identity, the results of that
again, up to one. The number of outer indices may be known only at run time: then there is a loop
for each level there could be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from graphc.codegen.elements.combination import LANES, Combination, Parts
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.ir.dims import Dim, Extent, always_le, at_most, ceil_div
from graphc.ops.kinds.index_expr import Expr, Variable, of

# Registers a vector fills at most: so many chains of operations run side by side.
MOST_REGISTERS = 4
BLOCK = 16
# Levels of blocks where the number of outer indices is known only at run time: 2^32 of them.
MOST_LEVELS = 8

Step = Callable[[Expr, list[Parts]], list[Parts]]
Chain = Callable[[Expr, Number], list[Parts]]

_count = itertools.count()


def block_unit(count: int) -> int:
    """Of how many outer indices the parts are that make `count` > BLOCK of them: a power of BLOCK,
    at least one part."""
    unit = BLOCK
    while unit * BLOCK < count:
        unit *= BLOCK
    return unit


def levels_of(count: Extent) -> int:
    """Levels of blocks that hold `count` outer indices, whatever the sizes are."""
    levels = 1
    while levels < MOST_LEVELS and not always_le(count, BLOCK**levels):
        levels += 1
    return levels


class OuterBlocks(Combination):
    """A reduction whose lanes are loop values."""

    def _repeat(
        self, count: Extent, carried: list[Parts], step: Step, end: Number | None = None
    ) -> list[Parts]:
        """`step` for each number below `count`, in order; with `end`, below that, which is at most
        `count`."""
        if count == 0:
            return carried
        if count == 1 and end is None:
            return step(of(0), carried)
        size = len(carried[0]) if carried else 1
        flat = [part for parts in carried for part in parts]
        with self.builder.loop(0, count if end is None else end, carried=flat, hint="r") as loop:
            variable = Variable(f"r{next(_count)}", count)
            self.access.addresses.bind(variable, loop.variable, self.builder.block)
            combined = step(of(variable), _grouped(list(loop.carried), size))
            loop.yield_(*(part for parts in combined for part in parts))
        return _grouped(list(loop.results), size)

    def _in_tiles(
        self, count: int, size: int, carried: list[Parts],
        step: Callable[[Expr, int, list[Parts]], list[Parts]],
    ) -> list[Parts]:  # fmt: skip
        """`step` for each tile of `size`, in order; the last one may have fewer elements."""
        whole, rest = count // size, count % size
        carried = self._repeat(whole, carried, lambda tile, carried: step(tile, size, carried))
        return step(of(whole), rest, carried) if rest else carried

    # -- blocks of outer indices -------------------------------------------------------------

    @property
    def _levels(self) -> int:
        """Levels of blocks there may be. What combines in any order is one chain."""
        return 1 if self.any_order else levels_of(self.outer)

    def _blocks(self, start: Expr, count: Extent, chain: Chain) -> list[Parts]:
        """Lanes over the outer indices from `start` on; `chain` takes up to BLOCK of them."""
        if isinstance(count, Dim):
            return self._blocks_at_run_time(start, self._levels, chain)
        if count <= BLOCK or self.any_order:
            return chain(start, count)
        unit = block_unit(count)

        def add(block: Expr, count: int, lanes: list[Parts]) -> list[Parts]:
            return self._joined_lanes(lanes, self._blocks(start + block * unit, count, chain))

        return self._in_tiles(count, unit, self._start(*self._width_of_lanes()), add)

    def _blocks_at_run_time(self, start: Expr, level: int, chain: Chain) -> list[Parts]:
        """The same, for up to BLOCK ** level of the outer indices from `start` on, as many as there
        are; at the highest level for all."""
        highest = level == self._levels
        if level == 1:
            return chain(start, self._left(start, 1, None if highest else BLOCK))
        unit = BLOCK ** (level - 1)

        def add(block: Expr, lanes: list[Parts]) -> list[Parts]:
            part = self._blocks_at_run_time(start + block * unit, level - 1, chain)
            return self._joined_lanes(lanes, part)

        end = self._left(start, unit, None if highest else BLOCK)
        bound = ceil_div(self.outer, unit) if highest else BLOCK
        return self._repeat(bound, self._start(*self._width_of_lanes()), add, end)

    def _left(self, start: Expr, unit: int, most: int | None) -> LoopValue:
        """How many units of outer indices there are from `start` on, at most `most`."""
        n = self.builder.numbers
        left: Number = n.value(ceil_div(self.outer, unit))
        if not start.is_constant or start.constant != 0:
            ahead = n.sub(self.outer, self.access.addresses.scalar(start))
            left = n.floordiv(n.add(ahead, unit - 1), unit)
        return n.value(left if most is None else n.minimum(left, most))

    def _joined_lanes(self, lanes: list[Parts], others: list[Parts]) -> list[Parts]:
        return [self._combine(a, b) for a, b in zip(lanes, others, strict=True)]

    def _width_of_lanes(self) -> tuple[int, int]:
        """How many values hold a result's lanes, and how many numbers each of them holds."""
        if self.run == 1:
            return 1, max((self.access.addresses.lanes_of(i) for i in self.index), default=1)
        present = at_most(self.run, LANES)
        width = min(self.access.lanes, LANES)
        while 2 * width <= min(present, MOST_REGISTERS * self.access.lanes):
            width *= 2
        return -(-present // width), width

    def _start(self, number: int, width: int) -> list[Parts]:
        identity = tuple(self.builder.splat(part, width) for part in self._identity())
        return [identity] * number

    def _each(self, start: Expr, count: Number, lanes: list[Parts], step: Step) -> list[Parts]:
        """`step` for the outer indices of a chain from `start` on."""
        most = self.outer if self.any_order else BLOCK
        bound, end = (count, None) if isinstance(count, int) else (most, count)
        return self._repeat(bound, lanes, lambda r, lanes: step(start + r, lanes), end)

    def _chain(self, start: Expr, count: Number) -> list[Parts]:
        """The one lane where the run is a single element: a value of the index's width."""
        lane, width = self._width_of_lanes()
        return self._each(
            start, count, self._start(lane, width),
            lambda outer, lanes: [self._combine(lanes[0], self._wide(outer, of(0), width))],
        )  # fmt: skip


def _grouped(flat: list[LoopValue], size: int) -> list[Parts]:
    return [tuple(flat[i : i + size]) for i in range(0, len(flat), size)]
