"""Matrices of products that are computed from integers of few bits: dequantized weights.

in : a graph, or a draft of one
out: for a matrix the nodes that make it element by element, and the much smaller values that these
     read: integers of at most 8 bits, scales and zero points of rows or groups

Such a matrix is never stored: whatever reads it reads those values and computes elements where it
reads them. Products of few rows wait for memory, those of many copy each element into a panel once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from graphc.ir.draft import Draft
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import Shape, TensorType
from graphc.ops.layouts.packing import COLUMNS, ROWS
from graphc.records import record

INDEX_MAPS = ("broadcast", "reshape", "slice", "transpose", "unpack")
SMALLER = 8
"""Values of at most one in so many of the matrix's elements are read as they are, not computed for
each element."""
NARROWER = 2
"""Times that the matrix has more bytes than all that is read."""
LIMIT = 24
"""Operations for an element."""

Repacked = Callable[[Draft, Value, Shape, int, tuple[int, int]], Value]
"""A tensor, as a matrix of some shape, through tiles along one of its axes (passes/layouts.py)."""


@record
class Dequantized:
    """The nodes behind a matrix, and the values that they read."""

    nodes: frozenset[int]
    sources: tuple[Value, ...]

    def computed(self, graph: Graph) -> list[int]:
        """The nodes that compute with the values, in order: none that are constants, nor index maps
        of the values as they are, which cost nobody anything."""
        moved, dependent = {source.node for source in self.sources}, set[int]()
        for identity in sorted(self.nodes):
            node = graph.nodes[identity]
            behind = {value.node for value in node.operands}
            if behind & dependent or (behind & moved and node.op not in INDEX_MAPS):
                dependent.add(identity)
            elif behind & moved:
                moved.add(identity)
        return sorted(dependent)


def dequantized(node_of: Callable[[Value], Node], matrix: Value) -> Dequantized | None:
    """How a matrix is computed from integers and scales; None where it is not."""
    type = _type(node_of, matrix)
    if type.is_symbolic or not type.dtype.is_float or type.numel == 0:
        return None
    nodes, sources, work, todo = set[int](), dict[Value, None](), 0, [matrix]
    while todo:
        value = todo.pop()
        if value.node in nodes or value in sources:
            continue
        node = node_of(value)
        if not _is_computed(node_of, value, type):
            sources[value] = None
            continue
        nodes.add(value.node)
        work += 0 if node.op in (INPUT, CONSTANT) else int(getattr(lookup(node.op), "cost", 0))
        if node.op == "unpack":  # what is packed lies in memory
            sources[node.operands[0]] = None
        todo += reversed(node.operands)
    read = [_type(node_of, source) for source in sources]
    if work > LIMIT or len(read) < 2 or any(each.is_symbolic for each in read):
        return None
    integers = any(_is_narrow(each) and each.numel * SMALLER > type.numel for each in read)
    if not integers or sum(each.nbytes for each in read) * NARROWER > type.nbytes:
        return None
    return Dequantized(frozenset(nodes), tuple(sources))


def in_products(graph: Graph, users: Mapping[Value, Sequence[int]]) -> dict[int, Dequantized]:
    """The matrix products whose second operand is dequantized, and read by such products alone;
    those of integers in blocks, whose scales are computed where they are read."""
    matrices = {}
    for identity, node in enumerate(graph.nodes):
        factor = None
        if node.op == "matmul":
            factor = dequantized(lambda value: graph.nodes[value.node], node.operands[1])
        elif node.op == "block_matmul":
            factor = _of_blocks(graph, node)
        if factor is not None:
            matrices[identity] = factor
    inside = {
        identity for factor in matrices.values() for identity in factor.nodes
    } | matrices.keys()
    outputs = {value.node for value in graph.outputs}
    return {
        identity: factor for identity, factor in matrices.items()
        if all(
            node not in outputs and inside.issuperset(users[Value(node)])
            for node in factor.computed(graph)
        )
    }  # fmt: skip


def _of_blocks(graph: Graph, node: Node) -> Dequantized | None:
    """What the right operand's bytes, scales and minimums are made of element by element. None
    where that is too much work for a scale of a block."""
    nodes, sources, work, todo = set[int](), dict[Value, None](), 0, list(node.operands[2:])
    while todo:
        value = todo.pop()
        if value.node in nodes or value in sources:
            continue
        made_by = graph.nodes[value.node]
        constant = made_by.op == CONSTANT and made_by.attribute("value").scalar is not None
        of_elements = made_by.op not in (INPUT, CONSTANT) and (
            made_by.op in INDEX_MAPS or lookup(made_by.op).kind == "elementwise"
        )
        if not (constant or of_elements):
            sources[value] = None
            continue
        nodes.add(value.node)
        work += int(getattr(lookup(made_by.op), "cost", 0)) if of_elements else 0
        todo += reversed(made_by.operands)
    return Dequantized(frozenset(nodes), tuple(sources)) if work <= LIMIT else None


def _is_computed(node_of: Callable[[Value], Node], value: Value, matrix: TensorType) -> bool:
    """Whether a value is computed where an element of the matrix is read."""
    node = node_of(value)
    if node.op == CONSTANT:
        return node.attribute("value").scalar is not None
    if node.op in INDEX_MAPS or node.op == "iota":
        return True
    if node.op == INPUT or lookup(node.op).kind != "elementwise":
        return False
    (type,) = node.types
    rounded = _is_narrow(type) and any(_type(node_of, x).dtype.is_float for x in node.operands)
    if type.is_symbolic or rounded:
        return False
    return bool(type.numel * SMALLER > matrix.numel)


def _is_narrow(type: TensorType) -> bool:
    return type.dtype.is_integer and type.dtype.itemsize == 1


def _type(node_of: Callable[[Value], Node], value: Value) -> TensorType:
    return node_of(value).types[value.index]


# -- packing ---------------------------------------------------------------------------------------


def repacked_sources(
    draft: Draft, factor: Dequantized, matrix: Value, tile: tuple[int, int], repacked: Repacked
) -> Value:
    """The same matrix [depth, columns], made of what it is made of in tiles of its columns. As it
    was where columns of it are not those of what it is made of."""
    columns = _Columns(draft, factor)
    if not columns.find(matrix, 1):
        return matrix
    moved: dict[Value, Value] = {}
    for source in columns.sources:
        shape, axis = draft.shape(source), columns.places[source]
        if axis is not None:
            if axis == 0:
                as_matrix, along = (shape[0], math.prod(shape[1:])), ROWS
            else:
                as_matrix, along = (math.prod(shape[:-1]), shape[-1]), COLUMNS
            moved[source] = repacked(draft, source, as_matrix, along, tile)
    for identity in sorted(factor.nodes):
        node = draft.nodes[identity]
        operands = tuple(moved.get(value, value) for value in node.operands)
        if operands != node.operands and Value(identity) not in moved:
            (moved[Value(identity)],) = draft.add_moved(node, operands)
    return moved.get(matrix, matrix)


MIXED = -1
"""Columns that are no one axis of what an index map reads."""


class _Columns:
    """Along which axis of each value behind a matrix its columns run, None where all have the same.

    `sources`: what is packed, the matrix's own or, where columns are several axes of one that lies
    in tiles already, what an index map makes of it."""

    def __init__(self, draft: Draft, factor: Dequantized):
        self._draft, self._factor = draft, factor
        self.places: dict[Value, int | None] = {}
        self.sources: list[Value] = []

    def find(self, value: Value, axis: int | None) -> bool:
        """Note it for a value and all behind it; False where columns are no one axis, or not the
        first or last of what would be packed."""
        if value in self.places:
            return self.places[value] == axis
        self.places[value] = axis
        node, shape = self._draft.node(value), self._draft.shape(value)
        behind = {operand: axis for operand in node.operands}
        if axis is not None and node.op in INDEX_MAPS:
            behind = {v: _behind_map(node, self._draft.shape(v), axis) for v in node.operands}
        moved = MIXED in behind.values() and self._is_moved(value)
        if moved or value in self._factor.sources:
            self.sources.append(value)
            return axis in (None, 0, len(shape) - 1)
        return MIXED not in behind.values() and all(map(self.find, behind, behind.values()))

    def _is_moved(self, value: Value) -> bool:
        """Whether index maps alone make a value, of what is stored."""
        while value not in self._factor.sources:
            node = self._draft.node(value)
            if node.op not in INDEX_MAPS:
                return False
            (value,) = node.operands
        return True


def _behind_map(node: Node, shape: Shape, axis: int) -> int | None:
    """The axis of an index map's operand, of this shape, that is `axis` of its result; None where
    it has one element for all of that."""
    result = node.types[0].shape
    if node.op == "transpose":
        return int(node.attribute("permutation")[axis])
    if node.op == "broadcast":
        own = axis - len(result) + len(shape)
        return None if own < 0 or shape[own] != result[axis] else own
    if node.op == "reshape":
        before = math.prod(result[:axis])
        alike = (
            own for own, dim in enumerate(shape)
            if dim == result[axis] and math.prod(shape[:own]) == before
        )  # fmt: skip
        return next(alike, MIXED)
    return MIXED
