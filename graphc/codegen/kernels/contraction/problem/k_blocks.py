"""The order of a contraction's sums: the K blocks, and the loops that add them.

A result is summed over k in blocks of at most `K_BLOCK` products, each one chain of FMAs from zero,
and the blocks are added in order. Where blocks end follows from the extents of k alone, so the bits
of a result are those of any other strategy.

In: the extents of the reduced coordinates, and what adds the products at one of them. Out: loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.leaf_loops import counted_loop, fold
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number, known_range
from graphc.errors import UndecidedSizeError
from graphc.ir.dims import Extent, bounds_of, ceil_div, is_single, known_number
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index

K_BLOCK = 256
"""Products of one K block at most; longer sums add blocks in order (level exact's arithmetic)."""


def known_cut(k: Shape, each: int = 1) -> tuple[int, int] | None:
    """Where K blocks end: after each `step` indices of `axis` of the reduced coordinates, with all
    indices of the axes behind it: as many as make at most `K_BLOCK` products, of which an index
    stands for `each`. None where that depends on a size known only at run time: one of another axis
    than the first."""
    inner = each
    for axis in reversed(range(len(k))):
        count = known_number(k[axis])
        if count is None and axis > 0:
            return None
        if count is None or inner * count > K_BLOCK:
            return axis, max(K_BLOCK // inner, 1)
        inner *= count
    return 0, k[0] if k else 1


def cut(k: Shape) -> tuple[int, int]:
    """As `known_cut`; of extents for which it is not known it raises UndecidedSizeError."""
    known = known_cut(k)
    if known is None:
        raise UndecidedSizeError(f"where sums over {k[1:]} are cut depends on them")
    return known


def is_one_block(products: Extent) -> bool:
    """Whether so many are at most one K block, at every size."""
    return is_single(ceil_div(products, K_BLOCK))


def first_addend(builder: LoopBuilder, k: tuple[Extent, ...], zero: LoopValue) -> LoopValue:
    """What the first K block is added to: zero; but -0, which changes no bit, where it is the only
    one, whose sum is the result as it is."""
    products: Extent = math.prod(k)
    if bounds_of(products)[0] > K_BLOCK or not zero.type.dtype.is_float:
        return zero
    b, count = builder, builder.size(products)
    none = b.const(DType.i64, 0)
    only = b.op("and", b.compare("le", count, b.size(K_BLOCK)), b.compare("ne", count, none))
    minus = b.splat(b.const(zero.type.dtype, -0.0), zero.type.lanes)
    return b.select(only, minus, zero)


def _cuts(builder: LoopBuilder, k: tuple[Extent, ...]) -> list[tuple[LoopValue, LoopValue]]:
    """By axis whether it is the one at which `cut` cuts, and the step that it has then: a K block
    starts at each multiple of it, also at 0."""
    b, one, most = builder, builder.const(DType.i64, 1), builder.size(K_BLOCK)
    cuts, behind = [], b.const(DType.bool, False)
    inner: Extent = 1
    for axis in reversed(range(len(k))):
        step = b.maximum(b.div(most, b.maximum(b.size(inner), one)), one)
        inner = inner * k[axis]
        # All that is not cut behind the first axis is cut there, if at all.
        beyond = b.compare("gt", b.size(inner), most) if axis else b.const(DType.bool, True)
        cuts.append((b.op("and", beyond, b.op("not", behind)), step))
        behind = b.op("or", behind, beyond)
    return cuts[::-1]


def pair_order(count: int, pairs: bool) -> list[int | None]:
    """The order in which so many products are added, the first of an even number; None: +0."""
    if not pairs:
        return list(range(count))
    order: list[int | None] = [i ^ 1 for i in range(count - count % 2)]
    return order + [None, count - 1] if count % 2 else order


def nothing_added(builder: LoopBuilder, sums: list[LoopValue]) -> list[LoopValue]:
    """The sums with a product of zeros added, which makes +0 of -0."""
    return [builder.add(each, builder.const(each.type.dtype, 0)) for each in sums]


Accumulate = Callable[[Index, list[LoopValue]], list[LoopValue]]
"""Adds the products at an index of k to all sums."""


class KLoops:
    """Writes the loops of a sum over k; axes from `unrolled` on are written out, the others are
    loops. `zeros`: what each K block starts from, one for each sum. `pairs`: see Contract; k is one
    coordinate then. `each`: products that an index of k stands for, of extents that are numbers.
    `runs`: lengths of runs of k, one coordinate, each a multiple of the next and all dividing K
    blocks: a loop for each, so that what is read once for a run is read ahead of the next loop;
    the shortest is written out. `chains`: see Contract; each part of k is cut into K blocks of its
    own."""

    def __init__(
        self, builder: LoopBuilder, evaluator: Evaluator, k: Shape, unrolled: int,
        body: Accumulate, zeros: list[LoopValue], pairs: bool = False, each: int = 1,
        runs: tuple[int, ...] = (), chains: int = 1,
    ) -> None:  # fmt: skip
        self.builder = builder
        self.runs = runs
        self.pairs = pairs
        self.each = each
        self.numbers = builder.numbers
        self.addresses = evaluator.addresses
        self.k = k
        self.unrolled = unrolled
        self.body = body
        self.zeros = zeros
        self.chains = chains
        self.cut = known_cut(k, each)
        self.axis, self.step = self.cut or (0, 0)

    def total(self) -> list[LoopValue]:
        """The sums over all of k."""
        if 0 in self.k:
            return self.zeros
        if self.chains > 1:
            return self._tree(0, self.chains)
        if self.cut is None:
            return self._cut_at_run_time()
        products: Extent = math.prod(self.k)
        if is_one_block(products * self.each):
            return self._nest(0, (), self.zeros, 0, self._end(0) if self.k else 1)
        start = [first_addend(self.builder, (*self.k, self.each), zero) for zero in self.zeros]
        return self._blocks(0, (), start, (0, self._end(0)))

    def _tree(self, first: int, count: int) -> list[LoopValue]:
        """The sums of so many chains from the `first` on. In this order few are held at a time."""
        if count > 1:
            half = count // 2
            return self._added(self._tree(first, half), self._tree(first + half, half))
        length = self.k[0] // self.chains
        begin, end = (self.numbers.bound(length * at) for at in (first, first + 1))
        if is_one_block(length):
            return self._nest(0, (), self.zeros, begin, end)
        start = [first_addend(self.builder, (length,), zero) for zero in self.zeros]
        return self._blocks(0, (), start, (begin, end))

    # -- where the extents decide where sums are cut ---------------------------------------------

    def _cut_at_run_time(self) -> list[LoopValue]:
        """One nest of loops: where a K block starts, the one before is added to the totals. The
        first is added as -0, which changes nothing."""
        b, zero = self.builder, self.zeros[0]
        totals = [first_addend(b, self.k, zero)] * len(self.zeros)
        none = zero
        if zero.type.dtype.is_float:
            none = b.splat(b.const(zero.type.dtype, -0.0), zero.type.lanes)
        cuts = _cuts(b, self.k)
        count = len(totals)

        def level(at: int, prefix: Index, carried: list[LoopValue]) -> list[LoopValue]:
            if at == len(self.k):
                return [*carried[:count], *self.body(prefix, carried[count:])]
            variable, (is_cut, step) = Variable(f"k{at}", self.k[at]), cuts[at]

            def added(position: Number, carried: list[LoopValue]) -> list[LoopValue]:
                value = self.numbers.value(position)
                self.addresses.bind(variable, value, b.block)
                left = b.op("rem", value, step)
                starts = b.op("and", is_cut, b.compare("eq", left, b.const(DType.i64, 0)))
                before, block = carried[:count], carried[count:]
                inside = [
                    *(b.select(starts, b.add(t, s), t) for t, s in zip(before, block, strict=True)),
                    *(b.select(starts, zero, s) for s in block),
                ]
                return level(at + 1, (*prefix, of(variable)), inside)

            return counted_loop(b, 0, self._end(at), added, carried, hint=f"k{at}", always=True)

        ended = level(0, (), [*totals, *[none] * count])
        return self._added(ended[:count], ended[count:])

    def _end(self, level: int) -> Number:
        return self.numbers.bound(self.k[level])

    def added_to(self, start: list[LoopValue], first: Number, last: Number) -> list[LoopValue]:
        """The sums of indices first…last of the first axis, on top of those in `start`."""
        return start if 0 in self.k else self._blocks(0, (), start, (first, last))

    def _blocks(
        self, level: int, prefix: Index, totals: list[LoopValue],
        bounds: tuple[Number, Number],
    ) -> list[LoopValue]:  # fmt: skip
        extent, step = self.k[level], self.step if level == self.axis else 1
        is_all = level == self.axis and bounds == (0, extent)
        if is_all and is_single(ceil_div(extent, step)):
            return self._added(totals, self._nest(level, prefix, self.zeros, 0, extent))

        def block(at: Expr, totals: list[LoopValue]) -> list[LoopValue]:
            if level != self.axis:
                return self._blocks(level + 1, (*prefix, at), totals, (0, self._end(level + 1)))
            begin = self.addresses.scalar(at)
            end = self.numbers.bound(self.numbers.tile_end(begin, step, bounds[1]))
            return self._added(totals, self._nest(level, prefix, self.zeros, begin, end))

        variable = Variable(f"k_block{level}", extent)
        return fold(self.addresses, variable, bounds, "k_block", totals, block, step)

    def _added(self, totals: list[LoopValue], block: list[LoopValue]) -> list[LoopValue]:
        return [self.builder.add(a, b) for a, b in zip(totals, block, strict=True)]

    def _nest(
        self,
        level: int,
        prefix: Index,
        sums: list[LoopValue],
        begin: Number,
        end: Number,
    ) -> list[LoopValue]:
        """One K block: indices begin…end of axis `level`, and all of the axes behind it."""
        if level >= len(self.k):
            return self.body(prefix, sums)
        if self.pairs:
            return self._in_pairs(sums, begin, end)
        if self.runs:
            return self._in_runs(sums, of(0), self.runs, (begin, end), self.k[0])
        written = known_range(begin, end)
        if written is not None and (level >= self.unrolled or len(written) == 1):
            for position in written:
                sums = self._inner(level, (*prefix, of(position)), sums)
            return sums
        return fold(
            self.addresses, Variable(f"k{level}", self.k[level]), (begin, end), f"k{level}", sums,
            lambda at, sums: self._inner(level, (*prefix, at), sums),
        )  # fmt: skip

    def _in_runs(
        self, sums: list[LoopValue], first: Expr, runs: tuple[int, ...],
        bounds: tuple[Number, Number], extent: Extent,
    ) -> list[LoopValue]:  # fmt: skip
        """Indices of k within `bounds`, below `extent` and counted from `first` on, in runs."""
        if not runs:
            for position in range(*bounds):  # type: ignore[arg-type]
                sums = self.body((first + position,), sums)
            return sums
        size, n = runs[0], self.numbers
        begin, end = (n.div(bound, size) for bound in bounds)
        variable = Variable(f"run{size}", extent // size)
        return fold(
            self.addresses, variable, (begin, end), f"run{size}", sums,
            lambda run, sums: self._in_runs(sums, first + run * size, runs[1:], (0, size), size),
        )  # fmt: skip

    def _in_pairs(self, sums: list[LoopValue], begin: Number, end: Number) -> list[LoopValue]:
        """One K block, two indices at a time."""
        n, (extent,) = self.numbers, self.k
        left = n.bits(n.sub(end, begin), 1)
        whole = n.bound(n.sub(end, left))

        def over(first: Number, last: Number, step: int, sums: list[LoopValue]) -> list[LoopValue]:
            def added(at: Expr, sums: list[LoopValue]) -> list[LoopValue]:
                if step == 2:
                    return self.body((at,), self.body((at + 1,), sums))
                return self.body((at,), nothing_added(self.builder, sums))

            variable = Variable(f"k0_by_{step}", extent)
            return fold(self.addresses, variable, (first, last), "k0", sums, added, step)

        sums = sums if whole == begin else over(begin, whole, 2, sums)
        return sums if left == 0 else over(whole, end, 1, sums)

    def _inner(self, level: int, prefix: Index, sums: list[LoopValue]) -> list[LoopValue]:
        if level + 1 == len(self.k):
            return self.body(prefix, sums)
        return self._nest(level + 1, prefix, sums, 0, self._end(level + 1))
