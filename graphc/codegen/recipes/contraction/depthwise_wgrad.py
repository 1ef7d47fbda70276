"""Strategy: vectors along the batch, for few results per batch element.

A depthwise convolution's weight gradient has one row and a handful of columns per channel, and a
long sum over positions. So a vector holds the same result of neighbouring channels: both operands
are copied with that axis last, a few indices of the first axis of k at a time, and all columns are
summed at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.loop_cut import LoopCut
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.recipes.contraction.costs import TRANSPOSED, group_size, note
from graphc.codegen.recipes.contraction.emitter import EmissionContext, Emitter
from graphc.codegen.recipes.contraction.halo import (
    FilledHalo,
    HaloBuffer,
    HaloPlan,
    group_end,
    group_members,
    plan_halo,
)
from graphc.codegen.recipes.contraction.k_blocks import KLoops
from graphc.codegen.recipes.contraction.problem import ContractionProblem
from graphc.codegen.recipes.contraction.tiles import Columns, vector_registers
from graphc.codegen.recipes.contraction.tilings import first_unrolled
from graphc.codegen.recipes.contraction.vector_read import axes_of, window_cases
from graphc.codegen.recipes.contraction.view import (
    batch_variables,
    channel_variable,
    group_variable,
)
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, fixed, is_symbolic
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index, unflatten

EFFICIENCY = 0.6
"""Part of the FMA peak: each product loads one vector."""


@dataclass(frozen=True, slots=True)
class DepthwiseWgradPlan:
    """`group` indices of k's first axis at a time, of which the halo buffers hold both operands.
    `recomputed`: zeros stand for skipped products."""

    problem: ContractionProblem
    lanes: int
    unrolled: int
    group: int
    broadcast: HaloPlan
    vectors: HaloPlan
    recomputed: bool
    cost: float
    reason: str

    @staticmethod
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[DepthwiseWgradPlan]:
        view, count = problem.view, math.prod(problem.view.n)
        if (
            view.swapped
            or is_symbolic((*view.n, *view.k[1:]))
            or problem.rows != 1
            or len(view.k) < 2
            or 0 in view.k
        ):
            return
        if not 0 < count < vector_registers(target) - 2 or not view.batch:
            return
        if is_symbolic(view.batch) or view.batch[-1] < 4 or len(view.residue_classes()) > 1:
            return
        lanes = problem.lanes_for(view.batch[-1])
        unrolled = first_unrolled(view, False)
        depth = view.k[0]
        at_once, members = (None, depth) if isinstance(depth, int) else (1, 1)
        whole = _halos(problem, lanes, unrolled, at_once)
        if whole is None:
            return
        elements = sum(halo.elements for halo in whole)
        group = group_size(problem, -(-elements // members), target)
        halos = _halos(problem, lanes, unrolled, group)
        assert halos is not None
        vectors = problem.batch_count / lanes
        products = vectors * count * problem.typical(problem.depth) / EFFICIENCY
        copies = vectors * elements / lanes * TRANSPOSED
        copies *= 1 if at_once is None else problem.typical(depth)
        yield DepthwiseWgradPlan(
            problem, lanes, unrolled, group, *halos, halos[1].guarded and problem.dtype.is_float,
            products + copies,
            note(
                problem, "depthwise wgrad", f"lanes along the batch, tile 1x{count}x{lanes}, both "
                f"operands from halo buffers, {group} of {depth} at a time", products=products,
                copies=copies,
            ),
        )  # fmt: skip

    def lower(self, context: EmissionContext) -> Kernel:
        emit = Emitter(context, self.problem, self.lanes)
        nest = ChannelNest(emit, self)
        # The blocks of channels are outside.
        return emit.over_batch((), nest.whole_batch, self.reason)


def _halos(
    problem: ContractionProblem, lanes: int, unrolled: int, group: int | None
) -> tuple[HaloPlan, HaloPlan] | None:
    """The halo buffers of the operand that has no guards, and of the other; None where one of them
    has none."""
    view, lane = problem.view, Variable("probe_lane", lanes)
    outer = tuple(of(variable) for variable in batch_variables(view)[:-1])
    batch = (*outer, of(channel_variable(view)) + of(lane))
    columns = [Columns(view.residue_classes()[0], (), 1, 0)]
    halos = []
    for of_vectors in (False, True):
        cases, inner = window_cases(problem, unrolled, columns, group, of_vectors, batch)
        axes, step = axes_of(cases[0], [lane]) if cases else (None, 1)
        if axes is None or step != 1:
            return None
        halo = plan_halo(view, cases, inner | {lane}, axes, 1)
        if halo is None:
            return None
        halos.append(halo)
    broadcast, vectors = halos
    return None if broadcast.guarded else (broadcast, vectors)


class ChannelNest:
    """Blocks of lanes along the last axis of the batch; all results of each at once. Makes the
    scratch."""

    def __init__(self, emit: Emitter, plan: DepthwiseWgradPlan) -> None:
        self.emit = emit
        self.plan = plan
        self.count = math.prod(emit.view.n)
        self.groups = group_variable(emit.view, plan.group)
        self.broadcast = HaloBuffer(emit.copier, emit.view, plan.broadcast)
        self.vectors = HaloBuffer(emit.copier, emit.view, plan.vectors)
        self.broadcast.clear()
        self.vectors.clear()
        self.sums = emit.scratch("sums", self.count * emit.lanes)

    def whole_batch(self, split: bool) -> int:
        """What is split are blocks of channels."""
        emit, lanes = self.emit, self.emit.lanes
        blocks = LoopCut(emit.view.batch[-1], lanes)

        def block(number: Expr, rest: Extent | None) -> None:
            self._block(emit.addresses.scalar(number * lanes), fixed(rest or lanes))

        part = (emit.builder.begin, emit.builder.end) if split else None
        blocks.each(emit.addresses, "channels_block", block, part)
        return fixed(blocks.tiles)

    def _block(self, first: LoopValue, channels: int) -> None:
        """So many channels from `first` on, for every index of the axes before them."""
        emit = self.emit

        def inside() -> None:
            emit.addresses.bind(channel_variable(emit.view), first, emit.builder.block)
            self._channels(channels)

        emit.nested(batch_variables(emit.view)[:-1], "b", inside)

    def _channels(self, channels: int) -> None:
        """All results of neighbouring channels."""
        emit, builder = self.emit, self.emit.builder
        sized = not isinstance(emit.view.k[0], int)
        if sized:
            emit.clear(self.sums, self.count, lambda at: at * emit.lanes, emit.first_addend())
        with builder.loop(0, self.groups.extent, hint="group") as loop:
            emit.addresses.bind(self.groups, loop.variable, builder.block)
            members = group_members(emit, self.groups, loop.variable, self.plan.group)
            broadcast = self.broadcast.fill(channels, members)
            vectors = self.vectors.fill(channels, members)
            begin = emit.numbers.mul(loop.variable, self.plan.group)
            first = None if sized else emit.numbers.compare("eq", loop.variable, 0)
            group = begin, group_end(emit, begin, self.plan.group)
            self._group(broadcast, vectors, group, first)
        self._outputs(channels)

    def _batch(self, lane: Expr) -> Index:
        """The batch index of the lanes."""
        view = self.emit.view
        outer = tuple(of(variable) for variable in batch_variables(view)[:-1])
        return (*outer, of(channel_variable(view)) + lane)

    def _sum(self, column: int, lane: Expr) -> Expr:
        """Where the sums of a column lie."""
        return lane + column * self.emit.lanes

    def _group(
        self, broadcast: FilledHalo, vectors: FilledHalo, group: tuple[Number, Number],
        is_first: LoopValue | None,
    ) -> None:  # fmt: skip
        """Adds the products of one group of k to all sums; None: these are there already."""
        emit, view = self.emit, self.emit.view
        lane = emit.copier.lane()
        batch = self._batch(lane)
        columns = [unflatten(of(i), view.n) for i in range(self.count)]

        def body(k: Index, sums: list[LoopValue]) -> list[LoopValue]:
            element = view.broadcast(batch, emit.problem.m(of(0)), k)
            assert element is not None
            wide = broadcast.load(element)
            totals = list(sums)
            for i, n in enumerate(columns):
                case = view.vector(batch, n, k)
                if case is not None:
                    totals[i] = emit.multiply_add(wide, vectors.load(case), sums[i])
            return totals

        zeros = emit.zeros(self.count)
        loops = KLoops(emit.builder, emit.evaluator, view.k, self.plan.unrolled, body, zeros)

        def before(i: int) -> LoopValue:
            block = emit.builder.block
            known = emit.evaluator.load(self.sums, self._sum(i, lane), (), block)
            return known if is_first is None else emit.builder.select(is_first, emit.zero, known)

        start = [before(i) for i in range(self.count)]
        for i, total in enumerate(loops.added_to(start, *group)):
            emit.evaluator.store(self.sums, self._sum(i, lane), total)

    def _outputs(self, channels: int) -> None:
        emit = self.emit
        filled_in = emit.builder.block
        lane = emit.copier.lane()
        guards: tuple[Guard, ...] = ((lane, 0, channels),) if channels < emit.lanes else ()
        batch = self._batch(lane)
        totals = [
            emit.evaluator.load(self.sums, self._sum(i, lane), (), filled_in)
            for i in range(self.count)
        ]
        if self.plan.recomputed:
            totals = self._checked(batch, lane, guards, totals)
        for i, total in enumerate(totals):
            n = unflatten(of(i), emit.view.n)
            emit.finish(emit.view.out(batch, emit.problem.m(of(0)), n), guards, total)

    def _checked(
        self, batch: Index, lane: Expr, guards: tuple[Guard, ...], totals: list[LoopValue]
    ) -> list[LoopValue]:
        """`totals`, or, where one of them is not finite, the sums with skipped products skipped."""
        emit = self.emit
        with emit.builder.if_(emit.guarded.any_nan(totals), cold=True) as branch:
            with branch.then():

                def one(i: Expr) -> None:
                    n = unflatten(i, emit.view.n)
                    total = emit.guarded.total(batch, emit.problem.m(of(0)), n, guards)
                    emit.evaluator.store(self.sums, i * emit.lanes + lane, total)

                emit.copier.loop(self.count, "column", one)
                block = emit.builder.block
                branch.yield_(*(
                    emit.evaluator.load(self.sums, self._sum(i, lane), (), block)
                    for i in range(self.count)
                ))  # fmt: skip
            with branch.otherwise():
                branch.yield_(*totals)
        return list(branch.results)
