"""How matrix products like their operands stored, for the pass that chooses layouts.

In: a target. Out: a function from the types of a product's operands to the tiles of one of them, as
the product's cost model cuts it.
"""

from __future__ import annotations

import functools
import math

from graphc.codegen.contraction.model import choose
from graphc.codegen.nest import lanes_for
from graphc.codegen.target import Target
from graphc.ir.builder import GraphBuilder
from graphc.ir.types import TensorType
from graphc.ops.contract import matmul
from graphc.passes.layouts import Preferred

SMALL = 4096
"""Bytes up to which a matrix is read as fast where it lies: it is in one page and in L1."""


def preferred_layouts(target: Target) -> Preferred:
    """The layouts that products prefer on `target`."""
    return functools.partial(_tile, target)


@functools.cache
def _tile(
    target: Target, types: tuple[TensorType, ...], position: int
) -> tuple[int, int] | None:
    """Vectors and lanes of the tiles in which the operand is read; None where it is small,
    broadcast, or read once for a single row."""
    if not types[0].dtype.is_float or 0 in (types[0].numel, types[1].numel):
        return None
    if types[position].nbytes <= SMALL:
        return None
    builder = GraphBuilder("product")
    inputs = [builder.input(name, type) for name, type in zip("xy", types, strict=True)]
    body = builder.finish(matmul(*inputs))
    choice = choose(body, lanes_for(body, target), target)
    by_vectors = 0 if choice.view.swapped else 1
    if position != by_vectors or choice.right not in ("panel", "direct"):
        return None
    if math.prod(choice.view.m) == 1:
        return None
    return choice.tile.vectors, choice.lanes
