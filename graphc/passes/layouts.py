"""Layouts: matrices that many products read are stored as those products read them.

in : a graph without composites but those with a recipe; which of its inputs are the same in many
     runs; how a product likes its operands
out: the graph in which those inputs, and what depends on them alone, are packed and unpacked ahead
     of the matrix products that read them

Tensors keep the layout the user gave them. What a kernel needs in another order it copies for
itself; only where a copy serves many runs, every step of a loop or every call with weights that
are frozen, it is worth a value of its own in the graph: `pack`, which moves out of the loop or to
the calls' preparation, and `unpack`, an index map at the place of use that costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from graphc.ir.nodes import Graph, Node, Value
from graphc.ir.registry import lookup, parameters
from graphc.ir.types import TensorType
from graphc.ops.kind_composite import Composite
from graphc.ops.kind_region import TimeLoop, WhileLoop
from graphc.ops.packing import COLUMNS, ROWS
from graphc.passes.replay import Draft, Values, inlined, moved, replayed
from graphc.passes.split_frozen import depending_on

Preferred = Callable[[tuple[TensorType, ...], int], tuple[int, int] | None]
"""For a matrix product of these types and the position of an operand: the vectors and lanes of the
tiles in which to store that operand; None: as it is."""


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
    """The graph in which matrix products read packed what depends on the inputs at these positions
    alone."""
    known = depending_on(graph, set(unchanged))
    draft = Draft()
    made: dict[tuple[Value, int, tuple[int, int]], Value] = {}

    def visit(node: Node, operands: Values) -> Values:
        if node.op != "matmul":
            return draft.add(moved(node, operands))
        types = tuple(draft.type(value) for value in operands)
        found = list(operands)
        for position, axis in enumerate((ROWS, COLUMNS)):
            tile = preferred(types, position) if node.operands[position].node in known else None
            if tile is None:
                continue
            key = (operands[position], axis, tile)
            if key not in made:
                made[key] = _repacked(draft, *key)
            found[position] = made[key]
        return draft.add(moved(node, tuple(found)))

    return replayed(graph, draft, visit)


def described(graph: Graph) -> list[str]:
    """One line for each matrix that is read packed, also inside regions."""
    lines = []
    for node in graph.nodes:
        if node.op == "unpack":
            (stored,) = (graph.type_of(value) for value in node.operands)
            what = "rows" if node.attribute("axis") == ROWS else "columns"
            tiles, _, vectors, lanes = stored.shape[-4:]
            place = f", {node.location}" if node.location else ""
            lines.append(
                f"layout: a matrix {node.types[0]} is packed as {tiles} tiles of "
                f"{vectors * lanes} {what}{place}"
            )
        for region in node.regions:
            lines += described(region)
    return lines


def _repacked(draft: Draft, value: Value, axis: int, tile: tuple[int, int]) -> Value:
    """The same matrix through `pack` and `unpack`."""
    pack: Composite = lookup("pack")
    type = draft.type(value)
    attributes = {"axis": axis, "vectors": tile[0], "lanes": tile[1]}
    (stored,) = inlined(pack.definition((type,), attributes), draft, (value,))
    size = type.shape[-2 if axis == ROWS else -1]
    (read,) = draft.add(draft.make("unpack", stored, axis=axis, size=size))
    return read
