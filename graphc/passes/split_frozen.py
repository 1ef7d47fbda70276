"""Constant hoisting: what frozen inputs alone decide, computed once, before all calls: weight
preprocessing.

in : an optimised graph, and which of its inputs never change
out: a graph of the frozen inputs, run once, and the graph that takes its results as further inputs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphc.ir.copying import extract
from graphc.ir.dims import always_le
from graphc.ir.graph_queries import ancestors, determined_by, reachable
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup, parameters
from graphc.ir.symbols import has_symbols
from graphc.ir.types import TensorType
from graphc.ops.kinds.region import WhileLoop
from graphc.passes.dequantized import in_products
from graphc.records import record

# Index maps that cost nothing where they are read, and would cost memory as values.
_LEFT = ("broadcast", "reshape", "slice", "unpack", "unpack_pairs", "unpack_quads")


@record
class FrozenSplit:
    """`constants` takes the frozen inputs and gives the prepared values. `graph` takes the inputs
    of the graph that was split, in order, with the prepared values before input `position`."""

    constants: Graph
    graph: Graph
    position: int


def split_frozen(
    graph: Graph, frozen: Sequence[int], position: int, *, is_open: bool = True
) -> FrozenSplit | None:
    """The two graphs, None where nothing depends on frozen inputs alone. Unless `is_open`, what
    depends on open sizes too stays.

        g(%x, %w) {                          constants(%w) { %1 = transpose(%w)  return %1 }
          %2 = transpose(%w)           =>    g(%x, %w, %p) {
          %3 = matmul(%x, %2)                  %3 = matmul(%x, %p)
          return %3                            return %3
        }                                    }

    Nodes with a content check stay: they may raise.
    """
    known = depending_on(graph, set(frozen), is_open=is_open)
    frontier = frontier_of(graph, known)
    if not frontier:
        return None
    constants = extract(graph, f"{graph.name}_constants", [Value(i) for i in frozen], frontier)
    inputs = [Value(i) for i in range(len(graph.inputs))]
    inputs[position:position] = frontier
    return FrozenSplit(
        constants, extract(graph, graph.name, inputs, list(graph.outputs), graph.aliases), position
    )


def parts(constants: Graph) -> Iterator[tuple[tuple[int, ...], Graph]]:
    """The prepared values, each alone: which inputs it is computed from, and the graph of these
    that gives it."""
    for value in constants.outputs:
        needed = ancestors(constants.nodes, [value])
        read = tuple(i for i in range(len(constants.inputs)) if i in needed)
        yield read, extract(constants, "packed", [Value(i) for i in read], [value])


def depending_on(graph: Graph, inputs: set[int], *, is_open: bool = True) -> set[int]:
    """These inputs, and the nodes that depend on them and constants alone. Not those that may fail
    or not end: where they stand, they may not run. Unless `is_open`, not those with open sizes."""

    def admits(node: Node) -> bool:
        return _certain(graph, node) and (is_open or not has_symbols(node))

    return determined_by(graph, inputs, admits)


def _certain(graph: Graph, node: Node) -> bool:
    """Whether a node gives its results whatever its operands hold."""
    op = lookup(node.op)
    types = tuple(graph.type_of(v) for v in node.operands)
    if isinstance(op, WhileLoop) or op.checks(types, parameters(node)):
        return False
    return all(
        inner.op in (INPUT, CONSTANT) or _certain(region, inner)
        for region in node.regions
        for inner in region.nodes
    )


def frontier_of(graph: Graph, known: set[int]) -> list[Value]:
    """The values of these nodes that the others or the outputs read, but for inputs. Behind an
    index map that costs nothing, what it reads."""

    users = graph.users()
    widened = _cast_where_read(graph, known, users)
    for matrix in in_products(graph, users).values():
        widened |= matrix.nodes

    def is_left(value: Value) -> bool:
        node = graph.nodes[value.node]
        # Of what is repeated a cast would be stored as often as it is.
        repeated = node.op == "cast" and graph.nodes[node.operands[0].node].op == "broadcast"
        left = repeated or value.node in widened or node.op in _LEFT
        return left and value.node in known

    read = [v for i, node in enumerate(graph.nodes) if i not in known for v in node.operands]
    behind = reachable(
        (*read, *graph.outputs), lambda v: graph.nodes[v.node].operands if is_left(v) else ()
    )
    return sorted(
        v for v in behind
        if v.node in known and graph.nodes[v.node].op != INPUT and not is_left(v)
    )  # fmt: skip


def is_widening(cast: Node, operand: TensorType) -> bool:
    """Whether a cast makes more bytes of an element."""
    return cast.types[0].dtype.itemsize > operand.dtype.itemsize


def _cast_where_read(
    graph: Graph, known: set[int], users: Mapping[Value, Sequence[int]]
) -> set[int]:
    """The casts of narrow matrices that nothing but a product of one row reads, and the index maps
    between: it waits for memory, of which the narrow matrix is less (see read_once.py)."""
    left = set[int]()
    for identity, node in enumerate(graph.nodes):
        if node.op != "matmul" or not always_le(graph.type_of(node.operands[0]).shape[-2], 1):
            continue
        chain, reader, value = set[int](), identity, node.operands[1]
        while value.node in known and set(users[value]) == {reader} and value not in graph.outputs:
            source = graph.nodes[value.node]
            if source.op not in (*_LEFT, "cast", "transpose"):
                break
            chain.add(value.node)
            if source.op == "cast":
                if is_widening(source, graph.type_of(source.operands[0])):
                    left |= chain
                break
            reader, (value,) = value.node, source.operands
    return left
