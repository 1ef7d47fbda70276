"""The recipe `scan`: one line along the axis after another; what was combined so far is carried in
a register. Where the axis is not the last, neighbouring lines are the lanes of vectors."""

from __future__ import annotations

import math
from typing import Any

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.common import declare_buffers, lanes_for
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Kernel, LoopValue
from graphc.codegen.target import Target
from graphc.ir.dims import always_le, always_lt, ceil_div
from graphc.ir.nodes import Graph
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.scan import Scan
from graphc.schedule.access import Index, unflatten


def lower_scan(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body whose one output is a scan. It runs over lines, or blocks of them."""
    builder = LoopBuilder(name)
    inputs, (out,) = declare_buffers(builder, body)
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    return _ScanLoops(builder, evaluator, body, out).build()


class _ScanLoops:
    def __init__(self, builder: LoopBuilder, evaluator: Evaluator, body: Graph, out: Buffer):
        self.builder = builder
        self.evaluator = evaluator
        self.out = out
        (output,) = body.outputs
        node = body.nodes[output.node]
        self.op: Scan = lookup(node.op)
        self.operand = node.operands[0]
        self.shape = body.type_of(self.operand).shape
        self.axis: int = node.attribute("axis")
        self.lanes = self._choose_lanes()

    def _choose_lanes(self) -> int:
        if self.axis == len(self.shape) - 1:
            return 1
        lanes = self.evaluator.lanes
        while lanes > 1 and always_le(self.shape[-1], lanes // 2):
            lanes //= 2
        return lanes

    def build(self) -> Kernel:
        if 0 in self.shape:
            return self.builder.finish(extent=1)
        builder, addresses = self.builder, self.evaluator.addresses
        along_last = self.axis == len(self.shape) - 1
        last = 1 if along_last else self.shape[-1]
        blocks = ceil_div(last, self.lanes)
        outer = tuple(
            size for a, size in enumerate(self.shape)
            if a != self.axis and (along_last or a < len(self.shape) - 1)
        )  # fmt: skip
        extent = math.prod(outer) * blocks
        with builder.loop(builder.begin, builder.end, hint="line") as loop:
            line, lane = Variable("line", extent), Variable("lane", self.lanes)
            addresses.bind(line, loop.variable, builder.block)
            addresses.bind_lane(lane, builder.block)
            others = unflatten(of(line) // blocks, outer)
            guards: tuple[Guard, ...] = ()
            if not along_last:
                column = (of(line) % blocks) * self.lanes + of(lane)
                others = (*others, column)
                guards = ((column, 0, last),) if last % self.lanes != 0 else ()
            self._line_if_any(others, guards)
        return builder.finish(extent=extent)

    def _line_if_any(self, others: Index, guards: tuple[Guard, ...]) -> None:
        """A line, whose size may be 0 where it is known only at run time."""
        builder, size = self.builder, self.shape[self.axis]
        if always_lt(0, size):
            self._line(of(0), others, guards)
            return
        zero = builder.const(DType.i64, 0)
        with builder.if_(builder.compare("ne", builder.size(size), zero)) as branch:
            with branch.then():
                # A variable of this block, so that nothing is read ahead of the test.
                start = Variable("start", size)
                self.evaluator.addresses.bind(start, zero, builder.block)
                self._line(of(start), others, guards)
            with branch.otherwise():
                pass

    def _line(self, start: Expr, others: Index, guards: tuple[Guard, ...]) -> None:
        builder, addresses = self.builder, self.evaluator.addresses
        size = self.shape[self.axis]
        first = self._parts(start, others, guards)
        self._store(start, others, first, guards)
        if size == 1:
            return
        with builder.loop(1, size, carried=first, hint="k") as loop:
            step = Variable("k", size)
            addresses.bind(step, loop.variable, builder.block)
            new = self._parts(of(step), others, guards)
            running = self.op.step(self.evaluator.algebra, tuple(loop.carried), new)
            self._store(of(step), others, running, guards)
            loop.yield_(*running)

    def _parts(self, at: Expr, others: Index, guards: tuple[Guard, ...]) -> tuple[LoopValue, ...]:
        element = self.evaluator.value(self.operand, self._index(at, others), guards)
        parts = self.op.parts(element, lambda: self.evaluator.addresses.number(at)[0])
        return tuple(self.builder.splat(part, self.lanes) for part in parts)

    def _store(self, at: Expr, others: Index, parts: Any, guards: tuple[Guard, ...]) -> None:
        place = flatten(self._index(at, others), self.shape)
        self.evaluator.store(self.out, place, parts[-1], guards)

    def _index(self, at: Expr, others: Index) -> Index:
        return (*others[: self.axis], at, *others[self.axis :])
