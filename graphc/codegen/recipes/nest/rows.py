"""A fused group of elementwise ops, index maps and reductions as a loop nest, row by row.

In: a kernel body without anchor, and where its outputs are stored. Out: its loops.

The nest runs over the group's domain, the longest shape among its outputs; others are stored on
the way in (a row's sum, before the row's elements). Neighbouring axes become one loop where every
address stays affine. The innermost loop is vectorised, unless the reductions inside read along
rows: then those are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.copier import Copier
from graphc.codegen.evaluate.evaluator import Evaluator, Position
from graphc.codegen.evaluate.loop_cut import LoopCut, Part
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.recipes.nest.destinations import StoreDestination
from graphc.codegen.recipes.nest.row_values import output_to_hold, rows_to_keep
from graphc.ir.dims import Extent, always_le
from graphc.ir.nodes import INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Quotient, Variable, flatten, of
from graphc.ops.kinds.reduce import Reduce
from graphc.schedule.access import Index, Read, coordinates, reads, unflatten

ROW_LIMIT = 1 << 16
"""Elements of a row up to which values are kept in scratch."""


@dataclass(frozen=True, slots=True)
class AxisLoop:
    """A loop over the neighbouring axes `first..last` of the domain as one."""

    first: int
    last: int
    variable: Variable


class Nest:
    """Loops over the domain, the innermost by vectors."""

    def __init__(
        self,
        builder: LoopBuilder,
        evaluator: Evaluator,
        body: Graph,
        outputs: list[StoreDestination],
    ):
        self.builder = builder
        self.evaluator = evaluator
        self.body = body
        self.outputs = outputs
        self.domain = self._domain()
        self.loops = self._choose_loops()
        self.lanes = self._choose_lanes()

    def build(self) -> Kernel:
        if not self.loops:
            self._store_level(0, ())
            return self.builder.finish(extent=1)
        outer = self.loops[0]
        if len(self.loops) == 1:
            self._vector_loop(outer, (), (self.builder.begin, self.builder.end))
            return self.builder.finish(extent=self._parts(outer))
        with self.builder.loop(self.builder.begin, self.builder.end, hint="i0") as loop:
            self._enter(outer, loop.variable, 0, ())
        return self.builder.finish(extent=outer.variable.extent)

    # -- loops -------------------------------------------------------------------------------

    def _enter(self, loop: AxisLoop, variable: LoopValue, level: int, index: Index) -> None:
        """Inside loop `level`: bind its variable, store the outputs of this level, go on."""
        self.evaluator.integers.bind(loop.variable, variable, self.builder.block)
        index += unflatten(of(loop.variable), self.domain[loop.first : loop.last + 1])
        inner = self.loops[level + 1]
        if level + 2 == len(self.loops):
            # First, so that reductions which are outputs read what is kept.
            self._keep_rows(inner, index)
            self._store_level(level + 1, index)
            self._vector_loop(inner, index)
            return
        self._store_level(level + 1, index)
        hint = f"i{level + 1}"
        with self.builder.loop(0, self.builder.bound(inner.variable.extent), hint=hint) as nested:
            self._enter(inner, nested.variable, level + 1, index)

    def _keep_rows(self, loop: AxisLoop, index: Index) -> None:
        """Computes costly values that several sweeps over this row read once, into memory."""
        extent = loop.variable.extent
        if not isinstance(extent, int) or extent > ROW_LIMIT:
            return
        inner = self.domain[loop.first :]
        kept = rows_to_keep(self.body, self.domain, loop.first)
        output = output_to_hold(self.body, self.domain, loop.first, kept)
        copier = Copier(self.builder, self.evaluator, self.lanes)
        for value in kept:
            if output is not None and value == kept[0]:
                destination = self.outputs[output]
                memory = self.builder.read_back(destination.buffer)
                position: Position = destination.linear
                self.outputs[output] = replace(destination, buffer=memory)
            else:
                dtype = self.body.type_of(value).dtype
                memory = self.builder.scratch(f"row{value.node}", dtype, extent)
                position = partial(_in_row, first=loop.first, shape=inner)
            copier.row(
                extent,
                lambda _, at, guards, v=value: self.evaluator.value(  # type: ignore[misc]
                    v, index + unflatten(at, inner), guards
                ),
                lambda _, at, p=position: p(index + unflatten(at, inner)),  # type: ignore[misc]
                memory,
            )
            self.evaluator.keep_row(value, index, memory, position, self.builder.block)

    def _parts(self, loop: AxisLoop) -> Extent:
        """Into how many parts the only loop is cut for threads."""
        return LoopCut(loop.variable.extent, self.lanes).tiles

    def _vector_loop(self, loop: AxisLoop, index: Index, part: Part | None = None) -> None:
        """The innermost loop by vectors, and the masked rest. With a part this is also the
        outermost loop."""
        LoopCut(loop.variable.extent, self.lanes).each(
            self.evaluator.integers, f"v_{loop.first}", partial(self._vector, loop, index), part
        )

    def _vector(self, loop: AxisLoop, index: Index, number: Expr, rest: Extent | None) -> None:
        """One vector, or what is left of the last one. Index maps are told that there are no more
        elements, so that rows of an image stay rows also where a vector is longer."""
        integers, lanes = self.evaluator.integers, self.lanes
        if isinstance(rest, int):
            while lanes // 2 >= max(rest, self.evaluator.lanes):
                lanes //= 2
        lane = every = Variable(f"lane_{loop.first}", lanes)
        integers.bind_lane(every, self.builder.block)
        guards: tuple[Guard, ...] = ()
        if rest is not None:
            lane = Variable(f"rest_{loop.first}", rest)
            integers.bind_lane(lane, self.builder.block, every)
            if rest not in (1, lanes):
                guards = ((of(every), 0, rest),)
        self._store_inner(loop, index, number * self.lanes + of(lane), guards)

    def _store_inner(
        self, loop: AxisLoop, index: Index, position: Expr, guards: tuple[Guard, ...]
    ) -> None:
        inner = unflatten(position, self.domain[loop.first : loop.last + 1])
        self._store_level(len(self.loops), index + inner, guards)

    def _store_level(self, level: int, index: Index, guards: tuple[Guard, ...] = ()) -> None:
        """Store the outputs whose last axis is covered by the first `level` loops."""
        ready = []
        for number, output in enumerate(self.body.outputs):
            shape = self.body.type_of(output).shape
            if self._level_of(len(shape)) == level:
                at = index[: len(shape)]
                value = self.evaluator.value(output, at, guards)
                ready.append((self.outputs[number], at, value))
        # All values first: an output may take the place of something another still reads.
        for destination, at, value in ready:
            self.evaluator.store(destination.buffer, destination.linear(at), value, guards)

    def _level_of(self, rank: int) -> int:
        return sum(loop.last < rank for loop in self.loops)

    # -- choices -----------------------------------------------------------------------------

    def _domain(self) -> Shape:
        return longest_shape(self.body)

    def _choose_loops(self) -> tuple[AxisLoop, ...]:
        """As few loops as keep every address affine. Outputs of lower rank, and reductions at a
        lower rank, must find a loop that ends where they do."""
        rank = len(self.domain)
        if rank == 0:
            return ()
        borders = {len(type.shape) for type in self.body.output_types} - {0, rank}
        borders |= self._reduction_borders()
        splits = [sorted(borders)]
        splits += [sorted(borders | {axis}) for axis in range(1, rank) if axis not in borders]
        splits.append(list(range(1, rank)))
        for split in splits:
            loops = self._loops(split)
            if self._is_affine(loops):
                return loops
        return self._loops(list(range(1, rank)))

    def _reduction_borders(self) -> set[int]:
        """Ranks at which a reduction is read along the rows of the domain."""
        reduced = [
            node_id
            for node_id, node in enumerate(self.body.nodes)
            if node.op != INPUT and node.op != "constant" and isinstance(lookup(node.op), Reduce)
        ]
        at = coordinates(self.domain)
        borders = set()
        for output in self.body.outputs:
            rank = len(self.body.type_of(output).shape)
            for read in reads(self.body, output, at[:rank], lambda v: v.node in reduced):
                axes = [axis for axis, item in enumerate(at) if _uses(read.index, item)]
                if axes and len(axes) < len(self.domain) and axes == list(range(len(axes))):
                    borders.add(len(axes))
        return borders

    def _loops(self, split: list[int]) -> tuple[AxisLoop, ...]:
        edges = [0, *split, len(self.domain)]
        return tuple(
            AxisLoop(a, b - 1, Variable(f"d{a}_{b}", math.prod(self.domain[a:b])))
            for a, b in pairwise(edges)
        )

    def _index(self, loops: tuple[AxisLoop, ...]) -> Index:
        return tuple(
            item
            for loop in loops
            for item in unflatten(of(loop.variable), self.domain[loop.first : loop.last + 1])
        )

    def _memory_reads(self, loops: tuple[AxisLoop, ...]) -> list[Read]:
        index = self._index(loops)
        from_memory: list[Read] = []
        for output in self.body.outputs:
            rank = len(self.body.type_of(output).shape)
            from_memory += reads(self.body, output, index[:rank], self.is_input)
        return from_memory

    def all_reads(self) -> list[Read]:
        """What the body reads from memory, with an index in the loops' variables."""
        return self._memory_reads(self.loops)

    def is_input(self, value: GraphValue) -> bool:
        return self.body.nodes[value.node].op == INPUT

    def is_affine(self) -> bool:
        """Whether every address is affine in the innermost loop."""
        return self._is_affine(self.loops)

    def _is_affine(self, loops: tuple[AxisLoop, ...]) -> bool:
        """Guards count: in one loop over rows and columns each lane would be divided into both."""
        inner = loops[-1].variable
        index = self._index(loops)
        ranks = (len(type.shape) for type in self.body.output_types)
        addresses = [
            destination.linear(index[:rank])
            for destination, rank in zip(self.outputs, ranks)
            if destination.is_part
        ]
        for read in self._memory_reads(loops):
            addresses.append(flatten(read.index, self.body.type_of(read.value).shape))
            addresses += [guard[0] for guard in read.guards]
        quotients = [
            atom for expr in addresses for atom, _ in expr.terms if isinstance(atom, Quotient)
        ]
        return not any(inner in atom.dividend.variables() for atom in quotients)

    def _choose_lanes(self) -> int:
        """Lanes of the innermost loop: 1 where reductions inside it read along rows."""
        if not self.loops:
            return 1
        inner = self.loops[-1].variable
        down = along = 0
        for read in self._memory_reads(self.loops):
            if not read.reduced:
                continue
            linear = flatten(read.index, self.body.type_of(read.value).shape)
            if inner not in linear.variables():
                continue
            down += linear.coefficient(inner) == 1
            others = [v for v in linear.variables() if v.name.startswith("r")]
            along += any(linear.coefficient(v) == 1 and not always_le(v.extent, 3) for v in others)
        if along > down:
            return 1
        lanes = self.evaluator.lanes
        while lanes > 1 and always_le(inner.extent, lanes // 2):
            lanes //= 2
        return lanes


def longest_shape(body: Graph) -> Shape:
    """The shape of most axes among the outputs."""
    return max((type.shape for type in body.output_types), key=len)


def _in_row(at: Index, first: int, shape: Shape) -> Expr:
    """The position of an element in a row of `shape`, the axes from `first` on."""
    return flatten(at[first:], shape)


def _uses(index: Index, item: Expr) -> bool:
    wanted = item.variables()
    return bool(wanted) and any(wanted & other.variables() for other in index)
