"""Reductions with one fixed order, whatever is vectorised.

The reduced axes behind the last kept axis are the *run*, the others the *outer* axes. Element t of
the run goes to lane t mod 64. A run of more than RUN_BLOCK elements is cut into pieces of as many,
and the number of the piece is the innermost outer index. A lane combines its elements in order,
starting from the identity, one outer index after the other, but at most BLOCK outer indices:
results of such blocks combine in order to results of BLOCK blocks, and so on, up to one. At last
the 64 lanes combine as a tree, lane i with lane i + 32, then i + 16, … So the bits depend on
neither vector width nor layout, errors grow with the logarithm of the number of outer indices, and
no sum grows so long in one lane that what is added is lost. Integers and bools combine to the same
in any order, so theirs are not cut.

Where a size is known only at run time, the same order is written as loops with bounds computed
there. Levels that are not needed combine with the identity, and so do lanes without elements:
that changes no bit (a sum from +0 is never -0).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.combination import LANES, RUN_BLOCK, ElementAt, Parts
from graphc.codegen.elements.leaf_loops import counted_loop
from graphc.codegen.elements.memory import MemoryAccess
from graphc.codegen.elements.outer_blocks import BLOCK, HeldLanes, OuterBlocks
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.nodes import Index as LoopIndex
from graphc.codegen.loop_ir.numbers import Number
from graphc.ir.dims import at_most, known_number
from graphc.ir.nodes import Node
from graphc.ir.types import TensorType
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.reduce import ArgReduce, Reduce
from graphc.schedule.access import Index

# Up to this many elements are combined without a loop: windows of 5 x 5.
UNROLL_LIMIT = 32
# And so few of a single result: combining the lanes of a vector would take as long.
SCALAR_LIMIT = 4

_count = itertools.count()


def reduce_value(
    access: MemoryAccess, op: Reduce, node: Node, source: TensorType, element: ElementAt,
    index: Index, guards: tuple[Guard, ...],
) -> LoopValue:  # fmt: skip
    """The reduction at `index` of what `element` gives, all of type `source`, in the block that
    knows the index."""
    return _Reduction(access, op, node, source, element, index, guards).value()


class _Reduction(OuterBlocks):
    def value(self) -> LoopValue:
        access = self.access
        blocks = [access.addresses.block_of(item) for item in self.index]
        blocks += [access.addresses.block_of(guard[0]) for guard in self.guards]
        block = access.deepest(blocks)
        vector = any(access.addresses.is_vector(item) for item in self.index)
        with self.builder.at(block):
            few = self._few(UNROLL_LIMIT if vector else SCALAR_LIMIT)
            if self._is_empty:
                result = self._identity()
            elif few is not None:
                result = self._unrolled(*few)
            elif self.run == 1:
                result = self._chain()
            elif vector:
                result = self._columns()
            else:
                result = self._row()
            converted = self.builder.convert(result[-1], self.result)
        return access.note(converted, block)

    @property
    def _is_empty(self) -> bool:
        """Whether there is no element, however many rows of none there are."""
        return known_number(self.count) == 0 and not isinstance(self.op, ArgReduce)

    def _few(self, most: int) -> tuple[int, int] | None:
        """Outer indices, in one block of them, and elements of the run, where at most so many
        elements are combined."""
        outer, run = known_number(self.outer), known_number(self.run)
        if outer is None or run is None or outer * run > most or outer > BLOCK:
            return None
        return outer, run

    # -- ways to go through the run ----------------------------------------------------------

    def _unrolled(self, outers: int, run: int) -> Parts:
        """A few elements, each a value of its own."""
        if isinstance(self.op, ArgReduce):
            return self._first_best(outers, run)
        identity = self._identity()
        lanes = [identity] * run
        for outer, at in itertools.product(range(outers), range(run)):
            lanes[at] = self._joined(lanes[at], self._element(of(outer), of(at)), identity)
        return self._tree(lanes, LANES)

    def _chain(self) -> Parts:
        """The one lane where the run is a single element: a value of the index's width."""
        _, width = self._width_of_lanes()
        (result,) = self._in_registers(
            lambda outer, lanes: [self._combine(lanes[0], self._wide(outer, of(0), width))]
        )
        return result

    def _row(self) -> Parts:
        """One result: the 64 lanes are vectors' lanes."""
        _, width = self._width_of_lanes()
        lanes = self._in_registers(lambda outer, lanes: self._along(outer, lanes, width))
        return self._horizontal(self._tree(lanes, LANES // width), width)

    def _along(self, outer: Expr, lanes: list[Parts], width: int) -> list[Parts]:
        """Combined with all elements of the run, or of its piece, at an outer index."""

        def add(r: Expr, count: int, lanes: list[Parts]) -> list[Parts]:
            return self._add_block(lanes, outer, r * LANES, count, width)

        if self.whole_run is not None:
            return self._in_tiles(self.whole_run, LANES, lanes, add)
        blocks, _ = self._cut_piece(outer)
        lanes = self._repeat(
            RUN_BLOCK // LANES, lanes, lambda r, lanes: add(r, LANES, lanes), blocks
        )
        if self.run % LANES == 0:
            return lanes
        start = Variable(f"rest{next(_count)}", RUN_BLOCK // LANES + 1)
        self.access.addresses.bind(start, blocks, self.builder.block)
        return self._add_masked(lanes, outer, of(start) * LANES, width)

    def _cut_piece(self, outer: Expr) -> tuple[LoopValue, LoopValue]:
        """Whole blocks of 64 in the run's piece at an outer index, and elements left."""
        b, n = self.builder, self.builder.numbers
        run = n.value(self.run)  # it stands ahead of what follows
        behind = n.sub(run, self.access.addresses.scalar(self._start_of_piece(outer)))
        count, lanes = n.value(n.minimum(behind, RUN_BLOCK)), n.value(LANES)
        return b.op("div", count, lanes), b.op("rem", count, lanes)

    def _add_masked(self, lanes: list[Parts], outer: Expr, start: Expr, width: int) -> list[Parts]:
        """Combined with the elements from `start` on, fewer than 64, up to the end of the run or of
        its piece."""
        lane = Variable(f"lane_r{next(_count)}", width)
        self.access.addresses.bind_lane(lane, self.builder.block)
        combined = []
        for k, old in enumerate(lanes):
            at = start + of(lane) + k * width
            ends = (at, 0, RUN_BLOCK), (self._start_of_piece(outer) + at, 0, self.run)
            combined.append(self._masked(old, outer, at, width, ends))
        return combined

    def _masked(
        self, old: Parts, outer: Expr, at: Expr, width: int, guards: tuple[Guard, ...]
    ) -> Parts:
        """A vector of lanes, those where the guards hold combined with their elements."""
        held, _ = self.access.addresses.mask(guards)
        combined = self._combine(old, self._wide(outer, at, width, guards))
        return tuple(
            self.builder.select(held, new, kept) for new, kept in zip(combined, old, strict=True)
        )

    def _add_block(
        self, lanes: list[Parts], outer: Expr, start: Expr, count: int, width: int
    ) -> list[Parts]:
        """Combined with elements `start` to `start + count`, at most 64, of the run."""
        lane = Variable(f"lane_r{next(_count)}", width)
        self.access.addresses.bind_lane(lane, self.builder.block)
        combined = list(lanes)
        for k in range(-(-count // width)):
            at, left = start + of(lane) + k * width, count - k * width
            if left >= width:
                combined[k] = self._combine(lanes[k], self._wide(outer, at, width))
                continue
            combined[k] = self._masked(lanes[k], outer, at, width, ((of(lane), 0, left),))
        return combined

    def _horizontal(self, parts: Parts, width: int) -> Parts:
        while width > 1:
            width //= 2
            low, high = tuple(range(width)), tuple(range(width, 2 * width))
            parts = self._combine(
                tuple(self.builder.shuffle(p, p, low) for p in parts),
                tuple(self.builder.shuffle(p, p, high) for p in parts),
            )
        return parts

    # -- lanes in memory ---------------------------------------------------------------------

    def _columns(self) -> Parts:
        """A vector of results with a run: the 64 lanes are 64 vectors in scratch memory."""
        width = max(self.access.addresses.lanes_of(item) for item in self.index)
        lanes = at_most(self.run, LANES)
        memory = self._blocks(of(0), self.outer, lambda: _InMemory(self, lanes, width)).memory
        half = LANES // 2
        while half:
            self._fold(memory, half, lanes, width)
            lanes = min(lanes, half)
            half //= 2
        return tuple(self.builder.load(buffer, 0, width) for buffer in memory)

    def _cleared(self, lanes: int, width: int) -> list[Buffer]:
        """Lanes that hold the identity."""
        identity = self._identity()
        memory = [
            self.builder.scratch(f"lanes{next(_count)}", part.type.dtype, lanes * width)
            for part in identity
        ]

        def clear(lane: LoopValue) -> None:
            at = self.builder.index(0, (lane, width))
            for buffer, part in zip(memory, identity, strict=True):
                self.builder.store(buffer, at, self.builder.splat(part, width))

        self._each_lane(lanes, clear)
        return memory

    def _each_lane(self, count: Number, body: Callable[[LoopValue], None]) -> None:
        """`body` for each lane below `count`."""

        def at(number: Number, values: list[LoopValue]) -> list[LoopValue]:
            body(self.builder.numbers.value(number))
            return values

        counted_loop(self.builder, 0, count, at, hint="l", always=True)

    def _join_memory(
        self, memory: list[Buffer], part: list[Buffer], lanes: int, width: int
    ) -> None:
        """Combines lanes with those of a part, each with its own."""

        def join(lane: LoopValue) -> None:
            at = self.builder.index(0, (lane, width))
            self._combine_at(memory, at, part, at, width)

        self._each_lane(lanes, join)

    def _add_run(self, memory: list[Buffer], outer: Expr, width: int) -> list[Parts]:
        if self.whole_run is None:
            return self._add_piece(memory, outer, width)
        return self._in_tiles(
            self.whole_run, LANES, [],
            lambda r, count, _: self._add_lanes(memory, outer, r * LANES, count, width),
        )  # fmt: skip

    def _add_piece(self, memory: list[Buffer], outer: Expr, width: int) -> list[Parts]:
        blocks, left = self._cut_piece(outer)
        self._repeat(
            RUN_BLOCK // LANES, [],
            lambda r, _: self._add_lanes(memory, outer, r * LANES, LANES, width), blocks,
        )  # fmt: skip
        start = Variable(f"rest{next(_count)}", RUN_BLOCK // LANES + 1)
        self.access.addresses.bind(start, blocks, self.builder.block)
        return self._add_lanes(memory, outer, of(start) * LANES, left, width)

    def _add_lanes(
        self, memory: list[Buffer], outer: Expr, start: Expr, count: Number, width: int
    ) -> list[Parts]:
        def add(number: LoopValue) -> None:
            lane = Variable(f"l{next(_count)}", at_most(count, LANES))
            self.access.addresses.bind(lane, number, self.builder.block)
            at = self.builder.index(0, (number, width))
            old = tuple(self.builder.load(buffer, at, width) for buffer in memory)
            new = self._combine(old, self._wide(outer, start + of(lane), width))
            for buffer, part in zip(memory, new, strict=True):
                self.builder.store(buffer, at, part)

        self._each_lane(count, add)
        return []

    def _fold(self, memory: list[Buffer], half: int, lanes: int, width: int) -> None:
        """Lane i with lane i + half, for the lanes that exist."""
        if lanes <= half:
            return

        def fold(lane: LoopValue) -> None:
            low = self.builder.index(0, (lane, width))
            high = self.builder.index(half * width, (lane, width))
            self._combine_at(memory, low, memory, high, width)

        self._each_lane(min(half, lanes - half), fold)

    def _combine_at(
        self, memory: list[Buffer], at: LoopIndex, other: list[Buffer], there: LoopIndex, width: int
    ) -> None:
        left = tuple(self.builder.load(buffer, at, width) for buffer in memory)
        right = tuple(self.builder.load(buffer, there, width) for buffer in other)
        for buffer, part in zip(memory, self._combine(left, right), strict=True):
            self.builder.store(buffer, at, part)


class _InMemory:
    """The lanes of a block in scratch of its own: so many, of vectors of a width."""

    def __init__(self, reduction: _Reduction, lanes: int, width: int) -> None:
        self._reduction = reduction
        self._lanes, self._width = lanes, width
        self.memory = reduction._cleared(lanes, width)
        self.carried: list[Parts] = []

    def begin(self) -> list[Parts]:
        return []

    def add(self, outer: Expr, carried: list[Parts]) -> list[Parts]:
        return self._reduction._add_run(self.memory, outer, self._width)

    def join(self, carried: list[Parts], part: HeldLanes) -> list[Parts]:
        assert isinstance(part, _InMemory)
        self._reduction._join_memory(self.memory, part.memory, self._lanes, self._width)
        return []
