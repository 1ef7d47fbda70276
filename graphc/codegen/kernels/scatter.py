"""The recipe `scatter`: copy the operand, then combine source elements into loaded positions, in
row-major order of the source. A source axis along which the target is contiguous is vectorised.

The range that threads share is one of the target: its rows (the leading axis) where an element of
the source stays in its own; else the vectors of its last axis, where that is vectorised: then each
thread goes through all indices, and puts its part of every slice. No place belongs to two threads,
and all that goes to it comes in its order, however the range is cut.

It has no nest: its results are stored again and again, at positions that are data. A nest would
need a role for axes of what is combined into results, in order, and an effect that says that an
output is read back; no other recipe has either."""

from __future__ import annotations

import math
from typing import Any, Literal

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.loop_cut import LoopCut, Part
from graphc.codegen.kernels.common import declare_buffers, lanes_for
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Kernel
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, always_le
from graphc.ir.nodes import Graph, Node
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.kinds.index import Scatter
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.op import Types
from graphc.schedule.access import Index, as_index, unflatten

Shared = Literal["rows", "vectors"]
"""What the range of a kernel counts."""


def lower_scatter(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body whose one output is a scatter."""
    builder = LoopBuilder(name)
    inputs, (out,) = declare_buffers(builder, body, "readwrite")
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    (output,) = body.outputs
    node = body.nodes[output.node]
    types = tuple(body.type_of(operand) for operand in node.operands)
    shape = types[0].shape
    shared = _shared(lookup(node.op), node, types, evaluator.lanes)
    _copy(builder, evaluator, node, shape, out, shared)
    _combine(builder, evaluator, node, types, out, shared)
    if shared is None:
        return builder.finish(1)
    return builder.finish(
        shape[0] if shared == "rows" else LoopCut(shape[-1], evaluator.lanes).tiles
    )


def _shared(op: Scatter, node: Node, types: Types, lanes: int) -> Shared | None:
    """What of the target threads can share; None: nothing, or rows shorter than a vector."""
    shape, source = types[0].shape, types[2].shape
    if len(shape) < 2 or 0 in source or not always_le(lanes, math.prod(shape[1:])):
        return None
    at, _ = _coordinates(op, node, types)
    if at[0] == of(Variable("s0", source[0])) and _same(source[0], shape[0]):
        return "rows"
    last = of(Variable(f"s{len(source) - 1}", source[-1]))
    along = at[-1] == last and _same(source[-1], shape[-1]) and _is_contiguous(op, node, types)
    return "vectors" if along and not always_le(shape[-1], lanes) else None


def _same(a: Extent, b: Extent) -> bool:
    return always_le(a, b) and always_le(b, a)


def _copy(
    builder: LoopBuilder, evaluator: Evaluator, node: Node, shape: Shape, out: Buffer,
    shared: Shared | None,
) -> None:  # fmt: skip
    """out = operand 0: over its flat positions, over those of each row, or along each of its last
    axis."""
    lanes = evaluator.lanes
    lane = Variable("copy_lane", lanes)
    split = {None: 0, "rows": 1, "vectors": len(shape) - 1}[shared]
    outer, inner = shape[:split], shape[split:]
    part = (builder.begin, builder.end)

    def along(lead: Index) -> None:
        def store(number: Expr, rest: Extent | None) -> None:
            evaluator.addresses.bind_lane(lane, builder.block)
            guards = () if rest is None else ((of(lane), 0, rest),)
            index = (*lead, *unflatten(number * lanes + of(lane), inner))
            value = evaluator.value(node.operands[0], index, guards)
            evaluator.store(out, flatten(index, shape), value, guards)

        cut = LoopCut(math.prod(inner), lanes)
        cut.each(evaluator.addresses, "v_copy", store, part if shared == "vectors" else None)

    if not outer:
        along(())
        return
    ends: Part = part if shared == "rows" else (0, math.prod(outer))
    with builder.loop(ends[0], ends[1], hint="r") as loop:
        row = Variable("copied_row", math.prod(outer))
        evaluator.addresses.bind(row, loop.variable, builder.block)
        along(unflatten(of(row), outer))


def _combine(
    builder: LoopBuilder, evaluator: Evaluator, node: Node, types: Types, out: Buffer,
    shared: Shared | None,
) -> None:  # fmt: skip
    op: Scatter = lookup(node.op)
    shape, source = types[0].shape, types[2].shape
    part = (builder.begin, builder.end)
    if 0 in source:
        return

    def target(index: Index, guards: Any) -> Expr:
        def read(at: Any) -> Expr:
            return evaluator.dynamic(node.operands[1], as_index(at), guards)

        return flatten(as_index(op.target(index, types, read, **dict(node.attributes))), shape)

    def put(index: Index, guards: Any) -> None:
        value = evaluator.value(node.operands[2], index, guards)
        position = target(index, guards)
        # Loads of `out` are never reused: each sees what was stored last.
        offset, _ = evaluator.addresses.offset(position)
        lanes = evaluator.addresses.lanes_of(position)
        mask = evaluator.addresses.mask(guards)[0] if guards else None
        new = builder.splat(value, lanes)
        if op.combine is not None:
            new = op.combine(evaluator.algebra, builder.load(out, offset, lanes, mask), new)
        builder.store(out, offset, new, mask)

    def nest(axis: int, index: Index) -> None:
        if axis == len(source):
            put(index, ())
            return
        if axis == len(source) - 1 and _is_contiguous(op, node, types):
            rows(index, source[axis])
            return
        ends: Part = part if axis == 0 and shared == "rows" else (0, source[axis])
        with builder.loop(ends[0], ends[1], hint=f"s{axis}") as loop:
            variable = Variable(f"s{axis}", source[axis])
            evaluator.addresses.bind(variable, loop.variable, builder.block)
            nest(axis + 1, (*index, of(variable)))

    def rows(index: Index, extent: Extent) -> None:
        lanes = evaluator.lanes
        lane = Variable("source_lane", lanes)

        def vector(number: Expr, rest: Extent | None) -> None:
            evaluator.addresses.bind_lane(lane, builder.block)
            guards = () if rest is None else ((of(lane), 0, rest),)
            put((*index, number * lanes + of(lane)), guards)

        cut = LoopCut(extent, lanes)
        cut.each(evaluator.addresses, "v_source", vector, part if shared == "vectors" else None)

    nest(0, ())


def _coordinates(op: Scatter, node: Node, types: Types) -> tuple[Index, list[Index]]:
    """Where an element goes, by its coordinates s0, s1, …, and what indices are read for it."""
    index = tuple(of(Variable(f"s{axis}", dim)) for axis, dim in enumerate(types[2].shape))
    loaded: list[Index] = []

    def read(at: Any) -> Expr:
        loaded.append(as_index(at))
        return of(Variable("loaded", 1 << 40))

    return as_index(op.target(index, types, read, **dict(node.attributes))), loaded


def _is_contiguous(op: Scatter, node: Node, types: Types) -> bool:
    """Whether the last source axis runs along the target, whatever the indices hold."""
    at, loaded = _coordinates(op, node, types)
    last = Variable(f"s{len(types[2].shape) - 1}", types[2].shape[-1])
    varies = any(last in item.variables() for index in loaded for item in index)
    position = flatten(at, types[0].shape)
    return not varies and not always_le(last.extent, 1) and position.coefficient(last) == 1
