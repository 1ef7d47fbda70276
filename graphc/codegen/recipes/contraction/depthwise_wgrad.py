"""Contractions with few results per batch element: vectors run along the batch.

A depthwise convolution's weight gradient has one row and a handful of columns per channel, and a
long sum over positions. So a vector holds the same result of neighbouring channels: both operands
are copied with that axis last, a few indices of the first axis of k at a time, and all columns are
summed at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.contraction.halo import Box
from graphc.codegen.recipes.contraction.k_blocks import Chains
from graphc.codegen.recipes.contraction.loop_order import LoopOrder
from graphc.codegen.recipes.contraction.view import (
    batch_variables,
    channel_variable,
    group_variable,
)
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index, unflatten


class ByChannels(LoopOrder):
    """Blocks of lanes along the last axis of the batch; all results of each at once."""

    def outer_variables(self) -> Sequence[Variable]:
        """None: the blocks of channels are outside."""
        return ()

    def prepare(self, batch: Index, loops: list[Variable]) -> None:
        choice, view = self.choice, self.view
        assert choice.box is not None and choice.left_box is not None
        self.count = math.prod(view.n)
        self.groups = group_variable(view, choice.group)
        self.left = Box(self.copier, view, choice.left_operand, choice.left_box)
        self.right = Box(self.copier, view, choice.right_operand, choice.box)
        self.left.clear()
        self.right.clear()
        self.sums = self.builder.scratch("sums", self.dtype, self.count * self.lanes)

    def batch_element(self, batch: Index, split: bool) -> int:
        """The whole batch. What is split are blocks of channels."""
        channels: int = self.view.batch[-1]
        whole, rest = divmod(channels, self.lanes)
        begin, end = self.range_of(0, whole, split)
        if whole:
            with self.builder.loop(begin, end, hint="channels") as loop:
                lanes = self.builder.const(DType.i64, self.lanes)
                self._block(self.builder.mul(loop.variable, lanes), self.lanes)
        if rest:
            first = self.builder.const(DType.i64, whole * self.lanes)
            self.last(whole if split else None, lambda: self._block(first, rest))
        return -(-channels // self.lanes)

    def _block(self, first: LoopValue, channels: int) -> None:
        """So many channels from `first` on, for every index of the axes before them."""

        def inside() -> None:
            self.integers.bind(channel_variable(self.view), first, self.builder.block)
            self._channels(channels)

        self.over(batch_variables(self.view)[:-1], "b", inside)

    def _channels(self, channels: int) -> None:
        """All results of neighbouring channels."""
        with self.builder.loop(0, self.groups.extent, hint="group") as loop:
            self.integers.bind(self.groups, loop.variable, self.builder.block)
            self.left.fill(channels)
            self.right.fill(channels)
            step = self.builder.const(DType.i64, self.choice.group)
            begin = self.builder.mul(loop.variable, step)
            is_first = self.builder.compare("eq", loop.variable, self.builder.const(DType.i64, 0))
            self._group(begin, self.builder.add(begin, step), is_first)
        self._outputs(channels)

    def _batch(self, lane: Expr) -> Index:
        """The batch index of the lanes."""
        outer = tuple(of(variable) for variable in batch_variables(self.view)[:-1])
        return (*outer, of(channel_variable(self.view)) + lane)

    def _group(self, begin: LoopValue, end: LoopValue, is_first: LoopValue) -> None:
        """Adds the products of one group of k to all sums."""
        lane = self.copier.lane()
        batch = self._batch(lane)
        columns = [unflatten(of(i), self.view.n) for i in range(self.count)]

        def body(k: Index, sums: list[LoopValue]) -> list[LoopValue]:
            left = self.view.broadcast(batch, self.m(of(0)), k)
            assert left is not None
            wide = self.left.load(left)
            made = list(sums)
            for i, n in enumerate(columns):
                case = self.view.vector(batch, n, k)
                if case is not None:
                    made[i] = self.multiply_add(wide, self.right.load(case), sums[i])
            return made

        chains = Chains(self.builder, self.evaluator, self.view.k, self.choice.unrolled, body)
        zeros = [self.zeros[0]] * self.count
        start = [
            self.builder.select(
                is_first, self.zeros[0],
                self.evaluator.load(self.sums, lane + i * self.lanes, (), self.builder.block),
            )
            for i in range(self.count)
        ]  # fmt: skip
        totals = chains.total(zeros, start, begin, end)
        for i, total in enumerate(totals):
            self.evaluator.store(self.sums, lane + i * self.lanes, total)

    def _outputs(self, channels: int) -> None:
        filled_in = self.builder.block
        lane = self.copier.lane()
        guards: tuple[Guard, ...] = ((lane, 0, channels),) if channels < self.lanes else ()
        batch = self._batch(lane)
        totals = [
            self.evaluator.load(self.sums, lane + i * self.lanes, (), filled_in)
            for i in range(self.count)
        ]
        if self.choice.zeros_stand_in and self.dtype.is_float:
            totals = self._checked(batch, lane, guards, totals)
        for i, total in enumerate(totals):
            n = unflatten(of(i), self.view.n)
            self.finish(self.view.out(batch, self.m(of(0)), n), guards, total)

    def _checked(
        self, batch: Index, lane: Expr, guards: tuple[Guard, ...], totals: list[LoopValue]
    ) -> list[LoopValue]:
        """`totals`, or, where one of them is not finite, the sums with skipped products skipped."""
        with self.builder.if_(self.guarded.any_nan(totals), cold=True) as branch:
            with branch.then():

                def one(i: Expr) -> None:
                    n = unflatten(i, self.view.n)
                    total = self.guarded.total(batch, self.m(of(0)), n, guards)
                    self.evaluator.store(self.sums, i * self.lanes + lane, total)

                self.copier.loop(self.count, "column", one)
                block = self.builder.block
                branch.yield_(*(
                    self.evaluator.load(self.sums, lane + i * self.lanes, (), block)
                    for i in range(self.count)
                ))  # fmt: skip
            with branch.otherwise():
                branch.yield_(*totals)
        return list(branch.results)
