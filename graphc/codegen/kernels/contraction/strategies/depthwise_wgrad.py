"""Strategy: vectors along the batch, for few results per batch element.

A depthwise convolution's weight gradient has one row and a handful of columns per channel, and a
long sum over positions. So a vector holds the same result of neighbouring channels: both operands
are copied with that axis last, a few indices of the first axis of k at a time, and all columns are
summed at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.contraction.cost.costs import TRANSPOSED, first_copied, group_size, note
from graphc.codegen.kernels.contraction.cost.halo_plan import HaloPlan, plan_halo
from graphc.codegen.kernels.contraction.cost.tiles import Columns, vector_registers
from graphc.codegen.kernels.contraction.cost.tilings import first_unrolled
from graphc.codegen.kernels.contraction.cost.vector_read import axes_of, window_cases
from graphc.codegen.kernels.contraction.emission.axes import BatchNest, each, sum_axis
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.emission.sums import Sums
from graphc.codegen.kernels.contraction.operands.vector_operand import FilledGroup, GroupHalos
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.k_blocks import KLoops
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.problem.view import (
    batch_variables,
    channel_variable,
)
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Clear,
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Nest,
    NestPlace,
    Role,
    Room,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import record
from graphc.schedule.access import Index, unflatten

EFFICIENCY = 0.6
"""Part of the FMA peak: each product loads one vector."""


@record
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
    @open_to(Coordinates.DEPTH)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[DepthwiseWgradPlan]:
        view, count = problem.view, math.prod(problem.view.n)
        if view.swapped or problem.rows != 1 or len(view.k) < 2 or 0 in view.k:
            return
        if not 0 < count < vector_registers(target) - 2 or not view.batch:
            return
        if view.batch[-1] < 4 or len(view.residue_classes()) > 1:
            return
        lanes = problem.lanes_for(view.batch[-1])
        unrolled = first_unrolled(view, False)
        depth = view.k[0]
        at_once, members = first_copied(depth)
        whole = _halos(problem, lanes, unrolled, at_once)
        if whole is None:
            return
        elements = problem.typical(sum(halo.elements for halo in whole))
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

    def nest(self) -> Nest:
        """Blocks of lanes along the last axis of the batch; all results of each at once."""
        problem, view = self.problem, self.problem.view
        count = math.prod(view.n)
        last = Axis("channels", view.batch[-1], Role.BATCH, len(view.batch) - 1)
        channels = Split("channels", last, self.lanes, Tail.WHOLE_AND_REST)
        groups = Split("group", sum_axis(problem), self.group, Tail.BOUNDED)
        variables = batch_variables(view)[:-1]
        outer = [each(v.name, v, Role.BATCH, i) for i, v in enumerate(variables)]
        batch = tuple(split.name for split in outer)
        at_once = (*((name, 1) for name in batch), ("channels", self.lanes), ("columns", count))
        halos = GroupHalos(
            problem, (self.broadcast, self.vectors), (*at_once, ("k", self.group)), batch,
            groups.name, self.group, channels.name, asks_first=not problem.has_sizes,
        )  # fmt: skip
        sums = Sums("sums", at_once, (*batch, "channels"), self.lanes)
        channel = Channel(self.lanes)
        leaf = ChannelProducts(problem, sums, count, self.unrolled)
        results = ChannelResults(problem, sums, count, self.lanes, self.recomputed)
        body: tuple[Statement, ...] = (
            Fill(channel), *((Compute(ChannelClear(sums)),) if problem.has_sizes else ()),
            ForEach(groups, (Fill(halos), Compute(leaf))), Fill(sums), Compute(results),
        )  # fmt: skip
        for split in reversed(outer):
            body = (ForEach(split, body, always=True),)
        return BatchNest(
            problem, (halos, sums, channel), (ForEach(channels, body),), self.reason,
            once=(Clear(halos),), parallel=(channels,),
            covered=(Axis("columns", count, Role.COLUMNS),),
        ).nest(())  # fmt: skip


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


@record
class Channel:
    """The stage of the first of the channels at hand, as the variable that indices know."""

    lanes: int
    name: str = "channel"
    whole: tuple[str, ...] = ("channels",)
    holds: Holds = Holds.NUMBERS

    @property
    def room(self) -> Room:
        return (("channels", self.lanes),)

    @property
    def text(self) -> str:
        return f"registers [{self.lanes} lanes]"

    def declare(self, emit: Emitter) -> None:
        return None

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> None:
        first = emit.addresses.scalar(place["channels"].first)
        emit.addresses.bind(channel_variable(emit.view), first, emit.builder.block)


def _batch(problem: ContractionProblem, lane: Expr) -> Index:
    """The batch index of the lanes."""
    outer = tuple(of(variable) for variable in batch_variables(problem.view)[:-1])
    return (*outer, of(channel_variable(problem.view)) + lane)


def _sum(emit: Emitter, column: int, lane: Expr) -> Expr:
    """Where the sums of a column lie."""
    return lane + column * emit.lanes


@record
class ChannelClear:
    """The leaf that sets all sums to zero."""

    sums: Sums

    @property
    def text(self) -> str:
        return "clear sums"

    @property
    def effect(self) -> Effect:
        return Effect(covers=("columns",), clears="sums")

    def write(self, emit: Emitter, place: NestPlace) -> None:
        vectors, first = self.sums.vectors, emit.first_addend()
        emit.clear(place.memory["sums"], vectors, lambda at: at * emit.lanes, first)


@record
class ChannelProducts:
    """The leaf that adds the products of one group of k to all sums."""

    problem: ContractionProblem
    sums: Sums
    count: int
    unrolled: int

    @property
    def text(self) -> str:
        return f"products of {self.count} columns by channels"

    @property
    def effect(self) -> Effect:
        return Effect(
            covers=("columns",), reads=("channel", "halo"), adds="sums",
            starts=not self.problem.has_sizes, tails=OF_NUMBERS | {Tail.BOUNDED},
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        view = self.problem.view
        group: FilledGroup = place.filled["halo"]
        broadcast, vectors = group.halos
        assert group.bounds is not None
        lane, memory = emit.copier.lane(), place.memory["sums"]
        batch = _batch(self.problem, lane)
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
        loops = KLoops(emit.builder, emit.evaluator, view.k, self.unrolled, body, zeros)

        def before(i: int) -> LoopValue:
            block = emit.builder.block
            known = emit.evaluator.load(memory, _sum(emit, i, lane), (), block)
            if group.is_first is None:
                return known
            return emit.builder.select(group.is_first, emit.zero, known)

        start = [before(i) for i in range(self.count)]
        for i, total in enumerate(loops.added_to(start, *group.bounds)):
            emit.evaluator.store(memory, _sum(emit, i, lane), total)


@record
class ChannelResults:
    """The leaf of the body's outputs of some channels. `recomputed`: see the plan."""

    problem: ContractionProblem
    sums: Sums
    count: int
    lanes: int
    recomputed: bool

    @property
    def text(self) -> str:
        return "results of sums"

    @property
    def effect(self) -> Effect:
        return Effect(covers=("columns",), reads=("channel",), takes="sums", stores=True)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        memory, filled_in, lane = place.memory["sums"], place.filled["sums"], emit.copier.lane()
        channels = place["channels"].size
        guards: tuple[Guard, ...] = ((lane, 0, channels),) if channels < emit.lanes else ()
        batch = _batch(self.problem, lane)
        totals = [
            emit.evaluator.load(memory, _sum(emit, i, lane), (), filled_in)
            for i in range(self.count)
        ]
        if self.recomputed:
            totals = self._checked(emit, memory, batch, lane, guards, totals)
        for i, total in enumerate(totals):
            n = unflatten(of(i), emit.view.n)
            emit.finish(emit.view.out(batch, emit.problem.m(of(0)), n), guards, total)

    def _checked(
        self, emit: Emitter, memory: Buffer, batch: Index, lane: Expr, guards: tuple[Guard, ...],
        totals: list[LoopValue],
    ) -> list[LoopValue]:  # fmt: skip
        """`totals`, or, where one of them is not finite, the sums with skipped products skipped."""
        with emit.builder.if_(emit.guarded.any_nan(totals), cold=True) as branch:
            with branch.then():

                def one(i: Expr) -> None:
                    n = unflatten(i, emit.view.n)
                    total = emit.guarded.total(batch, emit.problem.m(of(0)), n, guards)
                    emit.evaluator.store(memory, i * emit.lanes + lane, total)

                emit.copier.loop(self.count, "column", one)
                block = emit.builder.block
                branch.yield_(*(
                    emit.evaluator.load(memory, _sum(emit, i, lane), (), block)
                    for i in range(self.count)
                ))  # fmt: skip
            with branch.otherwise():
                branch.yield_(*totals)
        return list(branch.results)
