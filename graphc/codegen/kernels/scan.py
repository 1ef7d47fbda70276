"""The recipe `scan`: one line along the axis after another; what was combined so far is carried in
a register. Where the axis is not the last, neighbouring lines are the lanes of vectors.

    for line with v:                  all lines, or of the last axis vectors of them
      y[0] = running = x[0]
      for k from 1 on: y[k] = running = running ∘ x[k]

The loop along a line is the leaf's: what it carries is a register, and the nest's loops carry none.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.leaf_loops import fold
from graphc.codegen.kernels.common import declare_buffers, lanes_for, lanes_within
from graphc.codegen.kernels.elementwise.destinations import StoreDestination
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Effect,
    ForEach,
    FunctionLeaf,
    Nest,
    NestOutput,
    NestPlace,
    Role,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.nests.writer import write_nest
from graphc.codegen.target import Target
from graphc.ir.dims import Extent
from graphc.ir.nodes import Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.scan import Scan
from graphc.records import record
from graphc.schedule.access import Index, unflatten


def lower_scan(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body whose one output is a scan. It runs over lines, or vectors of them."""
    builder = LoopBuilder(name)
    inputs, (out,) = declare_buffers(builder, body)
    plan = plan_scan(body, target)
    if plan is None:
        return builder.finish(1)
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    destination = StoreDestination(out, plan.shape)
    return write_nest(plan.nest(), NestEmitter(builder, evaluator, (destination,)))


def plan_scan(body: Graph, target: Target) -> ScanPlan | None:
    """The plan of such a kernel; None where it has no results."""
    node = body.nodes[body.outputs[0].node]
    (operand,) = node.operands
    shape, axis = body.type_of(operand).shape, node.attribute("axis")
    if 0 in shape:
        return None
    others = shape[:axis] + shape[axis + 1 :]
    along_last = axis == len(shape) - 1
    return ScanPlan(
        body, operand, lookup(node.op), shape, axis,
        others if along_last else others[:-1], None if along_last else shape[-1],
        1 if along_last else lanes_within(lanes_for(body, target), shape[-1]),
    )  # fmt: skip


@record
class ScanPlan:
    """A scan along an axis of a shape. Of the other axes `columns` is the last, where lines are
    vectors of so many `lanes` along it, and `outer` are the rest."""

    body: Graph
    operand: GraphValue
    op: Scan
    shape: Shape
    axis: int
    outer: Shape
    columns: Extent | None
    lanes: int

    def nest(self) -> Nest:
        """Loops over lines, and vectors along columns where there are several."""
        lines = Split("line", Axis("lines", math.prod(self.outer), Role.ELEMENTS), 1, Tail.EXACT)
        along = Axis("k", self.shape[self.axis], Role.ELEMENTS, 2)
        loops, covered = [lines] if self.outer or self.columns is None else [], [along]
        if self.columns is not None:
            columns = Axis("columns", self.columns, Role.ELEMENTS, 1)
            vectors = Split("v", columns, self.lanes, Tail.BOUNDED)
            if loops and vectors.is_one_tile:
                covered.insert(0, columns)
            else:
                loops.append(vectors)
        first, fused = loops[0], loops[1] if loops[1:] else None
        effect = Effect(
            covers=tuple(axis.name for axis in covered), stores=True, outputs=("y0",),
            tails=OF_NUMBERS | {Tail.BOUNDED},
        )  # fmt: skip
        text = f"{self.op.name}, vectors of {self.lanes} lines"
        body: Statement = Compute(FunctionLeaf(text, effect, self._write))
        if fused is not None:
            body = ForEach(fused, (body,))
        axes = (*(split.axis for split in loops), *covered)
        return Nest(
            self.body.name, ((Role.ELEMENTS, math.prod(self.shape)),), axes, (), (first,),
            (ForEach(first, (body,), always=True, fused=fused, flat=bool(fused)),), fused=fused,
            outputs=(NestOutput("y0", tuple(axis.name for axis in axes)),),
        )  # fmt: skip

    def _write(self, emit: NestEmitter, place: NestPlace) -> None:
        lane = Variable("lane", self.lanes)
        line = place["line"].number if "line" in place.spans else of(0)
        others, guards = unflatten(line, self.outer), tuple[Guard, ...]()
        if self.columns is not None:
            emit.addresses.bind_lane(lane, emit.builder.block)
            column = of(lane) + (place["v"].first if "v" in place.spans else 0)
            others = (*others, column)
            guards = ((column, 0, self.columns),) if self.columns % self.lanes != 0 else ()
        _Line(self, emit, others, guards).write()


@record
class _Line:
    """A line, or a vector of lines, at coordinates of all axes but the scan's."""

    plan: ScanPlan
    emit: NestEmitter
    others: Index
    guards: tuple[Guard, ...]

    def write(self) -> None:
        """Its size may be 0 where it is known only at run time."""
        builder, size = self.emit.builder, self.plan.shape[self.plan.axis]
        is_there = builder.numbers.nonzero(size)
        if is_there is None:
            self._combine(of(0), size)
            return
        with builder.if_(is_there) as branch:
            with branch.then():
                # A variable of this block, so that nothing is read ahead of the test.
                start = Variable("start", size)
                self.emit.addresses.bind(start, builder.const(DType.i64, 0), builder.block)
                self._combine(of(start), size)
            with branch.otherwise():
                pass

    def _combine(self, start: Expr, size: Extent) -> None:
        evaluator = self.emit.evaluator

        def step(at: Expr, so_far: list[LoopValue]) -> tuple[LoopValue, ...]:
            running = self.plan.op.step(evaluator.algebra, tuple(so_far), self._parts(at))
            self._store(at, running)
            return running

        first = self._parts(start)
        self._store(start, first)
        fold(evaluator.addresses, Variable("k", size), (1, size), "k", first, step)

    def _parts(self, at: Expr) -> tuple[LoopValue, ...]:
        element = self.emit.evaluator.value(self.plan.operand, self._index(at), self.guards)
        parts = self.plan.op.parts(element, lambda: self.emit.addresses.number(at)[0])
        return tuple(self.emit.builder.splat(part, self.plan.lanes) for part in parts)

    def _store(self, at: Expr, parts: Any) -> None:
        (out,) = self.emit.outputs
        place = out.linear(self._index(at))
        self.emit.evaluator.store(out.buffer, place, parts[-1], self.guards)

    def _index(self, at: Expr) -> Index:
        return (*self.others[: self.plan.axis], at, *self.others[self.plan.axis :])
