"""The recipe `sort`: the order of each line along the axis, or the first positions of it.

    for line:
      for n: keys[n]
      fill runs
      for k: y[k] = positions[k]

Elements become integers of the same order first (NaN the greatest, the zeros equal), complemented
where the order is descending: keys. All of a line is sorted by a stable merge sort from runs of one
element up (`SortedRuns`): keys and positions lie in scratch memory, twice, and each round merges
pairs of runs from one half into the other. n elements take ⌈log₂ n⌉ rounds. Where a few are wanted
(`SELECTED` at most), only those are kept, in order, by selection (`SelectedRun`): a leaf that goes
through the line puts each element that comes before the last of them into its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.leaf_loops import counted_loop, each, fold
from graphc.codegen.kernels.common import declare_buffers
from graphc.codegen.kernels.elementwise.destinations import StoreDestination
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Index, Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.nests.nest import (
    Axis,
    Compute,
    Effect,
    Fill,
    ForEach,
    FunctionLeaf,
    Holds,
    Nest,
    NestOutput,
    NestPlace,
    Role,
    Room,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.writer import write_nest
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, greatest, known_number
from graphc.ir.nodes import Graph, Value
from graphc.ir.size_guards import typical
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr, Variable
from graphc.records import record
from graphc.schedule.access import Index as Coordinates
from graphc.schedule.access import unflatten

SELECTED = 256
"""Up to how many positions are selected. In a line in the worst order each element moves all that
are kept: then 64 of thousands take what the merge sort does, and as many as this three times that,
where they take a twentieth of it in most orders."""


def lower_sort(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body whose one output is a sort. It runs over the lines along the axis."""
    builder = LoopBuilder(name)
    inputs, (out,) = declare_buffers(builder, body)
    plan = plan_sort(body, target)
    if plan is None:
        return builder.finish(1)
    destination = StoreDestination(out, plan.shape)
    emit = NestEmitter(builder, Evaluator(builder, body, inputs, 1), (destination,))
    return write_nest(plan.nest(), emit)


def plan_sort(body: Graph, target: Target) -> SortPlan | None:
    """The plan of such a kernel; None where it has no results."""
    node = body.nodes[body.outputs[0].node]
    (operand,) = node.operands
    axis, shape = node.attribute("axis"), node.types[0].shape
    if 0 in shape:
        return None
    size = body.type_of(operand).shape[axis]
    return SortPlan(body, operand, shape, axis, size, node.attribute("descending"))


@record
class SortPlan:
    """A sort of all lines of `size` along an axis; results have a shape."""

    body: Graph
    operand: Value
    shape: Shape
    axis: int
    size: Extent
    descending: bool

    @property
    def count(self) -> Extent:
        """How many positions of each line are stored."""
        return self.shape[self.axis]

    @property
    def selected(self) -> int | None:
        """How many are selected, where the moves of a line in no particular order are fewer than
        the steps of merges; None where all are sorted."""
        count = known_number(self.count)
        if count is None or count > SELECTED or count * count > 16 * typical(self.size):
            return None
        return count

    @property
    def outer(self) -> Shape:
        return self.shape[: self.axis] + self.shape[self.axis + 1 :]

    @property
    def key_type(self) -> DType:
        return {4: DType.i32, 8: DType.i64}[self.body.type_of(self.operand).dtype.itemsize]

    def nest(self) -> Nest:
        lines = Axis("lines", math.prod(self.outer), Role.ELEMENTS)
        along, line = Axis("k", self.count, Role.ELEMENTS, 1), Split("line", lines, 1, Tail.EXACT)
        entries = Axis("n", self.size, Role.KEYS)
        selected = self.selected
        runs = SortedRuns(self) if selected is None else SelectedRun(self, selected)
        of_keys = Effect(covers=() if selected is None else ("n", "k"), fills="runs")
        of_positions = Effect(reads=("runs",), stores=True, outputs=("y0",))
        order = "descending" if self.descending else "ascending"
        keys: Statement = Compute(FunctionLeaf(f"{order} keys", of_keys, runs.write_keys))
        if selected is None:
            keys = ForEach(Split("in", entries, 1, Tail.EXACT), (keys,), always=True)
        store = Compute(FunctionLeaf("positions", of_positions, self._store_position))
        loop = ForEach(Split("out", along, 1, Tail.EXACT), (store,), always=True)
        domain = (Role.ELEMENTS, math.prod(self.shape)), (Role.KEYS, self.size)
        return Nest(
            self.body.name, domain, (lines, along, entries), (runs,),
            (line,), (ForEach(line, (keys, Fill(runs), loop), always=True),),
            outputs=(NestOutput("y0", ("lines", "k")),),
        )  # fmt: skip

    def _index(self, place: NestPlace, at: Expr) -> Coordinates:
        others = unflatten(place["line"].number, self.outer)
        return (*others[: self.axis], at, *others[self.axis :])

    def key(self, emit: NestEmitter, place: NestPlace, at: Expr) -> LoopValue:
        """That of the line's element at a position: an integer in the order of the elements."""
        element = emit.evaluator.value(self.operand, self._index(place, at))
        return self._key(emit.builder, element)

    def _key(self, builder: LoopBuilder, element: LoopValue) -> LoopValue:
        key = self._float_key(builder, element) if element.type.dtype.is_float else element
        return builder.op("not", key) if self.descending else key

    def _float_key(self, builder: LoopBuilder, element: LoopValue) -> LoopValue:
        # The bits of a float are in order as sign and magnitude; of negative ones the magnitude is
        # complemented. Adding +0 makes -0 to +0.
        integer = self.key_type
        greatest = builder.const(integer, (1 << (8 * integer.itemsize - 1)) - 1)
        zero = builder.const(element.type.dtype, 0)
        bits = builder.bitcast(builder.add(element, zero), integer)
        sign = builder.op("ashr", bits, builder.const(integer, 8 * integer.itemsize - 1))
        ordered = builder.op("xor", bits, builder.op("and", sign, greatest))
        return builder.select(builder.compare("ne", element, element), greatest, ordered)

    def _store_position(self, emit: NestEmitter, place: NestPlace) -> None:
        (out,), at = emit.outputs, place["out"].number
        _, positions = place.memory["runs"]
        number = emit.addresses.scalar(at)
        position = emit.builder.load(positions, Index.of(0, place.filled["runs"], number))
        emit.evaluator.store(out.buffer, out.linear(self._index(place, at)), position)


