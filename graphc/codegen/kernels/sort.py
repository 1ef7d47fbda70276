"""The recipe `sort`: each line along the axis by a stable merge sort, from runs of one element up.

Elements become integers of the same order first (NaN the greatest, the zeros equal), complemented
where the order is descending. Keys and positions lie in scratch memory, twice: each round merges
pairs of runs from one half into the other. n elements take ⌈log₂ n⌉ rounds.
"""

from __future__ import annotations

import math

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.common import declare_buffers
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Index, Kernel, LoopValue
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.sort import Sort
from graphc.schedule.access import Index as Coordinates
from graphc.schedule.access import unflatten


def lower_sort(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body whose one output is a sort. It runs over the lines along the axis."""
    builder = LoopBuilder(name)
    inputs, (out,) = declare_buffers(builder, body)
    return _SortLoops(builder, Evaluator(builder, body, inputs, 1), body, out).build()


class _SortLoops:
    def __init__(self, builder: LoopBuilder, evaluator: Evaluator, body: Graph, out: Buffer):
        self.builder = builder
        self.evaluator = evaluator
        self.out = out
        (output,) = body.outputs
        node = body.nodes[output.node]
        assert isinstance(lookup(node.op), Sort)
        self.operand = node.operands[0]
        type = body.type_of(self.operand)
        self.shape = type.shape
        self.axis: int = node.attribute("axis")
        self.descending: bool = node.attribute("descending")
        self.size = self.shape[self.axis]
        # One element more than two halves: a run's end is looked at, though never taken.
        self.key_type = {4: DType.i32, 8: DType.i64}[type.dtype.itemsize]
        self.keys = builder.scratch("keys", self.key_type, 2 * self.size + 1)
        self.positions = builder.scratch("positions", DType.i64, 2 * self.size + 1)

    def build(self) -> Kernel:
        if 0 in self.shape:
            return self.builder.finish(extent=1)
        builder = self.builder
        outer = self.shape[: self.axis] + self.shape[self.axis + 1 :]
        extent = math.prod(outer)
        with builder.loop(builder.begin, builder.end, hint="line") as loop:
            line = Variable("line", extent)
            self.evaluator.addresses.bind(line, loop.variable, builder.block)
            others = unflatten(of(line), outer)
            self._load(others)
            sorted_half = self._merge_rounds()
            self._store(others, sorted_half)
        return builder.finish(extent=extent)

    def _number(self, value: int) -> LoopValue:
        return self.builder.const(DType.i64, value)

    def _index(self, at: Expr, others: Coordinates) -> Coordinates:
        return (*others[: self.axis], at, *others[self.axis :])

    # -- in and out --------------------------------------------------------------------------

    def _load(self, others: Coordinates) -> None:
        with self.builder.loop(0, self.size, hint="k") as loop:
            at = Variable("in", self.size)
            self.evaluator.addresses.bind(at, loop.variable, self.builder.block)
            element = self.evaluator.value(self.operand, self._index(of(at), others))
            place = Index.of(0, loop.variable)
            self.builder.store(self.keys, place, self._key(element))
            self.builder.store(self.positions, place, loop.variable)

    def _store(self, others: Coordinates, half: LoopValue) -> None:
        with self.builder.loop(0, self.size, hint="k") as loop:
            at = Variable("out", self.size)
            self.evaluator.addresses.bind(at, loop.variable, self.builder.block)
            position = self.builder.load(self.positions, Index.of(0, half, loop.variable))
            place = flatten(self._index(of(at), others), self.shape)
            self.evaluator.store(self.out, place, position)

    def _key(self, element: LoopValue) -> LoopValue:
        """An integer that is in the order of the elements."""
        key = self._float_key(element) if element.type.dtype.is_float else element
        return self.builder.op("not", key) if self.descending else key

    def _float_key(self, element: LoopValue) -> LoopValue:
        # The bits of a float are in order as sign and magnitude; of negative ones the magnitude is
        # complemented. Adding +0 makes -0 to +0.
        builder, integer = self.builder, self.key_type
        greatest = builder.const(integer, (1 << (8 * integer.itemsize - 1)) - 1)
        zero = builder.const(element.type.dtype, 0)
        bits = builder.bitcast(builder.add(element, zero), integer)
        sign = builder.op("ashr", bits, builder.const(integer, 8 * integer.itemsize - 1))
        ordered = builder.op("xor", bits, builder.op("and", sign, greatest))
        return builder.select(builder.compare("ne", element, element), greatest, ordered)

    # -- merging -----------------------------------------------------------------------------

    def _merge_rounds(self) -> LoopValue:
        """Where the sorted half starts in scratch memory."""
        builder = self.builder
        size = builder.size(self.size)
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

    def _merge(
        self,
        source: LoopValue,
        target: LoopValue,
        low: LoopValue,
        middle: LoopValue,
        high: LoopValue,
    ) -> None:
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
