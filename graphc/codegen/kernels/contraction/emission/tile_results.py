"""The results of a register tile as they are stored: by vectors of columns, or of rows.

In: the sums of a tile, vectors of columns for each row, and where each lies. Out: calls that
compute and store what the body makes of them. Where rows and not columns are neighbours in memory,
vectors are transposed in registers first. A convolution whose vectors run along output channels is
such: channels lie a whole image apart, and a scatter takes a dozen instructions for each element.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.codegen.elements.addresses import Addresses, Guard
from graphc.codegen.elements.leaf_loops import each
from graphc.codegen.elements.shuffles import transpose
from graphc.codegen.kernels.contraction.cost.tiles import Place
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.schedule.access import Index

PlaceOf = Callable[[Expr, int | Expr, Expr], Place]
"""The place of the result of a row, a vector of columns, and a lane of it."""
Finish = Callable[[Index, tuple[Guard, ...], LoopValue], None]
Kept = Callable[[DType, int], Buffer]
"""Scratch for so many sums."""
Sums = list[list[LoopValue]]


def store_tile(
    builder: LoopBuilder, addresses: Addresses, shape: Shape, place: PlaceOf, lane: Expr,
    rows: Sums, finish: Finish, kept: Kept,
) -> None:  # fmt: skip
    """`finish(index, guards, results)` for all of a tile. `rows` holds the sums of each row, which
    are lanes of results of this shape."""
    along_rows = _lies_along_rows(shape, place, lane, len(rows))
    lanes = rows[0][0].type.lanes
    for first in range(0, len(rows), lanes if along_rows else 1):
        block = rows[first : first + lanes] if along_rows else rows[first : first + 1]
        if len(block) > 1:
            _store_along_rows(builder, addresses, place, first, block, finish, kept)
            continue
        for vector, results in enumerate(block[0]):
            finish(*place(of(first), vector, lane), results)


def _lies_along_rows(shape: Shape, place: PlaceOf, lane: Expr, rows: int) -> bool:
    """Whether neighbouring rows are neighbours in memory, and neighbouring lanes are not."""
    if rows < 2 or not lane.variables():
        return False
    row, (along,) = Variable("probe_row", rows), lane.variables()
    linear = flatten(place(of(row), 0, lane)[0], shape)
    return linear.coefficient(row) == 1 and linear.coefficient(along) != 1


def _store_along_rows(
    builder: LoopBuilder, addresses: Addresses, place: PlaceOf, first: int, rows: Sums,
    finish: Finish, kept: Kept,
) -> None:  # fmt: skip
    """The rows from `first` on, no more than lanes of a vector."""
    count, lanes = len(rows), rows[0][0].type.lanes
    zero = builder.splat(builder.const(rows[0][0].type.dtype, 0), lanes)
    every, there = Variable("row_lane", lanes), Variable(f"row_lane_of_{count}", count)
    addresses.bind_lane(every, builder.block)
    addresses.bind_lane(there, builder.block, every)
    guards: tuple[Guard, ...] = ((of(every), 0, count),) if count < lanes else ()
    vectors = range(len(rows[0]))

    def store(parts: list[LoopValue], vector: int | Expr) -> None:
        for column, results in enumerate(transpose(builder, parts + [zero] * (lanes - count))):
            index, own = place(of(there) + first, vector, of(column))
            if all(expr.bounds()[0] < high for expr, _, high in own):
                finish(index, (*own, *guards), results)

    if len(vectors) == 1 or any(place(of(there) + first, v, of(lanes - 1))[1] for v in vectors):
        for vector in vectors:
            store([row[vector] for row in rows], vector)
        return
    # One vector of columns after the other goes through memory: written out for each of them, what
    # is computed of a tile would be most of the kernel's code.
    memory = kept(rows[0][0].type.dtype, count * len(vectors) * lanes)
    for vector in vectors:
        for r, row in enumerate(rows):
            builder.store(memory, (vector * count + r) * lanes, row[vector])

    def from_memory(vector: Expr) -> None:
        at = (addresses.scalar(vector), count * lanes)
        parts = [builder.load(memory, builder.index(r * lanes, at), lanes) for r in range(count)]
        store(parts, vector)

    number = Variable("stored_vector", len(vectors))
    each(addresses, number, (0, len(vectors)), "vector", from_memory)
