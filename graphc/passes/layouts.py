"""Layouts: weights that are read many times are stored as products and convolutions read them.

in : a graph without composites but those with a recipe; which of its inputs are the same in many
     runs; how a product or convolution likes its operands
out: the graph in which those inputs, and what depends on them alone, are packed and unpacked before
     the matrix products and convolutions that read them

Tensors keep the layout the user gave them. What a kernel needs in another order it copies for
itself; only where a copy serves many runs, every step of a loop or every call with weights that
are frozen, it is worth a value of its own in the graph: `pack`, which moves out of the loop or to
the calls' preparation, and `unpack`, an index map at the place of use that costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple, Protocol

from graphc.ir.copying import inlined, replayed
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.nodes import INPUT, Graph, Node, Value
from graphc.ir.registry import lookup, parameters
from graphc.ir.types import DType, Shape, TensorType
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.region import TimeLoop, WhileLoop
from graphc.ops.layouts.packing import COLUMNS, ROWS
from graphc.passes.dequantized import dequantized, repacked_sources
from graphc.passes.split_frozen import depending_on, is_widening
from graphc.passes.winograd import Candidate
from graphc.records import replace


class Stored(NamedTuple):
    """Tiles of so many vectors of lanes. `together`: indices of k of one column that lie side by
    side."""

    vectors: int
    lanes: int
    together: int = 1


class Preferred(Protocol):
    """What a target's cost models answer passes."""

    def __call__(
        self, node: Node, types: tuple[TensorType, ...], position: int, reads: int = 1, /
    ) -> Stored | None:
        """For a matrix product or convolution, the types of its operands, and the position of one:
        how to store that operand, or the values from `reads` of which each of its elements is
        computed; None: as it is."""

    def winograd_gain(self, case: Candidate, /) -> float:
        """See passes/winograd.py."""


AXES = {
    "matmul": {0: ROWS, 1: COLUMNS}, "paired_matmul": {1: COLUMNS}, "int_matmul": {1: COLUMNS},
    "conv": {1: ROWS},
}  # fmt: skip
"""The operands that may be packed, and what is cut into tiles. A convolution's weight is a matrix
[output channels, what each sums over]."""
_BY_SEVERAL = {
    2: (("pack_pairs", "note_pairs"), "unpack_pairs"), 4: (("pack_quads",), "unpack_quads"),
}  # fmt: skip
"""By what matrices are packed and read whose indices of k lie side by side by two or four."""
_ELEMENTS = {"unpack": 1, "unpack_pairs": 2, "unpack_quads": 4}
"""Elements of one column that lie side by side."""


def layouts(graph: Graph, preferred: Preferred) -> Graph:
    """Pack what loops read unchanged at every step, also inside regions.

        scan(%h, %xs, %w) body(%h, %x, %w) {       scan(%h, %xs, %w) body(%h, %x, %w) {
          %3 = transpose(%w) : f32[64,256]           %3 = pad(..), reshape(..), transpose(..)
          %4 = matmul(%h, %3)                  =>      : f32[11,64,3,8]
          %5 = add(%4, %x)                           %4 = unpack(%3) axis=1 size=256 : f32[64,256]
          return %5                                  %5 = matmul(%h, %4)
        }                                            ..

    `simplify_regions` then moves all but `unpack` out of the loop.
    """

    def visit(node: Node, operands: Values) -> Values:
        if node.regions:
            regions = [layouts(region, preferred) for region in node.regions]
            if _repeats(node):
                attributes = parameters(node)
                first = attributes["carry"] + attributes.get("sequences", 0)
                unchanged = range(first, len(regions[-1].inputs))
                regions[-1] = packed(regions[-1], unchanged, preferred)
            node = replace(node, regions=tuple(regions))
        return draft.add(moved(node, operands))

    draft = Draft()
    return replayed(graph, draft, visit)


def _repeats(node: Node) -> bool:
    """Whether a node is a loop of more than one step."""
    op = lookup(node.op)
    if isinstance(op, TimeLoop):
        return bool(node.attribute("length") > 1)
    return isinstance(op, WhileLoop)


