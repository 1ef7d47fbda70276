"""The recipe `sort`: each line along the axis by a stable merge sort, from runs of one element up.

    for line:
      for k: keys[k], positions[k] = the key of x[k], k
      fill runs                       merge rounds: runs of 1, 2, 4, … become runs of twice as many
      for k: y[k] = positions[k]

Elements become integers of the same order first (NaN the greatest, the zeros equal), complemented
where the order is descending. Keys and positions lie in scratch memory, twice: each round merges
pairs of runs from one half into the other. n elements take ⌈log₂ n⌉ rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.common import declare_buffers
from graphc.codegen.kernels.elementwise.destinations import StoreDestination
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Index, Kernel, LoopValue
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
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.writer import write_nest
from graphc.codegen.target import Target
from graphc.ir.dims import Extent
from graphc.ir.nodes import Graph, Value
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr
from graphc.schedule.access import Index as Coordinates
from graphc.schedule.access import unflatten


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
    shape, axis = body.type_of(operand).shape, node.attribute("axis")
    return (
        None if 0 in shape else SortPlan(body, operand, shape, axis, node.attribute("descending"))
    )


@dataclass(frozen=True, slots=True)
class SortPlan:
    """A sort of all lines along an axis of a shape."""

    body: Graph
    operand: Value
    shape: Shape
    axis: int
    descending: bool

    @property
    def size(self) -> Extent:
        return self.shape[self.axis]

    @property
    def outer(self) -> Shape:
        return self.shape[: self.axis] + self.shape[self.axis + 1 :]

    @property
    def key_type(self) -> DType:
        return {4: DType.i32, 8: DType.i64}[self.body.type_of(self.operand).dtype.itemsize]

    def nest(self) -> Nest:
        lines = Axis("lines", math.prod(self.outer), Role.ELEMENTS)
        along, line = Axis("k", self.size, Role.ELEMENTS, 1), Split("line", lines, 1, Tail.EXACT)
        runs = SortedRuns(self)
        of_keys = Effect(fills="runs")
        of_positions = Effect(reads=("runs",), stores=True, outputs=("y0",))
        order = "descending" if self.descending else "ascending"
        loads, stores = (
            ForEach(Split(name, along, 1, Tail.EXACT), (Compute(leaf),), always=True)
            for name, leaf in (
                ("in", FunctionLeaf(f"{order} keys", of_keys, self._load_key)),
                ("out", FunctionLeaf("positions", of_positions, self._store_position)),
            )
        )
        return Nest(
            self.body.name, ((Role.ELEMENTS, math.prod(self.shape)),), (lines, along), (runs,),
            (line,), (ForEach(line, (loads, Fill(runs), stores), always=True),),
            outputs=(NestOutput("y0", ("lines", "k")),),
        )  # fmt: skip

    def _index(self, place: NestPlace, at: Expr) -> Coordinates:
        others = unflatten(place["line"].number, self.outer)
        return (*others[: self.axis], at, *others[self.axis :])

    def _load_key(self, emit: NestEmitter, place: NestPlace) -> None:
        keys, positions = place.memory["runs"]
        at = place["in"].number
        element = emit.evaluator.value(self.operand, self._index(place, at))
        number = emit.addresses.scalar(at)
        emit.builder.store(keys, Index.of(0, number), self._key(emit.builder, element))
        emit.builder.store(positions, Index.of(0, number), number)

    def _key(self, builder: LoopBuilder, element: LoopValue) -> LoopValue:
        """An integer that is in the order of the elements."""
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
        (out,), (_, positions), at = emit.outputs, place.memory["runs"], place["out"].number
        number = emit.addresses.scalar(at)
        position = emit.builder.load(positions, Index.of(0, place.filled["runs"], number))
        emit.evaluator.store(out.buffer, out.linear(self._index(place, at)), position)


@dataclass(frozen=True, slots=True)
class SortedRuns:
    """Keys and positions of a line, in two halves. Filling it merges runs until there is one, and
    gives where the half begins that has it."""

    plan: SortPlan
    name: str = "runs"
    holds: Holds = Holds.VALUES
    whole: tuple[str, ...] = ("line",)

    @property
    def room(self) -> Room:
        # One element more than two halves: a run's end is looked at, though never taken.
        return (("k", 2 * self.plan.size + 1),)

    @property
    def text(self) -> str:
        return f"{self.plan.key_type.value} keys and positions, twice; merged in rounds"

    def declare(self, emit: NestEmitter) -> tuple[Buffer, Buffer]:
        ((_, room),) = self.room
        keys = emit.builder.scratch("keys", self.plan.key_type, room)
        return keys, emit.builder.scratch("positions", DType.i64, room)

    def clear(self, emit: NestEmitter, place: NestPlace) -> None:
        raise NotImplementedError("keys are written, never cleared")

    def fill(self, emit: NestEmitter, place: NestPlace) -> LoopValue:
        return _Merge(emit.builder, *place.memory[self.name]).rounds(self.plan.size)


@dataclass(frozen=True, slots=True)
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
                with builder.loop(0, builder.op("div", last, double), hint="pair") as pairs:
                    low = builder.mul(pairs.variable, double)
                    middle = builder.minimum(builder.add(low, width), size)
                    high = builder.minimum(builder.add(low, double), size)
                    self._merge(source, target, low, middle, high)
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
        with builder.loop(low, high, carried=[low, middle], hint="k") as loop:
            left, right = loop.carried
            left_key = builder.load(self.keys, Index.of(0, source, left))
            right_key = builder.load(self.keys, Index.of(0, source, right))
            in_order = builder.compare("le", left_key, right_key)
            right_done = builder.compare("ge", right, high)
            left_open = builder.compare("lt", left, middle)
            takes_left = builder.op("and", left_open, builder.op("or", right_done, in_order))
            chosen = builder.select(takes_left, left, right)
            position = builder.load(self.positions, Index.of(0, source, chosen))
            place = Index.of(0, target, loop.variable)
            builder.store(self.keys, place, builder.select(takes_left, left_key, right_key))
            builder.store(self.positions, place, position)
            # What is at neither end goes on by one.
            step = builder.convert(takes_left, DType.i64)
            loop.yield_(builder.add(left, step), builder.add(right, builder.sub(one, step)))
