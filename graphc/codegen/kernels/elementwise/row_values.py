"""Which values of a row are computed once and kept: costly ones that several sweeps over it read.

A softmax goes over its row three times: for the maximum, for the sum of the exponentials, and for
their quotients. Without this the exponentials would be computed in both of the last two. They are
kept where the quotients go, in the output's own row: memory that is first touched while something
costly is computed is waited for by nobody.
"""

from __future__ import annotations

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.movement import Movement
from graphc.ops.kinds.reduce import Reduce
from graphc.schedule.access import coordinates, reads

COSTLY = 8
"""The cost of an op, in additions, from which a load and a store are cheaper."""


def rows_to_keep(body: Graph, domain: Shape, first: int) -> list[Value]:
    """Elementwise values over the whole domain, in order, each read by several of the sweeps over
    the axes from `first` on: reductions, and the outputs."""
    axes = tuple(range(first, len(domain)))
    sweeps: list[list[Value]] = [list(body.outputs)]
    for node in body.nodes:
        if node.op in (INPUT, CONSTANT) or not isinstance(lookup(node.op), Reduce):
            continue
        if tuple(node.attribute("axes")) == axes:
            sweeps.append(list(node.operands))
    if len(sweeps) < 2:
        return []
    counts: dict[Value, int] = {}
    for sweep in sweeps:
        for value in _costly(body, domain, sweep, frozenset()):
            counts[value] = counts.get(value, 0) + 1
    shared = frozenset(value for value, count in counts.items() if count > 1)
    # What is read only on the way to another one that is kept is computed once anyway.
    needed = {value for sweep in sweeps for value in _costly(body, domain, sweep, shared)}
    return sorted(shared & needed, key=lambda value: value.node)


def output_to_hold(body: Graph, domain: Shape, first: int, kept: list[Value]) -> int | None:
    """The output whose row can hold the first of the values kept, until its elements take their
    places one by one: the only one over the whole domain. Each of its elements reads those kept at
    its own place, and no input: that may be the memory of the output, which is updated."""
    whole = [i for i, type in enumerate(body.output_types) if type.shape == domain]
    if len(whole) != 1 or not kept:
        return None
    output = body.outputs[whole[0]]
    if output in kept or body.type_of(output).dtype is not body.type_of(kept[0]).dtype:
        return None
    at = coordinates(domain)
    along = {variable for item in at[first:] for variable in item.variables()}
    held = frozenset(kept)
    for read in reads(
        body, output, at, lambda value: value in held or body.nodes[value.node].op == INPUT
    ):
        moves = any(along & item.variables() for item in read.index)
        own = read.value in held and read.index == at and not read.reduced
        if moves and not own:
            return None
    return whole[0]


def _costly(body: Graph, domain: Shape, roots: list[Value], stop: frozenset[Value]) -> set[Value]:
    """The costly values on the ways from the roots to what is read or reduced; behind those in
    `stop` no others are looked for."""
    costly: set[Value] = set()
    seen: set[Value] = set()
    work = list(roots)
    while work:
        value = work.pop()
        node = body.nodes[value.node]
        if value in seen or node.op in (INPUT, CONSTANT):
            continue
        seen.add(value)
        op = lookup(node.op)
        type = body.type_of(value)
        plain = isinstance(op, Elementwise) and type.shape == domain and not type.dtype.is_storage
        if plain and op.cost >= COSTLY:
            costly.add(value)
        if isinstance(op, Elementwise | Movement) and value not in stop:
            work += node.operands
    return costly