def packed(graph: Graph, unchanged: Collection[int], preferred: Preferred) -> Graph:
    """The graph in which products and convolutions read packed what depends on the inputs at these
    positions alone."""
    known = depending_on(graph, set(unchanged))
    draft = Draft()
    packed_values: dict[tuple[Any, ...], Value] = {}

    def visit(node: Node, operands: Values) -> Values:
        types = tuple(draft.type(value) for value in operands)
        packed_operands = list(operands)
        for position, axis in AXES.get(node.op, {}).items():
            if node.operands[position].node not in known:
                continue
            stored, in_order = operands[position], False
            if node.op == "matmul" and types[0].shape[-2] == 1:
                # One row reads a matrix that lies along its columns as fast where it lies.
                stored = _narrow(draft, stored)
                in_order = draft.node(stored).op == INPUT
            is_matrix = (node.op, position) == ("matmul", 1)
            weight = dequantized(draft.node, stored) if is_matrix and not in_order else None
            reads = 1 if weight is None else len(weight.sources)
            tile = None if in_order else preferred(node, types, position, reads)
            if tile is None:
                continue
            if weight is not None:
                packed_operands[position] = repacked_sources(
                    draft, weight, stored, tile[:2], _repacked
                )
                continue
            shape = types[position].shape
            by_several = _BY_SEVERAL.get(tile.together)
            matrix = (shape[0], math.prod(shape[1:])) if node.op == "conv" else shape
            key = (operands[position], matrix, axis, tile)
            if key not in packed_values:
                packed_values[key] = _widened(draft, types[position].dtype, (
                    _repacked_several(draft, stored, tile, *by_several)
                    if by_several else _repacked(draft, stored, matrix, axis, tile[:2])
                ))  # fmt: skip
            packed_operands[position] = packed_values[key]
        return draft.add(moved(node, tuple(packed_operands)))

    return replayed(graph, draft, visit)


def described(graph: Graph) -> list[str]:
    """One line for each matrix that is read packed, also inside regions."""
    lines = []
    for node in graph.nodes:
        if node.op in _ELEMENTS:
            (tiled,) = (graph.type_of(value) for value in node.operands)
            of_rows = node.op == "unpack" and node.attribute("axis") == ROWS
            what = "rows" if of_rows else "columns"
            tiles, _, vectors, lanes = tiled.shape[-4:]
            lanes //= _ELEMENTS[node.op]
            place = f", {node.location}" if node.location else ""
            lines.append(
                f"layout: a matrix {node.types[0]} is packed as {tiles} tiles of "
                f"{vectors * lanes} {what}{place}"
            )
        for region in node.regions:
            lines += described(region)
    return lines


def _narrow(draft: Draft, value: Value) -> Value:
    """What is stored of a matrix that one row reads: of one that is cast to a wider type what is
    cast, in the same order; it is cast again where it is read."""
    moves, source = [], value
    while draft.node(source).op in ("reshape", "transpose"):
        moves.append(draft.node(source))
        (source,) = moves[-1].operands
    cast = draft.made_by(source, "cast")
    if cast is None or not is_widening(cast, draft.type(cast.operands[0])):
        return value
    (narrow,) = cast.operands
    for move in reversed(moves):
        (narrow,) = draft.add(draft.make(move.op, narrow, **parameters(move)))
    return narrow


def _widened(draft: Draft, dtype: DType, value: Value) -> Value:
    if draft.type(value).dtype is dtype:
        return value
    return draft.add(draft.make("cast", value, dtype=dtype))[0]


def _repacked(draft: Draft, value: Value, matrix: Shape, axis: int, tile: tuple[int, int]) -> Value:
    """The same tensor through `pack` and `unpack`, which see it as a matrix of this shape."""
    pack: Composite = lookup("pack")
    shape = draft.shape(value)
    if matrix != shape:
        (value,) = draft.add(draft.make("reshape", value, shape=matrix))
    attributes = {"axis": axis, "vectors": tile[0], "lanes": tile[1]}
    (tiled,) = inlined(pack.definition((draft.type(value),), attributes), draft, (value,))
    size = matrix[-2 if axis == ROWS else -1]
    (read,) = draft.add(draft.make("unpack", tiled, axis=axis, size=size))
    if matrix != shape:
        (read,) = draft.add(draft.make("reshape", read, shape=shape))
    return read


def _repacked_several(
    draft: Draft, value: Value, tile: Stored, packs: tuple[str, ...], unpack: str
) -> Value:
    """The same matrix through these ops."""
    depth, size = draft.shape(value)
    tiled, attributes = value, {"vectors": tile.vectors, "lanes": tile.lanes}
    for name in packs:
        op: Composite = lookup(name)
        types, own = (draft.type(tiled),), op.canonical(attributes if tiled == value else {})
        (tiled,) = inlined(op.definition(types, own), draft, (tiled,))
    (read,) = draft.add(draft.make(unpack, tiled, depth=depth, size=size))
    return read
