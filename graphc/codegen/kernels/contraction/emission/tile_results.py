"""The results of a register tile as they are stored: by vectors of columns, or of rows.

In: the sums of a tile, vectors of columns for each row, and where each lies. Out: calls that
compute and store what the body makes of them. Where rows and not columns are neighbours in memory,
vectors are transposed in registers first. A convolution whose vectors run along output channels is
such: channels lie a whole image apart, and a scatter takes a dozen instructions for each element.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.codegen.elements.addresses import Addresses, Guard
from graphc.codegen.elements.shuffles import transpose
from graphc.codegen.kernels.contraction.cost.tiles import Place
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.schedule.access import Index

PlaceOf = Callable[[Expr, int, Expr], Place]
"""The place of the result of a row, a vector of columns, and a lane of it."""
Finish = Callable[[Index, tuple[Guard, ...], LoopValue], None]
Sums = list[list[LoopValue]]


def store_tile(
    builder: LoopBuilder, addresses: Addresses, shape: Shape, place: PlaceOf, lane: Expr,
    rows: Sums, finish: Finish,
) -> None:  # fmt: skip
    """`finish(index, guards, results)` for all of a tile. `rows` holds the sums of each row, which
    are lanes of results of this shape."""
    along_rows = _lies_along_rows(shape, place, lane, len(rows))
    lanes = rows[0][0].type.lanes
    for first in range(0, len(rows), lanes if along_rows else 1):
        block = rows[first : first + lanes] if along_rows else rows[first : first + 1]
        if len(block) > 1:
            _store_along_rows(builder, addresses, place, first, block, finish)
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
    finish: Finish,
) -> None:  # fmt: skip
    """The rows from `first` on, no more than lanes of a vector."""
    count, lanes = len(rows), rows[0][0].type.lanes
    zero = builder.splat(builder.const(rows[0][0].type.dtype, 0), lanes)
    every, there = Variable("row_lane", lanes), Variable(f"row_lane_of_{count}", count)
    addresses.bind_lane(every, builder.block)
    addresses.bind_lane(there, builder.block, every)
    guards: tuple[Guard, ...] = ((of(every), 0, count),) if count < lanes else ()
    for vector in range(len(rows[0])):
        parts = [row[vector] for row in rows] + [zero] * (lanes - count)
        for column, results in enumerate(transpose(builder, parts)):
            index, own = place(of(there) + first, vector, of(column))
            if all(expr.bounds()[0] < high for expr, _, high in own):
                finish(index, (*own, *guards), results)