@record
class SortedRuns:
    """Keys and positions of a line, in two halves. Filling it merges runs until there is one, and
    gives where the half begins that has it."""

    plan: SortPlan
    name: str = "runs"
    holds: Holds = Holds.VALUES
    whole: tuple[str, ...] = ("line",)

    @property
    def room(self) -> Room:
        # One element more than two halves: a run's end is looked at, though never taken. Of an open
        # count no more is known than that it is one: it has room of its own.
        size, count = self.plan.size, self.plan.count
        most = greatest(size, count)
        return (("n", size + 1 + (size + count if most is None else most)),)

    @property
    def text(self) -> str:
        return f"{self.plan.key_type.value} keys and positions, twice; merged in rounds"

    def declare(self, emit: NestEmitter) -> tuple[Buffer, Buffer]:
        ((_, room),) = self.room
        keys = emit.builder.scratch("keys", self.plan.key_type, room)
        return keys, emit.builder.scratch("positions", DType.i64, room)

    def clear(self, emit: NestEmitter, place: NestPlace) -> None:
        raise NotImplementedError("keys are written, never cleared")

    def write_keys(self, emit: NestEmitter, place: NestPlace) -> None:
        keys, positions = place.memory[self.name]
        at = place["in"].number
        position = emit.addresses.scalar(at)
        emit.builder.store(keys, position, self.plan.key(emit, place, at))
        emit.builder.store(positions, position, position)

    def fill(self, emit: NestEmitter, place: NestPlace) -> LoopValue:
        return _Merge(emit.builder, *place.memory[self.name]).rounds(self.plan.size)


