"""Which elements a fused computation reads: index maps followed symbolically through a graph.

in : a graph, a value, the index at which one element of it is wanted, and where to stop
out: the reads: (stopped value, index there), with the variables of reductions in between
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator

from graphc.ir.dims import Extent
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup
from graphc.ir.types import Shape, row_major_strides
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.contract import Contract
from graphc.ops.kinds.generate import Generate
from graphc.ops.kinds.host import Host
from graphc.ops.kinds.index import Gather, Scatter
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Case, Movement
from graphc.ops.kinds.reduce import Reduce
from graphc.ops.kinds.region import Region
from graphc.ops.kinds.scan import Scan
from graphc.ops.kinds.serial import Serial
from graphc.ops.kinds.sort import Sort
from graphc.records import record

Index = tuple[Expr, ...]
Guard = tuple[Expr, Extent, Extent]

# Kinds a kernel can compute at any index it is asked for.
LIGHT = ("elementwise", "movement", "gather", "generate")
REDUCTIONS = ("reduce", "argreduce")
ANCHORS = ("contract", "scatter", "scan", "sort", "serial", "composite", "host", "region")


@record
class Read:
    """One element read, where the guards hold that index maps put on it. `reduced`: a reduction
    lies between."""

    value: Value
    index: Index
    reduced: bool
    guards: tuple[Guard, ...]

    @property
    def guarded(self) -> bool:
        return bool(self.guards)


def behind_reshape(graph: Graph, value: Value, kept: Container[int] = ()) -> Value:
    """The value that has the same elements in the same order: what a loop or branch reads. Those
    kept in memory are not looked behind."""
    while graph.nodes[value.node].op == "reshape" and value.node not in kept:
        (value,) = graph.nodes[value.node].operands
    return value


def coordinates(shape: Shape, prefix: str = "d") -> Index:
    """A variable for each axis of a shape."""
    return tuple(of(Variable(f"{prefix}{axis}", dim)) for axis, dim in enumerate(shape))


def unflatten(flat: Expr, shape: Shape) -> Index:
    """The coordinate of a row-major flat position."""
    result = []
    for axis, (dim, stride) in enumerate(zip(shape, row_major_strides(shape), strict=True)):
        quotient = flat // stride if stride != 0 else flat
        result.append(quotient if axis == 0 else quotient % dim if dim != 0 else quotient)
    return tuple(result)


def as_index(index: tuple[Expr | int, ...]) -> Index:
    """Index maps may give plain numbers; here they become expressions."""
    return tuple([item if isinstance(item, Expr) else of(item) for item in index])


def movement_cases(op: Movement, graph: Graph, node_id: int, index: Index) -> list[Case]:
    """The cases of a movement node at `index`, without those that certainly do not hold and
    without guards that certainly do."""
    node = graph.nodes[node_id]
    types = tuple([graph.type_of(operand) for operand in node.operands])
    kept = []
    for case in op.cases(index, types, **dict(node.attributes)):
        guards = []
        possible = True
        for expression, low, high in case.guards:
            bounded = expression if isinstance(expression, Expr) else of(expression)
            if bounded.below(low) or bounded.at_least(high):
                possible = False
            if not bounded.within(low, high):
                guards.append((bounded, low, high))
        if not possible:
            continue
        kept.append(Case(case.operand, as_index(case.index), tuple(guards)))
        if not guards:
            break
    return kept


def reduced_index(op: Reduce, axes: Shape, index: Index, positions: Index) -> Index:
    """The operand's index: `positions` at the reduced axes, `index` at the others."""
    kept, inner = iter(index), iter(positions)
    rank = len(index) + len(axes)
    return tuple(next(inner) if axis in axes else next(kept) for axis in range(rank))


def outer_axes(shape: Shape, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Of the axes that are reduced those ahead of the last kept one, whatever the sizes are. Their
    elements are not neighbours in a row."""
    last = max((axis for axis in range(len(shape)) if axis not in axes), default=-1)
    return tuple(axis for axis in axes if axis < last)


def parts_of(graph: Graph, value: Value) -> tuple[Value, ...]:
    """The parts of a `concat` if they have one shape, else nothing. A kernel that stores such a
    value computes all parts at an index and stores each where it belongs."""
    node = graph.nodes[value.node]
    if node.op != "concat" or len(node.operands) < 2:
        return ()
    shapes = {graph.type_of(operand).shape for operand in node.operands}
    return node.operands if len(shapes) == 1 else ()


_fresh = itertools.count()


def reads(
    graph: Graph, value: Value, index: Index, stop: Callable[[Value], bool]
) -> Iterator[Read]:
    """The reads behind element `index` of `value`. `stop(value)` says which are not followed;
    `value` itself is. What an anchor reads is taken to be all of its operands."""
    first: tuple[Value, Index, bool, tuple[Guard, ...]] = (value, index, False, ())
    seen = set()
    work = [first]
    while work:
        item = work.pop()
        value, index, reduced, guards = item
        if stop(value) and (item is not first or graph.nodes[value.node].op == INPUT):
            yield Read(*item)
            continue
        if item in seen:
            continue
        seen.add(item)
        for operand, inner, reduces, more in _operand_reads(graph, value, index):
            both = guards + tuple([guard for guard in more if guard not in guards])
            work.append((operand, inner, reduced or reduces, both))


def _operand_reads(
    graph: Graph, value: Value, index: Index
) -> Iterator[tuple[Value, Index, bool, tuple[Guard, ...]]]:
    node = graph.nodes[value.node]
    if node.op in (INPUT, CONSTANT):
        return
    op = lookup(node.op)
    attributes = dict(node.attributes)
    types = tuple(graph.type_of(operand) for operand in node.operands)
    if isinstance(op, Movement):
        for case in movement_cases(op, graph, value.node, index):
            yield node.operands[case.operand], case.index, False, case.guards
    elif isinstance(op, Reduce):
        axes = node.attribute("axes")
        positions = tuple(of(Variable(f"r{next(_fresh)}", types[0].shape[axis])) for axis in axes)
        yield node.operands[0], reduced_index(op, axes, index, positions), True, ()
    elif isinstance(op, Gather):
        inner: list[Index] = []

        def read(at: Index) -> Expr:
            inner.append(as_index(at))
            return of(Variable(f"g{next(_fresh)}", 1 << 62))

        source = op.source(index, types, read, **attributes)
        yield node.operands[0], as_index(source), False, ()
        for at in inner:
            yield node.operands[1], at, False, ()
    elif isinstance(op, Generate):
        for position, type in enumerate(types):
            yield node.operands[position], coordinates(type.shape, "s"), False, ()
    elif isinstance(op, Contract | Scatter | Scan | Sort | Serial | Composite | Host | Region):
        for position, type in enumerate(types):
            names = f"c{next(_fresh)}_"
            yield node.operands[position], coordinates(type.shape, names), True, ()
    else:
        for operand in node.operands:
            yield operand, index, False, ()
