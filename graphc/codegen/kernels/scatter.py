"""The recipe `scatter`: copy the operand, then combine source elements into it, at positions that
are data, in row-major order of the source. A source axis along which the target is contiguous is
vectorised.

    for copied { y[e] = x[e] }
    for s0 { … for source vectors { y[position] = y[position] ∘ source } }

Which elements meet is not known before, but for coordinates that a source has in common with its
place. Threads divide the target along such an axis: its rows (the leading axis) where an element of
the source stays in its own; else the vectors of its last axis, where that is vectorised: then each
thread goes through all indices, and puts its part of every slice. So no place belongs to two
threads, and all that goes to it comes in its order, however the range is cut. Without such an axis
one thread does all of it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.loop_cut import LoopCut
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
from graphc.ir.dim_terms import same_terms
from graphc.ir.dims import is_single
from graphc.ir.nodes import Graph, Node
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.kinds.index import Scatter
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.op import Types
from graphc.records import record, replace
from graphc.schedule.access import Index, as_index, unflatten

_TAILS = OF_NUMBERS | {Tail.MASKED}
_ELSEWHERE = of(Variable("loaded", 1 << 40))
"""A position that is data."""
Shared = Literal["rows", "vectors"]
"""What of the target threads divide."""


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
    plan = ScatterPlan(body, node, types, lanes_for(body, target), None)
    return replace(plan, shared=plan.divided())


@record
class ScatterPlan:
    """A scatter whose operands, indices and source elements have these types, by vectors of so many
    `lanes`. `shared`: what threads divide; None: nothing."""

    body: Graph
    node: Node
    types: Types
    lanes: int
    shared: Shared | None

    @property
    def op(self) -> Scatter:
        return lookup(self.node.op)  # type: ignore[no-any-return]

    def divided(self) -> Shared | None:
        """What threads can divide: nothing where rows are shorter than a vector."""
        shape, source = self.types[0].shape, self.types[2].shape
        if len(shape) < 2 or 0 in source:
            return None
        if LoopCut(math.prod(shape[1:]), self.lanes).least_whole < 1:
            return None
        (first, *_, last), _ = self._coordinates()
        if first == _coordinate(source, 0) and same_terms(source[0], shape[0]):
            return "rows"
        along = last == _coordinate(source, len(source) - 1) and same_terms(source[-1], shape[-1])
        is_cut = not LoopCut(shape[-1], self.lanes).is_one_tile
        return "vectors" if along and is_cut and self._is_contiguous() else None

    @property
    def source_axes(self) -> tuple[str, ...]:
        """The nest's axes that each axis of the source is: its own, or the one it shares."""
        names = [f"source{i}" for i in range(len(self.types[2].shape))]
        if self.shared == "rows":
            names[0] = "row"
        elif self.shared == "vectors":
            names[-1] = "column"
        return tuple(names)

    @property
    def _leading(self) -> int:
        """How many axes of the target the copy's outer loop goes through."""
        return {None: 0, "rows": 1, "vectors": len(self.types[0].shape) - 1}[self.shared]

    @property
    def _copied(self) -> str:
        """The split of the copy's inner loop."""
        return "column" if self.shared == "vectors" else "copied"

    def nest(self) -> Nest:
        """A loop that copies, and one over each axis of the source; both inside one over rows, or
        around one over vectors of columns, where threads divide those."""
        shape, source = self.types[0].shape, self.types[2].shape
        split = self._leading
        outer, inner = math.prod(shape[:split]), math.prod(shape[split:])
        row = Axis("row", outer, Role.ELEMENTS)
        rows = Split("row", row, 1, Tail.EXACT)
        name = "column" if self.shared == "vectors" else "element"
        element = Axis(name, inner, Role.ELEMENTS, min(split, 1))
        copied = Split(self._copied, element, self.lanes, Tail.MASKED, variable="v_copy")
        stores = Effect(stores=True, outputs=("y0",), tails=_TAILS)
        copy: Statement = ForEach(
            copied, (Compute(FunctionLeaf(f"vectors of {self.lanes}", stores, self._copy)),)
        )
        elements = (row, element) if split else (element,)
        own = {
            name: Axis(name, n, Role.SOURCES, i)
            for i, (name, n) in enumerate(zip(self.source_axes, source, strict=True))
            if name.startswith("source")
        }
        body = (ForEach(rows, (copy,), always=True) if split else copy,)
        sources = (Role.SOURCES, math.prod(axis.extent for axis in own.values()))
        axes = {**own, **{axis.name: axis for axis in elements}}
        combination = () if 0 in source else (self._combination(axes, rows, copied),)
        return Nest(
            self.body.name,
            ((Role.ELEMENTS, math.prod(shape)), *((sources,) if combination else ())),
            (*elements, *(own.values() if combination else ())), (),
            {None: (), "rows": (rows,), "vectors": (copied,)}[self.shared],
            (*body, *combination),
            outputs=(NestOutput("y0", tuple(axis.name for axis in elements)),),
        )  # fmt: skip

    def _combination(self, axes: dict[str, Axis], rows: Split, vectors: Split) -> Statement:
        """The loops over the source, those that are shared over the splits of the copy."""
        effect = Effect(combines="y0", tails=_TAILS)
        loops = []
        for at, name in enumerate(self.source_axes):
            if name == "row":
                split = rows
            elif name == "column":
                split = vectors
            elif at == len(self.source_axes) - 1 and self._is_contiguous():
                split = Split("vectors", axes[name], self.lanes, Tail.MASKED, variable="v_source")
            else:
                split = Split(f"s{at}", axes[name], 1, Tail.EXACT)
            loops.append(split)
        statement: Statement = Compute(FunctionLeaf(self.op.name, effect, self._put))
        for split in reversed(loops):
            statement = ForEach(split, (statement,), always=split.tail is Tail.EXACT)
        return statement

    def _copy(self, emit: NestEmitter, place: NestPlace) -> None:
        """out = operand 0: over its flat positions, or along those of a row."""
        shape, (out,) = self.types[0].shape, emit.outputs
        position, guards = self._vector(emit, place, self._copied, "copy_lane")
        split = self._leading
        lead = unflatten(place["row"].number, shape[:split]) if split else ()
        index = (*lead, *unflatten(position, shape[split:]))
        value = emit.evaluator.value(self.node.operands[0], index, guards)
        emit.evaluator.store(out.buffer, flatten(index, shape), value, guards)

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
        builder, (out,) = emit.builder, emit.outputs
        index: Index = ()
        guards: tuple[Guard, ...] = ()
        for axis, name in enumerate(self.source_axes):
            split = f"s{axis}" if name.startswith("source") else name
            split = split if split in place.spans else "vectors"
            if split in ("vectors", "column"):
                at, guards = self._vector(emit, place, split, "source_lane")
            else:
                at = place[split].number
            index = (*index, at)
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

    def _coordinates(self) -> tuple[Index, list[Index]]:
        """Where an element goes, by its coordinates s0, s1, …, and what indices are read for it."""
        source = self.types[2].shape
        loaded: list[Index] = []

        def read(at: Any) -> Expr:
            loaded.append(as_index(at))
            return _ELSEWHERE

        index = tuple(_coordinate(source, axis) for axis in range(len(source)))
        at = self.op.target(index, self.types, read, **dict(self.node.attributes))
        return as_index(at), loaded

    def _is_contiguous(self) -> bool:
        """Whether the last source axis runs along the target, whatever the indices hold."""
        source = self.types[2].shape
        if not source:
            return False
        last = Variable(f"s{len(source) - 1}", source[-1])
        at, loaded = self._coordinates()
        varies = any(last in item.variables() for index in loaded for item in index)
        along = flatten(at, self.types[0].shape).coefficient(last) == 1
        return along and not varies and not is_single(last.extent)


def _coordinate(shape: Shape, axis: int) -> Expr:
    return of(Variable(f"s{axis}", shape[axis]))
