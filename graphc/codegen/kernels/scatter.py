"""The recipe `scatter`: copy the operand, then combine source elements into loaded positions, in
row-major order of the source. A source axis along which the target is contiguous is vectorised.

It has no nest: its results are stored again and again, at positions that are data. A nest would
need a role for axes of what is combined into results, in order, and an effect that says that an
output is read back; no other recipe has either."""

from __future__ import annotations

import math
from typing import Any

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.kernels.common import declare_buffers, lanes_for
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Kernel
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, always_le
from graphc.ir.nodes import Graph, Node
from graphc.ir.registry import lookup
from graphc.ops.kinds.index import Scatter
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.schedule.access import Index, as_index, unflatten


def lower_scatter(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body whose one output is a scatter."""
    builder = LoopBuilder(name)
    inputs, (out,) = declare_buffers(builder, body, "readwrite")
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    (output,) = body.outputs
    node = body.nodes[output.node]
    _copy(builder, evaluator, body, node, out)
    _combine(builder, evaluator, body, node, out)
    return builder.finish(extent=1)


def _copy(builder: LoopBuilder, evaluator: Evaluator, body: Graph, node: Node, out: Buffer) -> None:
    """out = operand 0, over its flat positions."""
    shape = body.type_of(node.operands[0]).shape
    lanes = evaluator.lanes
    lane = Variable("copy_lane", lanes)

    def store(number: Expr, rest: Extent | None) -> None:
        evaluator.addresses.bind_lane(lane, builder.block)
        position = number * lanes + of(lane)
        guards = () if rest is None else ((of(lane), 0, rest),)
        value = evaluator.value(node.operands[0], unflatten(position, shape), guards)
        evaluator.store(out, position, value, guards)

    LoopCut(math.prod(shape), lanes).each(evaluator.addresses, "v_copy", store)


def _combine(
    builder: LoopBuilder, evaluator: Evaluator, body: Graph, node: Node, out: Buffer
) -> None:
    op: Scatter = lookup(node.op)
    types = tuple(body.type_of(operand) for operand in node.operands)
    shape, source = types[0].shape, types[2].shape
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
        with builder.loop(0, source[axis], hint=f"s{axis}") as loop:
            variable = Variable(f"s{axis}", source[axis])
            evaluator.addresses.bind(variable, loop.variable, builder.block)
            nest(axis + 1, (*index, of(variable)))

    def rows(index: Index, extent: int) -> None:
        lanes = evaluator.lanes
        lane = Variable("source_lane", lanes)

        def vector(number: Expr, rest: Extent | None) -> None:
            evaluator.addresses.bind_lane(lane, builder.block)
            guards = () if rest is None else ((of(lane), 0, rest),)
            put((*index, number * lanes + of(lane)), guards)

        LoopCut(extent, lanes).each(evaluator.addresses, "v_source", vector)

    nest(0, ())


def _is_contiguous(op: Scatter, node: Node, types: Any) -> bool:
    """Whether the last source axis runs along the target, whatever the indices hold."""
    index = tuple(of(Variable(f"s{axis}", dim)) for axis, dim in enumerate(types[2].shape))
    last = Variable(f"s{len(index) - 1}", types[2].shape[-1])
    loaded: list[Index] = []

    def read(at: Any) -> Expr:
        loaded.append(as_index(at))
        return of(Variable("loaded", 1 << 40))

    target = flatten(
        as_index(op.target(index, types, read, **dict(node.attributes))), types[0].shape
    )
    varies = any(last in item.variables() for at in loaded for item in at)
    return not varies and not always_le(last.extent, 1) and target.coefficient(last) == 1