@record
class SelectedRun:
    """The first `count` keys of a line and their positions, in order."""

    plan: SortPlan
    count: int
    name: str = "runs"
    holds: Holds = Holds.VALUES
    whole: tuple[str, ...] = ("line",)

    @property
    def room(self) -> Room:
        return (("k", self.count),)

    @property
    def text(self) -> str:
        order = "descending" if self.plan.descending else "ascending"
        return f"{self.plan.key_type.value} keys and positions, {order}; selected"

    def declare(self, emit: NestEmitter) -> tuple[Buffer, Buffer]:
        keys = emit.builder.scratch("keys", self.plan.key_type, self.count)
        return keys, emit.builder.scratch("positions", DType.i64, self.count)

    def clear(self, emit: NestEmitter, place: NestPlace) -> None:
        raise NotImplementedError("keys are written, never cleared")

    def fill(self, emit: NestEmitter, place: NestPlace) -> LoopValue:
        return emit.builder.const(DType.i64, 0)

    def write_keys(self, emit: NestEmitter, place: NestPlace) -> None:
        builder, addresses, count = emit.builder, emit.addresses, self.count
        keys, _ = place.memory[self.name]
        line = Variable("n", self.plan.size)

        def first(at: Expr) -> None:
            position = addresses.scalar(at)
            self._insert(emit, place, self.plan.key(emit, place, at), position, position)

        each(addresses, line, (0, count), "first", first)
        last = builder.const(DType.i64, count - 1)

        def later(at: Expr, worst: list[LoopValue]) -> Sequence[LoopValue]:
            key = self.plan.key(emit, place, at)
            with builder.if_(builder.compare("lt", key, *worst)) as branch:
                with branch.then():
                    self._insert(emit, place, key, addresses.scalar(at), last)
                    branch.yield_(builder.load(keys, last))
                with branch.otherwise():
                    branch.yield_(*worst)
            return branch.results

        worst = builder.load(keys, last)
        fold(addresses, line, (count, self.plan.size), "n", [worst], later)

    def _insert(
        self, emit: NestEmitter, place: NestPlace, key: LoopValue, position: LoopValue,
        end: LoopValue,
    ) -> None:  # fmt: skip
        """A key in front of the greater ones of those before `end`, which move up by one."""
        builder = emit.builder
        keys, positions = place.memory[self.name]
        zero, one = builder.const(DType.i64, 0), builder.const(DType.i64, 1)
        with builder.while_([end]) as moved:
            (at,) = moved.carried
            with moved.condition():
                before = builder.maximum(builder.sub(at, one), zero)
                is_greater = builder.compare("gt", builder.load(keys, Index.of(0, before)), key)
                moved.test(builder.op("and", is_greater, builder.compare("gt", at, zero)))
            with moved.body():
                before = builder.sub(at, one)
                for buffer in (keys, positions):
                    builder.store(
                        buffer, Index.of(0, at), builder.load(buffer, Index.of(0, before))
                    )
                moved.yield_(before)
        (at,) = moved.results
        builder.store(keys, Index.of(0, at), key)
        builder.store(positions, Index.of(0, at), position)


@record
class _Merge:
    builder: LoopBuilder
    keys: Buffer
    positions: Buffer

    def rounds(self, extent: Extent) -> LoopValue:
        """Where the sorted half starts in scratch memory."""
        builder = self.builder
        size = builder.size(extent)
        with builder.while_([self._number(1), self._number(0)]) as rounds:
            width, source = rounds.carried
            with rounds.condition():
                rounds.test(builder.compare("lt", width, size))
            with rounds.body():
                target = builder.sub(size, source)
                double = builder.add(width, width)
                last = builder.sub(builder.add(size, double), self._number(1))

                def pair(number: Number, values: list[LoopValue]) -> list[LoopValue]:
                    low = builder.mul(builder.numbers.value(number), double)
                    middle = builder.minimum(builder.add(low, width), size)
                    high = builder.minimum(builder.add(low, double), size)
                    self._merge(source, target, low, middle, high)
                    return values

                counted_loop(builder, 0, builder.op("div", last, double), pair, hint="pair")
                rounds.yield_(double, target)
        return rounds.results[1]

    def _number(self, value: int) -> LoopValue:
        return self.builder.const(DType.i64, value)

    def _merge(
        self, source: LoopValue, target: LoopValue, low: LoopValue, middle: LoopValue,
        high: LoopValue,
    ) -> None:  # fmt: skip
        """The runs [low, middle) and [middle, high) of one half as one run of the other."""
        builder, one = self.builder, self._number(1)

        def taken(number: Number, runs: list[LoopValue]) -> list[LoopValue]:
            left, right = runs
            left_key = builder.load(self.keys, Index.of(0, source, left))
            right_key = builder.load(self.keys, Index.of(0, source, right))
            in_order = builder.compare("le", left_key, right_key)
            right_done = builder.compare("ge", right, high)
            left_open = builder.compare("lt", left, middle)
            takes_left = builder.op("and", left_open, builder.op("or", right_done, in_order))
            chosen = builder.select(takes_left, left, right)
            position = builder.load(self.positions, Index.of(0, source, chosen))
            place = Index.of(0, target, builder.numbers.value(number))
            builder.store(self.keys, place, builder.select(takes_left, left_key, right_key))
            builder.store(self.positions, place, position)
            # What is at neither end goes on by one.
            step = builder.convert(takes_left, DType.i64)
            return [builder.add(left, step), builder.add(right, builder.sub(one, step))]

        counted_loop(builder, low, high, taken, [low, middle], hint="k")
