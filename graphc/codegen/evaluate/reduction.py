"""Reductions with one fixed order, whatever is vectorised.

The reduced axes behind the last kept axis (one of size 1 does not count) are the *run*, the others
the *outer* axes. Element t of the run goes to lane t mod 64. A lane combines its elements in order,
starting from the identity, one outer index after the other, but at most BLOCK outer indices:
results of such blocks combine in order to results of BLOCK blocks, and so on, up to one. At last
the 64 lanes combine as a tree, lane i with lane i + 32, then i + 16, … So the bits depend on
neither vector width nor layout, and errors grow with the logarithm of the number of outer indices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.memory import MemoryAccess
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.nodes import Index as LoopIndex
from graphc.ir.nodes import Node
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.reduce import ArgReduce, Reduce
from graphc.ops.reduce import highest, lowest
from graphc.schedule.access import Index, outer_axes, reduced_index, unflatten

LANES = 64
# Registers a vector fills at most: so many chains of operations run side by side.
MOST_REGISTERS = 4
BLOCK = 16
# Up to this many elements are combined without a loop: windows of 5 x 5.
UNROLL_LIMIT = 32
# And so few of a single result: combining the lanes of a vector would take as long.
SCALAR_LIMIT = 4

Parts = tuple[LoopValue, ...]
Step = Callable[[Expr, list[Parts]], list[Parts]]
Chain = Callable[[Expr, int], list[Parts]]
ElementAt = Callable[[Index, tuple[Guard, ...]], LoopValue]
"""An element of what is reduced, unspecified where a guard fails."""

_count = itertools.count()


def reduce_value(
    access: MemoryAccess, op: Reduce, node: Node, source: TensorType, element: ElementAt,
    index: Index, guards: tuple[Guard, ...],
) -> LoopValue:  # fmt: skip
    """The reduction at `index` of what `element` gives, all of type `source`, in the block that
    knows the index."""
    return _Reduction(access, op, node, source, element, index, guards).value()


def block_unit(count: int) -> int:
    """Of how many outer indices the parts are that make `count` > BLOCK of them: a power of BLOCK,
    at least one part."""
    unit = BLOCK
    while unit * BLOCK < count:
        unit *= BLOCK
    return unit


class _Reduction:
    def __init__(
        self, access: MemoryAccess, op: Reduce, node: Node, source: TensorType, element: ElementAt,
        index: Index, guards: tuple[Guard, ...],
    ):  # fmt: skip
        self.access = access
        self.builder = access.builder
        self.op = op
        self.source_element = element
        self.index = index
        self.guards = guards
        self.axes = node.attribute("axes")
        self.dtype = source.dtype
        outer = len(outer_axes(source.shape, self.axes))
        shape = tuple(source.shape[axis] for axis in self.axes)
        self.outer_shape, self.run_shape = shape[:outer], shape[outer:]
        self.outer, self.run = math.prod(self.outer_shape), math.prod(self.run_shape)
        self.count = self.outer * self.run
        self.result = node.types[0].dtype
        # Positions are counted in as few bits as hold them, which leaves vectors wide.
        self.counted = DType.i32 if self.count <= highest(DType.i32) else DType.i64

    def value(self) -> LoopValue:
        access = self.access
        blocks = [access.integers.block_of(item) for item in self.index]
        blocks += [access.integers.block_of(guard[0]) for guard in self.guards]
        block = access.deepest(blocks)
        vector = any(access.integers.is_vector(item) for item in self.index)
        with self.builder.at(block):
            few = self.count <= UNROLL_LIMIT and self.outer <= BLOCK
            if few and (vector or self.count <= SCALAR_LIMIT):
                result = self._unrolled()
            elif self.run == 1:
                (result,) = self._blocks(of(0), self.outer, self._chain)
            elif vector:
                result = self._columns()
            else:
                result = self._row()
            converted = self.builder.convert(result[-1], self.result)
        return access.note(converted, block)

    # -- what is combined --------------------------------------------------------------------

    def _element(self, outer: Expr, at: Expr, guards: tuple[Guard, ...] = ()) -> Parts:
        """Element `at` of the run at an outer index."""
        position = unflatten(outer, self.outer_shape) + unflatten(at, self.run_shape)
        index = reduced_index(self.op, self.axes, self.index, position)
        value = self.source_element(index, self.guards + guards)
        if not isinstance(self.op, ArgReduce):
            return (value,)
        return (value, self._number(outer * self.run + at))

    def _number(self, position: Expr) -> LoopValue:
        integers = self.access.integers
        if position.is_constant:
            return self.builder.const(self.counted, position.constant)
        if integers.is_vector(position):
            return self.builder.convert(integers.positions(position, 0)[0], self.counted)
        return self.builder.convert(integers.number(position)[0], self.counted)

    def _identity(self) -> Parts:
        if not isinstance(self.op, ArgReduce):
            return (self.builder.const(self.dtype, self.op.identity(self.dtype)),)
        worst = lowest if self.op.name == "argmax" else highest
        last = self.builder.const(self.counted, highest(self.counted))
        return (self.builder.const(self.dtype, worst(self.dtype)), last)

    def _combine(self, left: Parts, right: Parts) -> Parts:
        algebra = self.access.algebra
        if not isinstance(self.op, ArgReduce):
            return (self.op.combine(algebra, left[0], right[0]),)
        (a, at_a), (b, at_b) = left, right
        tie = algebra.eq(a, b)
        if self.dtype.is_float:
            tie = algebra.logical_or(tie, algebra.logical_and(algebra.ne(a, a), algebra.ne(b, b)))
        takes = algebra.logical_or(
            self._beats(b, a), algebra.logical_and(tie, algebra.lt(at_b, at_a))
        )
        return algebra.select(takes, b, a), algebra.select(takes, at_b, at_a)

    def _beats(self, b: LoopValue, a: LoopValue) -> LoopValue:
        """Whether b is strictly better than a. NaN beats all numbers, and nothing beats NaN."""
        algebra = self.access.algebra
        if not self.dtype.is_float:
            return self.op.combine(algebra, b, a)  # type: ignore[no-any-return]
        # "a is at least as good" is one comparison, and false where one of them is NaN.
        holds = algebra.logical_or(self.op.combine(algebra, a, b), algebra.eq(a, b))
        return algebra.logical_and(algebra.logical_not(holds), algebra.eq(a, a))

    def _tree(self, lanes: list[Parts], full: int) -> Parts:
        """Of `full` lanes lane i with lane i + full/2, and so on; those behind the last one of the
        list hold nothing and are left out, and so may be those that nothing was combined with."""
        identity = self._identity()
        while full > 1:
            full //= 2
            for i in range(max(len(lanes) - full, 0)):
                lanes[i] = self._joined(lanes[i], lanes[i + full], identity)
            lanes = lanes[:full]
        return lanes[0]

    def _repeat(self, count: int, carried: list[Parts], step: Step) -> list[Parts]:
        """`step` for each number below `count`, in order."""
        if count == 0:
            return carried
        if count == 1:
            return step(of(0), carried)
        size = len(carried[0]) if carried else 1
        flat = [part for parts in carried for part in parts]
        with self.builder.loop(0, count, carried=flat, hint="r") as loop:
            variable = Variable(f"r{next(_count)}", count)
            self.access.integers.bind(variable, loop.variable, self.builder.block)
            combined = step(of(variable), _grouped(list(loop.carried), size))
            loop.yield_(*(part for parts in combined for part in parts))
        return _grouped(list(loop.results), size)

    # -- blocks of outer indices -------------------------------------------------------------

    def _blocks(self, start: Expr, count: int, chain: Chain) -> list[Parts]:
        """Lanes over the outer indices from `start` on; `chain` takes up to BLOCK of them."""
        if count <= BLOCK:
            return chain(start, count)
        unit = block_unit(count)
        whole, rest = divmod(count, unit)

        def add(block: Expr, lanes: list[Parts]) -> list[Parts]:
            part = self._blocks(start + block * unit, unit, chain)
            return [self._combine(a, b) for a, b in zip(lanes, part, strict=True)]

        lanes = self._repeat(whole, self._start(*self._width_of_lanes()), add)
        if not rest:
            return lanes
        part = self._blocks(start + whole * unit, rest, chain)
        return [self._combine(a, b) for a, b in zip(lanes, part, strict=True)]

    def _width_of_lanes(self) -> tuple[int, int]:
        """How many values hold a result's lanes, and how many numbers each of them holds."""
        if self.run == 1:
            return 1, max((self.access.integers.lanes_of(i) for i in self.index), default=1)
        width = min(self.access.lanes, LANES)
        while 2 * width <= min(self.run, LANES, MOST_REGISTERS * self.access.lanes):
            width *= 2
        return -(-min(self.run, LANES) // width), width

    def _start(self, number: int, width: int) -> list[Parts]:
        identity = tuple(self.builder.splat(part, width) for part in self._identity())
        return [identity] * number

    def _chain(self, start: Expr, count: int) -> list[Parts]:
        """The one lane where the run is a single element: a value of the index's width."""
        number, width = self._width_of_lanes()
        return self._repeat(
            count, self._start(number, width),
            lambda r, lanes: [self._combine(lanes[0], self._wide(start + r, of(0), width))],
        )  # fmt: skip

    # -- ways to go through the run ----------------------------------------------------------

    def _unrolled(self) -> Parts:
        """A few elements, each a value of its own."""
        if isinstance(self.op, ArgReduce):
            return self._first_best()
        identity = self._identity()
        if self.count == 0:
            return identity
        lanes = [identity] * self.run
        for outer, at in itertools.product(range(self.outer), range(self.run)):
            lanes[at] = self._joined(lanes[at], self._element(of(outer), of(at)), identity)
        return self._tree(lanes, LANES)

    def _joined(self, left: Parts, right: Parts, identity: Parts) -> Parts:
        """`_combine` of two where one may be the identity itself: a lane at its start, a tap on
        padding. No bit changes but a -0 at the start of a sum, and -0 is in no sum after that."""
        if right == identity:
            return left
        starts_with_zero = self.op.name == "sum" and self.dtype.is_float
        if left == identity and not starts_with_zero:
            return right
        return self._combine(left, right)

    def _first_best(self) -> Parts:
        """Element by element in order, so that a later one must be strictly better: which of equal
        elements is taken depends on no order, and this one takes the fewest operations."""
        algebra = self.access.algebra
        best, where = self._element(of(0), of(0))
        for position in range(1, self.count):
            outer, at = divmod(position, self.run)
            element, here = self._element(of(outer), of(at))
            takes = self._beats(element, best)
            best = algebra.select(takes, element, best)
            where = algebra.select(takes, here, where)
        return best, where

    def _row(self) -> Parts:
        """One result: the 64 lanes are vectors' lanes."""
        number, width = self._width_of_lanes()
        whole, rest = divmod(self.run, LANES)

        def along(outer: Expr, lanes: list[Parts]) -> list[Parts]:
            lanes = self._repeat(
                whole, lanes, lambda r, old: self._add_block(old, outer, r * LANES, LANES, width)
            )
            return self._add_block(lanes, outer, of(whole * LANES), rest, width) if rest else lanes

        def chain(start: Expr, count: int) -> list[Parts]:
            first = self._start(number, width)
            return self._repeat(count, first, lambda r, lanes: along(start + r, lanes))

        lanes = self._blocks(of(0), self.outer, chain)
        return self._horizontal(self._tree(lanes, LANES // width), width)

    def _add_block(
        self, lanes: list[Parts], outer: Expr, start: Expr, count: int, width: int
    ) -> list[Parts]:
        """Combined with elements `start` to `start + count`, at most 64, of the run."""
        lane = Variable(f"lane{next(_count)}", width)
        self.access.integers.bind_lane(lane, self.builder.block)
        combined = list(lanes)
        for k in range(-(-count // width)):
            at, left = start + of(lane) + k * width, count - k * width
            if left >= width:
                combined[k] = self._combine(lanes[k], self._wide(outer, at, width))
                continue
            guard = (of(lane), 0, left)
            held, _ = self.access.integers.mask((guard,))
            masked = self._combine(lanes[k], self._wide(outer, at, width, (guard,)))
            combined[k] = tuple(
                self.builder.select(held, new, old)
                for new, old in zip(masked, lanes[k], strict=True)
            )
        return combined

    def _wide(self, outer: Expr, at: Expr, width: int, guards: tuple[Guard, ...] = ()) -> Parts:
        return tuple(self.builder.splat(part, width) for part in self._element(outer, at, guards))

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
        width = max(self.access.integers.lanes_of(item) for item in self.index)
        lanes = min(LANES, self.run)
        memory = self._blocks_in_memory(of(0), self.outer, lanes, width)
        half = LANES // 2
        while half:
            self._fold(memory, half, lanes, width)
            lanes = min(lanes, half)
            half //= 2
        return tuple(self.builder.load(buffer, 0, width) for buffer in memory)

    def _blocks_in_memory(self, start: Expr, count: int, lanes: int, width: int) -> list[Buffer]:
        """As `_blocks`, each level in scratch of its own."""
        identity = self._identity()
        memory = [
            self.builder.scratch(f"lanes{next(_count)}", part.type.dtype, lanes * width)
            for part in identity
        ]
        with self.builder.loop(0, lanes, hint="l") as fill:
            for buffer, part in zip(memory, identity, strict=True):
                at = self.builder.index(0, (fill.variable, width))
                self.builder.store(buffer, at, self.builder.splat(part, width))
        if count <= BLOCK:
            self._repeat(count, [], lambda r, _: self._add_run(memory, start + r, width))
            return memory
        unit = block_unit(count)
        whole, rest = divmod(count, unit)

        def add(block: Expr, count: int) -> list[Parts]:
            part = self._blocks_in_memory(start + block * unit, count, lanes, width)
            with self.builder.loop(0, lanes, hint="l") as loop:
                at = self.builder.index(0, (loop.variable, width))
                self._combine_at(memory, at, part, at, width)
            return []

        self._repeat(whole, [], lambda block, _: add(block, unit))
        if rest:
            add(of(whole), rest)
        return memory

    def _add_run(self, memory: list[Buffer], outer: Expr, width: int) -> list[Parts]:
        whole, rest = divmod(self.run, LANES)
        self._repeat(
            whole, [], lambda r, _: self._add_lanes(memory, outer, r * LANES, LANES, width)
        )
        if rest:
            self._add_lanes(memory, outer, of(whole * LANES), rest, width)
        return []

    def _add_lanes(
        self, memory: list[Buffer], outer: Expr, start: Expr, count: int, width: int
    ) -> list[Parts]:
        with self.builder.loop(0, count, hint="l") as loop:
            lane = Variable(f"l{next(_count)}", count)
            self.access.integers.bind(lane, loop.variable, self.builder.block)
            at = self.builder.index(0, (loop.variable, width))
            old = tuple(self.builder.load(buffer, at, width) for buffer in memory)
            new = self._combine(old, self._wide(outer, start + of(lane), width))
            for buffer, part in zip(memory, new, strict=True):
                self.builder.store(buffer, at, part)
        return []

    def _fold(self, memory: list[Buffer], half: int, lanes: int, width: int) -> None:
        """Lane i with lane i + half, for the lanes that exist."""
        if lanes <= half:
            return
        with self.builder.loop(0, min(half, lanes - half), hint="l") as loop:
            low = self.builder.index(0, (loop.variable, width))
            high = self.builder.index(half * width, (loop.variable, width))
            self._combine_at(memory, low, memory, high, width)

    def _combine_at(
        self, memory: list[Buffer], at: LoopIndex, other: list[Buffer], there: LoopIndex, width: int
    ) -> None:
        left = tuple(self.builder.load(buffer, at, width) for buffer in memory)
        right = tuple(self.builder.load(buffer, there, width) for buffer in other)
        for buffer, part in zip(memory, self._combine(left, right), strict=True):
            self.builder.store(buffer, at, part)


def _grouped(flat: list[LoopValue], size: int) -> list[Parts]:
    return [tuple(flat[i : i + size]) for i in range(0, len(flat), size)]
