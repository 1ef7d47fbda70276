"""What a strategy for nests is asked about: a body, where its outputs are stored, and its loops.

In: a kernel's body without anchor. Out: a `LoopNest`: a domain, the loops over it, and how many
lanes the innermost has. Nothing of it is changed later.

The domain is the longest shape among the outputs; others are stored on the way in (a row's sum,
before the row's elements). Neighbouring axes become one loop where every address stays affine. The
innermost loop is vectorised, unless the reductions inside read along rows: then those are.
"""

from __future__ import annotations

import math
from itertools import pairwise

from graphc.codegen.kernels.common import lanes_within
from graphc.codegen.kernels.elementwise.destinations import StoreDestination
from graphc.ir.dims import known_number
from graphc.ir.nodes import INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Quotient, Variable, flatten, of
from graphc.ops.kinds.reduce import Reduce
from graphc.records import record
from graphc.schedule.access import Index, Read, coordinates, reads, unflatten


@record
class AxisLoop:
    """A loop over the neighbouring axes `first..last` of the domain as one."""

    first: int
    last: int
    variable: Variable


@record(eq=False)
class NestProblem:
    """A body without anchor, and where its outputs are stored; `lanes` are those of a full
    vector."""

    body: Graph
    outputs: tuple[StoreDestination, ...]
    lanes: int

    @property
    def shape(self) -> Shape:
        """The shape of most axes among the outputs."""
        return max((type.shape for type in self.body.output_types), key=len)

    def reads(self, index: Index) -> list[Read]:
        """What the outputs' elements at an index read from memory."""
        from_memory: list[Read] = []
        for output in self.body.outputs:
            rank = len(self.body.type_of(output).shape)
            from_memory += reads(self.body, output, index[:rank], self.is_input)
        return from_memory

    def is_input(self, value: GraphValue) -> bool:
        return self.body.nodes[value.node].op == INPUT

    def linear(self, read: Read) -> Expr:
        """Where in its buffer an element lies."""
        return flatten(read.index, self.body.type_of(read.value).shape)


