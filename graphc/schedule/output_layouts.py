"""Output layout propagation: results that a recipe stores where index maps put them.

Some recipes (`Composite.stores_anywhere`) compute rows one by one and can store them anywhere. So
where a result is only read through transposes and reshapes, and perhaps joined with others, the
kernel stores what comes behind those: attention's heads side by side, the gradients of q, k and v
in one matrix.

in : a graph, a result, and the value behind its index maps
out: the store destination: where in that value an element of the result lies
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphc.ir.copying import copy_nodes
from graphc.ir.draft import Draft
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.index_expr import Expr, Quotient, flatten
from graphc.ops.movement import inverse_permutation
from graphc.schedule.access import coordinates, parts_of, unflatten

_MAPS = ("transpose", "reshape")


def origin(graph: Graph, value: Value) -> Value:
    """What a value is the elements of, in another order."""
    while graph.nodes[value.node].op in _MAPS:
        (value,) = graph.nodes[value.node].operands
    return value


def stores_anywhere(graph: Graph, identity: int) -> bool:
    """Whether the recipe of a node stores its results where index maps put them."""
    op = lookup(graph.nodes[identity].op)
    return isinstance(op, Composite) and op.stores_anywhere


def store_index(graph: Graph, part: Value, target: Value) -> Expr | None:
    """The position in `target` of the element of `origin(part)` at its coordinates. `target` is
    `part`, or a `concat` of it and others. None where rows of the origin do not lie in rows."""
    path, value = [], part
    while graph.nodes[value.node].op in _MAPS:
        path.append(value)
        (value,) = graph.nodes[value.node].operands
    index = coordinates(graph.type_of(value).shape)
    if len(index) < 2:
        return None
    for step in reversed(path):
        node = graph.nodes[step.node]
        if node.op == "transpose":
            index = tuple(index[axis] for axis in node.attribute("permutation"))
        else:
            linear = flatten(index, graph.type_of(node.operands[0]).shape)
            index = unflatten(linear, node.types[0].shape)
    if target != part:
        node = graph.nodes[target.node]
        axis, number = node.attribute("axis"), node.operands.index(part)
        start = number * graph.type_of(part).shape[axis]
        index = (*index[:axis], index[axis] + start, *index[axis + 1 :])
    linear = flatten(index, graph.type_of(target).shape)
    *_, last = coordinates(graph.type_of(value).shape)
    (column,) = last.variables() or (None,)
    affine = not any(isinstance(atom, Quotient) for atom, _ in linear.terms)
    return linear if affine and column and linear.coefficient(column) == 1 else None


def store_destinations(graph: Graph, target: Value) -> dict[Value, tuple[Expr, ...]] | None:
    """By result of a node that stores so: where its elements lie in `target`. None where not all of
    the target is made of results of one such node."""
    parts = parts_of(graph, target) or (target,)
    if len(set(parts)) < len(parts):
        return None
    destinations: dict[Value, tuple[Expr, ...]] = {}
    for part in parts:
        at, source = store_index(graph, part, target), origin(graph, part)
        if at is None or graph.nodes[source.node].op in (INPUT, CONSTANT):
            return None
        node = graph.nodes[source.node]
        matrices = graph.type_of(source).rank == graph.type_of(node.operands[0]).rank
        if not stores_anywhere(graph, source.node) or not matrices:
            return None
        destinations[source] = (*destinations.get(source, ()), at)
    return destinations if len({source.node for source in destinations}) == 1 else None


Users = Mapping[Value, Iterable[int]]


def _end(graph: Graph, value: Value, reader: int, users: Users) -> Value:
    """The last of the index maps from a value on, from `reader` on one behind the other."""
    end = value
    while graph.nodes[reader].op in _MAPS:
        end = Value(reader)
        readers = set(users[end])
        if len(readers) != 1 or end in graph.outputs:
            break
        (reader,) = readers
    return end


def layout_ends(graph: Graph, identity: int, users: Users) -> set[int]:
    """The nodes behind the index maps through which alone results of a node are read."""
    end_nodes = set()
    for index in range(len(graph.nodes[identity].types)):
        value = Value(identity, index)
        readers = set(users[value])
        if len(readers) != 1 or value in graph.outputs:
            continue
        end = _end(graph, value, readers.pop(), users)
        ops = {graph.nodes[reader].op for reader in users[end]}
        if end != value and "concat" not in ops and store_destinations(graph, end):
            end_nodes.add(end.node)
    return end_nodes


def propagate_output_layouts(graph: Graph) -> Graph:
    """The graph in which a result that products read through index maps is read behind those by all
    others too, so that it lies in memory once.

        %5 = attention(..)           %5 = attention(..)
        %6 = transpose(%5)      =>   %6 = transpose(%5)
        %7 = matmul(%6, %w)          %7 = matmul(%6, %w)
        %8 = mul(%5, %g)             %8 = transpose(%6)
                                     %9 = mul(%8, %g)
    """
    users = graph.users()
    ends_of = {
        value: end
        for identity, node in enumerate(graph.nodes)
        if node.op not in (INPUT, CONSTANT) and stores_anywhere(graph, identity)
        for value in (Value(identity, index) for index in range(len(node.types)))
        if (end := _end_for_products(graph, value, users)) is not None
    }
    if not ends_of:
        return graph
    draft = Draft()
    values: dict[Value, Value] = {}

    def read(value: Value, reader: int) -> Value:
        end = ends_of.get(value)
        if end is None or reader <= end.node:
            return values[value]
        draft.location = graph.nodes[reader].location
        return _back(graph, draft, values[end], end)

    copy_nodes(graph.nodes, range(len(graph.nodes)), values, draft.add_moved, read)
    return draft.graph(graph.name, [values[v] for v in graph.outputs], graph.aliases)


def _end_for_products(graph: Graph, value: Value, users: Users) -> Value | None:
    """Where products read a result that others, which stand behind that, read as it is."""
    readers = set(users[value])
    if len(readers) < 2 or value in graph.outputs:
        return None
    ends = {
        end
        for reader in readers
        if (end := _end(graph, value, reader, users)) != value
        and any(lookup(graph.nodes[i].op).kind == "contract" for i in users[end])
    }
    if len(ends) != 1:
        return None
    (end,) = ends
    chain, current = set(), end
    while current != value:
        chain.add(current.node)
        (current,) = graph.nodes[current.node].operands
    behind = all(reader > end.node for reader in readers - chain)
    return end if behind and store_destinations(graph, end) else None


def _back(graph: Graph, draft: Draft, value: Value, end: Value) -> Value:
    """The index maps that lead to `end` undone, from its place `value` in the draft."""
    while graph.nodes[end.node].op in _MAPS:
        node = graph.nodes[end.node]
        if node.op == "transpose":
            undone = {"permutation": inverse_permutation(node.attribute("permutation"))}
        else:
            undone = {"shape": graph.type_of(node.operands[0]).shape}
        (value,) = draft.add(draft.make(node.op, value, **undone))
        (end,) = node.operands
    return value
