"""The recipe `scatter`: copy the operand, then combine source elements into it, at positions that
are data, in row-major order of the source. A source axis along which the target is contiguous is
vectorised.

    for copied { y[e] = x[e] }
    for s0 { … for source vectors { y[position] = y[position] ∘ source } }

One thread does all of it: which elements meet is not known before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.common import declare_buffers, lanes_for
from graphc.codegen.kernels.elementwise.destinations import StoreDestination
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
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
from graphc.ir.dims import always_le
from graphc.ir.nodes import Graph, Node
from graphc.ir.registry import lookup
from graphc.ops.kinds.index import Scatter
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.op import Types
from graphc.schedule.access import Index, as_index, unflatten

_TAILS = OF_NUMBERS | {Tail.MASKED}


def lower_scatter(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body whose one output is a scatter."""
    builder = LoopBuilder(name)
    inputs, (out,) = declare_buffers(builder, body, "readwrite")
    plan = plan_scatter(body, target)
    evaluator = Evaluator(builder, body, inputs, plan.lanes)
    destination = StoreDestination(out, plan.types[0].shape)
    return write_nest(plan.nest(), NestEmitter(builder, evaluator, (destination,)))


def plan_scatter(body: Graph, target: Target) -> ScatterPlan:
    """The plan of such a kernel."""
    node = body.nodes[body.outputs[0].node]
    types = tuple(body.type_of(operand) for operand in node.operands)
    return ScatterPlan(body, node, types, lanes_for(body, target))


@dataclass(frozen=True, slots=True)
class ScatterPlan:
    """A scatter whose operands, indices and source elements have these types, by vectors."""

    body: Graph
    node: Node
    types: Types
    lanes: int

    @property
    def op(self) -> Scatter:
        return lookup(self.node.op)  # type: ignore[no-any-return]

    def nest(self) -> Nest:
        """A loop that copies, and one over each axis of the source."""
        count, source = math.prod(self.types[0].shape), self.types[2].shape
        elements = Axis("element", count, Role.ELEMENTS)
        copied = Split("copied", elements, self.lanes, Tail.MASKED, variable="v_copy")
        stores = Effect(stores=True, outputs=("y0",), tails=_TAILS)
        copy = Compute(FunctionLeaf(f"vectors of {self.lanes}", stores, self._copy))
        nest = Nest(
            self.body.name, ((Role.ELEMENTS, count),), (elements,), (), (),
            (ForEach(copied, (copy,)),), outputs=(NestOutput("y0", ("element",)),),
        )  # fmt: skip
        if 0 in source:
            return nest
        axes = tuple(Axis(f"source{i}", n, Role.SOURCES, i) for i, n in enumerate(source))
        return replace(
            nest, domain=(*nest.domain, (Role.SOURCES, math.prod(source))),
            axes=(*nest.axes, *axes), body=(*nest.body, self._combination(axes)),
        )  # fmt: skip

    def _combination(self, axes: tuple[Axis, ...]) -> Statement:
        effect = Effect(combines="y0", tails=_TAILS)
        loops = [
            ForEach(Split(f"s{axis.number}", axis, 1, Tail.EXACT), (), always=True) for axis in axes
        ]
        if axes and self._is_contiguous():
            vectors = Split("vectors", axes[-1], self.lanes, Tail.MASKED, variable="v_source")
            loops[-1] = ForEach(vectors, ())
        statement: Statement = Compute(FunctionLeaf(self.op.name, effect, self._put))
        for loop in reversed(loops):
            statement = ForEach(loop.split, (statement,), always=loop.always)
        return statement

    def _copy(self, emit: NestEmitter, place: NestPlace) -> None:
        """out = operand 0, over its flat positions."""
        shape, (out,) = self.types[0].shape, emit.outputs
        position, guards = self._vector(emit, place, "copied", "copy_lane")
        value = emit.evaluator.value(self.node.operands[0], unflatten(position, shape), guards)
        emit.evaluator.store(out.buffer, position, value, guards)

    def _vector(
        self, emit: NestEmitter, place: NestPlace, split: str, name: str
    ) -> tuple[Expr, tuple[Guard, ...]]:
        """The positions of a vector, and which of them are there."""
        lane, span = Variable(name, self.lanes), place[split]
        emit.addresses.bind_lane(lane, emit.builder.block)
        guards = () if span.rest is None else ((of(lane), 0, span.rest),)
        return span.first + of(lane), guards

    def _put(self, emit: NestEmitter, place: NestPlace) -> None:
        """An element of the source, or a vector of them."""
        rank, builder, (out,) = len(self.types[2].shape), emit.builder, emit.outputs
        loops = rank - ("vectors" in place.spans)
        index: Index = tuple(place[f"s{axis}"].number for axis in range(loops))
        guards: tuple[Guard, ...] = ()
        if loops < rank:
            last, guards = self._vector(emit, place, "vectors", "source_lane")
            index = (*index, last)
        value = emit.evaluator.value(self.node.operands[2], index, guards)
        position = self._target(index, partial(self._index, emit, guards))
        # Loads of `out` are never reused: each sees what was stored last.
        offset, _ = emit.addresses.offset(position)
        lanes = emit.addresses.lanes_of(position)
        mask = emit.addresses.mask(guards)[0] if guards else None
        new = builder.splat(value, lanes)
        if self.op.combine is not None:
            old = builder.load(out.buffer, offset, lanes, mask)
            new = self.op.combine(emit.evaluator.algebra, old, new)
        builder.store(out.buffer, offset, new, mask)

    def _index(self, emit: NestEmitter, guards: tuple[Guard, ...], at: Any) -> Expr:
        return emit.evaluator.dynamic(self.node.operands[1], as_index(at), guards)

    def _target(self, index: Index, read: Any) -> Expr:
        """Where a source element goes; `read` gives an element of the indices."""
        at = self.op.target(index, self.types, read, **dict(self.node.attributes))
        return flatten(as_index(at), self.types[0].shape)

    def _is_contiguous(self) -> bool:
        """Whether the last source axis runs along the target, whatever the indices hold."""
        index = tuple(of(Variable(f"s{axis}", n)) for axis, n in enumerate(self.types[2].shape))
        last = Variable(f"s{len(index) - 1}", self.types[2].shape[-1])
        loaded: list[Index] = []

        def read(at: Any) -> Expr:
            loaded.append(as_index(at))
            return of(Variable("loaded", 1 << 40))

        target = self._target(index, read)
        varies = any(last in item.variables() for at in loaded for item in at)
        return not varies and not always_le(last.extent, 1) and target.coefficient(last) == 1