@record(eq=False)
class Domain:
    """What loops run over: the elements of the problem's shape; with `period`, cells of so many of
    them along each axis."""

    problem: NestProblem
    period: Shape = ()

    @property
    def shape(self) -> Shape:
        shape = self.problem.shape
        if not self.period:
            return shape
        return tuple(-(-dim // p) for dim, p in zip(shape, self.period, strict=True))

    def element(self, cell: Index, phases: Shape) -> Index:
        """The index of one of the elements of a cell."""
        steps = zip(cell, self.period, phases, strict=True)
        return tuple(item * period + phase for item, period, phase in steps)

    def at(self, loop: AxisLoop, position: Expr) -> Index:
        """The coordinates that a position of a loop stands for."""
        return unflatten(position, self.shape[loop.first : loop.last + 1])

    def index(self, loops: tuple[AxisLoop, ...]) -> Index:
        """An element, in the loops' variables; of a cell its first."""
        index = tuple(item for loop in loops for item in self.at(loop, of(loop.variable)))
        return self.element(index, (0,) * len(index)) if self.period else index

    def reads(self, loops: tuple[AxisLoop, ...]) -> list[Read]:
        return self.problem.reads(self.index(loops))

    def is_affine(self, loops: tuple[AxisLoop, ...]) -> bool:
        """Whether every address is affine in the innermost loop. Guards count: in one loop over
        rows and columns each lane would be divided into both. Of cells, neighbours must be
        neighbours in memory too."""
        inner, index = loops[-1].variable, self.index(loops)
        if self.period:
            stored = flatten(index, self.problem.shape)
            if stored.coefficient(inner) != self.period[-1]:
                return False
        ranks = (len(type.shape) for type in self.problem.body.output_types)
        addresses = [
            destination.linear(index[:rank])
            for destination, rank in zip(self.problem.outputs, ranks)
            if destination.is_part or destination.low
        ]
        for read in self.reads(loops):
            addresses.append(self.problem.linear(read))
            addresses += [guard[0] for guard in read.guards]
        quotients = [
            atom for expr in addresses for atom, _ in expr.terms if isinstance(atom, Quotient)
        ]
        return not any(inner in atom.dividend.variables() for atom in quotients)


@record(eq=False)
class LoopNest:
    """Loops over a domain, the innermost by vectors of so many lanes."""

    domain: Domain
    loops: tuple[AxisLoop, ...]
    lanes: int

    @property
    def problem(self) -> NestProblem:
        return self.domain.problem

    @property
    def body(self) -> Graph:
        return self.domain.problem.body

    @property
    def inner(self) -> AxisLoop:
        return self.loops[-1]

    @property
    def length(self) -> int | None:
        """Elements of the innermost loop, if there is one. None where they are known only at run
        time: strategies that lay a row out, or cut it by its length, take no such nest."""
        return known_number(self.inner.variable.extent) if self.loops else None

    def reads(self) -> list[Read]:
        """What the body reads from memory, with an index in the loops' variables."""
        return self.domain.reads(self.loops)

    def is_affine(self) -> bool:
        return self.domain.is_affine(self.loops)

    def level_of(self, rank: int) -> int:
        """How many loops cover so many axes."""
        return sum(loop.last < rank for loop in self.loops)


def loop_nest(domain: Domain) -> LoopNest:
    """As few loops over a domain as keep every address affine."""
    loops = _choose_loops(domain)
    return LoopNest(domain, loops, _choose_lanes(domain, loops))


def _choose_loops(domain: Domain) -> tuple[AxisLoop, ...]:
    """Outputs of lower rank, and reductions at a lower rank, must find a loop that ends where they
    do."""
    rank = len(domain.shape)
    if rank == 0:
        return ()
    borders = {len(type.shape) for type in domain.problem.body.output_types} - {0, rank}
    borders |= _reduction_borders(domain)
    splits = [sorted(borders)]
    splits += [sorted(borders | {axis}) for axis in range(1, rank) if axis not in borders]
    splits.append(list(range(1, rank)))
    for split in splits:
        loops = _loops(domain.shape, split)
        if domain.is_affine(loops):
            return loops
    return _loops(domain.shape, list(range(1, rank)))


def _loops(shape: Shape, split: list[int]) -> tuple[AxisLoop, ...]:
    edges = [0, *split, len(shape)]
    return tuple(
        AxisLoop(a, b - 1, Variable(f"d{a}_{b}", math.prod(shape[a:b]))) for a, b in pairwise(edges)
    )


def _reduction_borders(domain: Domain) -> set[int]:
    """Ranks at which a reduction is read along the rows of the domain."""
    body = domain.problem.body
    reduced = [
        node_id
        for node_id, node in enumerate(body.nodes)
        if node.op != INPUT and node.op != "constant" and isinstance(lookup(node.op), Reduce)
    ]
    at = coordinates(domain.shape)
    borders = set()
    for output in body.outputs:
        rank = len(body.type_of(output).shape)
        for read in reads(body, output, at[:rank], lambda v: v.node in reduced):
            axes = [axis for axis, item in enumerate(at) if _uses(read.index, item)]
            if axes and len(axes) < len(at) and axes == list(range(len(axes))):
                borders.add(len(axes))
    return borders


def _uses(index: Index, item: Expr) -> bool:
    wanted = item.variables()
    return bool(wanted) and any(wanted & other.variables() for other in index)


def _choose_lanes(domain: Domain, loops: tuple[AxisLoop, ...]) -> int:
    """Lanes of the innermost loop: 1 where reductions inside it read along rows."""
    if not loops:
        return 1
    inner = loops[-1].variable
    down = along = 0
    for read in domain.reads(loops):
        linear = domain.problem.linear(read)
        if not read.reduced or inner not in linear.variables():
            continue
        down += linear.coefficient(inner) == 1
        others = [v for v in linear.variables() if v.name.startswith("r")]
        along += any(linear.coefficient(v) == 1 and not of(v).below(3) for v in others)
    if along > down:
        return 1
    return lanes_within(domain.problem.lanes, inner.extent)
