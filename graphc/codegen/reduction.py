"""Reductions with one fixed order, whatever is vectorised.

Element r of the reduced elements (row-major over the reduced axes) goes to lane r mod 64; each lane
combines its elements in order, starting from the identity; the 64 lanes combine as a tree, lane i
with lane i + 32, then i + 16, … So the bits depend on neither vector width nor layout.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from graphc.codegen.evaluate import Evaluator
from graphc.codegen.integers import Guard
from graphc.codegen.loops import Value
from graphc.ir.nodes import Node
from graphc.ir.types import DType
from graphc.ops.index import Expr, Variable, of
from graphc.ops.kinds import ArgReduce, Reduce
from graphc.ops.reduce import highest, lowest
from graphc.schedule.access import Index, reduced_index, unflatten

LANES = 64
# Up to this many elements are combined without a loop.
UNROLL_LIMIT = 16

Parts = tuple[Value, ...]
Combine = Callable[[Parts, Parts], Parts]

_count = itertools.count()


def reduce_value(
    evaluator: Evaluator, op: Reduce, node: Node, index: Index, guards: tuple[Guard, ...]
) -> Value:
    """The reduction at `index`, in the block that knows the index."""
    return _Reduction(evaluator, op, node, index, guards).value()


class _Reduction:
    def __init__(
        self,
        evaluator: Evaluator,
        op: Reduce,
        node: Node,
        index: Index,
        guards: tuple[Guard, ...],
    ):
        self.evaluator = evaluator
        self.builder = evaluator.builder
        self.op = op
        self.operand = node.operands[0]
        self.index = index
        self.guards = guards
        self.axes = node.attribute("axes")
        source = evaluator.body.type_of(self.operand)
        self.dtype = source.dtype
        self.shape = tuple(source.shape[axis] for axis in self.axes)
        self.count = math.prod(self.shape)

    def value(self) -> Value:
        evaluator = self.evaluator
        blocks = [evaluator.integers.block_of(item) for item in self.index]
        blocks += [evaluator.integers.block_of(guard[0]) for guard in self.guards]
        block = evaluator.deepest(blocks)
        vector = any(evaluator.integers.is_vector(item) for item in self.index)
        with self.builder.at(block):
            if self.count <= UNROLL_LIMIT and (vector or self.count <= 2):
                result = self._unrolled()
            elif vector:
                result = self._columns()
            else:
                result = self._row()
        return evaluator.note(result[-1], block)

    # -- what is combined --------------------------------------------------------------------

    def _element(self, position: Expr, guards: tuple[Guard, ...] = ()) -> Parts:
        at = reduced_index(self.op, self.axes, self.index, unflatten(position, self.shape))
        value = self.evaluator.value(self.operand, at, self.guards + guards)
        if not isinstance(self.op, ArgReduce):
            return (value,)
        where, _ = self.evaluator.integers.number(position)
        return (value, where)

    def _identity(self) -> Parts:
        if not isinstance(self.op, ArgReduce):
            return (self.builder.const(self.dtype, self.op.identity(self.dtype)),)
        worst = lowest if self.op.name == "argmax" else highest
        last = self.builder.const(DType.i64, (1 << 63) - 1)
        return (self.builder.const(self.dtype, worst(self.dtype)), last)

    def _combine(self, left: Parts, right: Parts) -> Parts:
        algebra = self.evaluator.algebra
        if not isinstance(self.op, ArgReduce):
            return (self.op.combine(algebra, left[0], right[0]),)
        (a, at_a), (b, at_b) = left, right
        better = self.op.combine(algebra, b, a)
        tie = algebra.eq(a, b)
        if self.dtype.is_float:
            # NaN beats all numbers; of two the first counts.
            nan_a, nan_b = algebra.ne(a, a), algebra.ne(b, b)
            beats = algebra.logical_and(nan_b, algebra.logical_not(nan_a))
            better = algebra.logical_and(
                algebra.logical_or(better, beats), algebra.logical_not(nan_a)
            )
            tie = algebra.logical_or(tie, algebra.logical_and(nan_a, nan_b))
        takes = algebra.logical_or(better, algebra.logical_and(tie, algebra.lt(at_b, at_a)))
        return algebra.select(takes, b, a), algebra.select(takes, at_b, at_a)

    def _tree(self, lanes: list[Parts]) -> Parts:
        """Lane i with lane i + 32, then + 16, …; lanes that hold nothing are left out."""
        half = LANES // 2
        while half:
            for i in range(max(min(half, len(lanes) - half), 0)):
                lanes[i] = self._combine(lanes[i], lanes[i + half])
            lanes = lanes[:half] if len(lanes) > half else lanes
            half //= 2
        return lanes[0]

    # -- three ways to go through the elements -----------------------------------------------

    def _unrolled(self) -> Parts:
        """A few elements, each a value of its own."""
        identity = self._identity()
        if self.count == 0:
            return identity
        elements = [self._combine(identity, self._element(of(i))) for i in range(self.count)]
        return self._tree(elements)

    def _row(self) -> Parts:
        """One result: the 64 lanes are vectors' lanes."""
        width = min(self.evaluator.lanes, LANES)
        vectors = LANES // width
        lane = Variable(f"lane{next(_count)}", width)
        identity = self._identity()
        start = [tuple(self.builder.splat(p, width) for p in identity) for _ in range(vectors)]
        whole, rest = divmod(self.count, LANES)
        flat = [part for parts in start for part in parts]
        if whole:
            with self.builder.loop(0, whole, carried=flat, hint="r") as loop:
                self.evaluator.integers.bind_lane(lane, self.builder.block)
                block = Variable(f"r{next(_count)}", whole)
                self.evaluator.integers.bind(block, loop.variable, self.builder.block)
                carried = self._grouped(list(loop.carried), len(identity))
                made = [
                    self._combine(
                        parts, self._wide(of(block) * LANES + of(lane) + k * width, width)
                    )
                    for k, parts in enumerate(carried)
                ]
                loop.yield_(*(part for parts in made for part in parts))
            flat = list(loop.results)
        lanes = self._grouped(flat, len(identity))
        if rest:
            self.evaluator.integers.bind_lane(lane, self.builder.block)
            for k in range(vectors):
                lanes[k] = self._tail(lanes[k], lane, whole * LANES, k * width, rest, width)
        return self._horizontal(lanes, width)

    def _wide(self, position: Expr, width: int, guards: tuple[Guard, ...] = ()) -> Parts:
        return tuple(self.builder.splat(part, width) for part in self._element(position, guards))

    def _grouped(self, flat: list[Value], size: int) -> list[Parts]:
        return [tuple(flat[i : i + size]) for i in range(0, len(flat), size)]

    def _tail(
        self, parts: Parts, lane: Variable, start: int, first: int, rest: int, width: int
    ) -> Parts:
        """The last, incomplete block of 64: vector `first..first + width` of it."""
        if first >= rest:
            return parts
        position = of(lane) + (start + first)
        if first + width <= rest:
            return self._combine(parts, self._wide(position, width))
        guard = (of(lane), 0, rest - first)
        held, _ = self.evaluator.integers.mask((guard,))
        combined = self._combine(parts, self._wide(position, width, (guard,)))
        return tuple(
            self.builder.select(held, new, old) for new, old in zip(combined, parts, strict=True)
        )

    def _horizontal(self, vectors: list[Parts], width: int) -> Parts:
        half = len(vectors) // 2
        while half:
            vectors = [self._combine(vectors[i], vectors[i + half]) for i in range(half)]
            half //= 2
        parts = vectors[0]
        while width > 1:
            width //= 2
            low, high = tuple(range(width)), tuple(range(width, 2 * width))
            parts = self._combine(
                tuple(self.builder.shuffle(p, p, low) for p in parts),
                tuple(self.builder.shuffle(p, p, high) for p in parts),
            )
        return parts

    def _columns(self) -> Parts:
        """A vector of results: the 64 lanes are 64 vectors in scratch memory."""
        width = max(self.evaluator.integers.lanes_of(item) for item in self.index)
        identity = self._identity()
        lanes = min(LANES, self.count)
        memory = [
            self.builder.scratch(f"lanes{next(_count)}", part.type.dtype, lanes * width)
            for part in identity
        ]
        with self.builder.loop(0, lanes, hint="l") as fill:
            for buffer, part in zip(memory, identity, strict=True):
                at = self.builder.index(0, (fill.variable, width))
                self.builder.store(buffer, at, self.builder.splat(part, width))
        whole, rest = divmod(self.count, LANES)
        if whole:
            with self.builder.loop(0, whole, hint="r") as outer:
                block = Variable(f"r{next(_count)}", whole)
                self.evaluator.integers.bind(block, outer.variable, self.builder.block)
                self._add_lanes(memory, of(block) * LANES, LANES, width)
        if rest:
            self._add_lanes(memory, of(whole * LANES), rest, width)
        half = LANES // 2
        while half:
            self._fold(memory, half, lanes, width)
            lanes = min(lanes, half)
            half //= 2
        return tuple(self.builder.load(buffer, 0, width) for buffer in memory)

    def _add_lanes(self, memory: list, start: Expr, count: int, width: int) -> None:  # type: ignore[type-arg]
        with self.builder.loop(0, count, hint="l") as loop:
            lane = Variable(f"l{next(_count)}", count)
            self.evaluator.integers.bind(lane, loop.variable, self.builder.block)
            at = self.builder.index(0, (loop.variable, width))
            old = tuple(self.builder.load(buffer, at, width) for buffer in memory)
            new = self._combine(old, self._wide(start + of(lane), width))
            for buffer, part in zip(memory, new, strict=True):
                self.builder.store(buffer, at, part)

    def _fold(self, memory: list, half: int, lanes: int, width: int) -> None:  # type: ignore[type-arg]
        """Lane i with lane i + half, for the lanes that exist."""
        if lanes <= half:
            return
        with self.builder.loop(0, min(half, lanes - half), hint="l") as loop:
            low = self.builder.index(0, (loop.variable, width))
            high = self.builder.index(half * width, (loop.variable, width))
            left = tuple(self.builder.load(buffer, low, width) for buffer in memory)
            right = tuple(self.builder.load(buffer, high, width) for buffer in memory)
            for buffer, part in zip(memory, self._combine(left, right), strict=True):
                self.builder.store(buffer, low, part)
