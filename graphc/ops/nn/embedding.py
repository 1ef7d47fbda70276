"""Rows of a table by index, with the gradient that embeddings have: of some rows none, or divided
by how often a row was read. Both are PyTorch's conventions, not derivatives."""

from __future__ import annotations

from typing import Any

from graphc.errors import ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.indexing import check_index, index_add, take
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer

NO_ROW = -1


def checked_rows(index: Any, rows: int) -> Any:
    """`index`, where it names rows; else an IndexRangeError in PyTorch's words."""
    message = f"index out of range in self: {{}} is not in [0, {rows})"
    return check_index(index, bound=rows, message=message)


def _embedding(table: Any, index: Any, *, padding: int = NO_ROW, by_frequency: bool = False) -> Any:
    if len(table.shape) != 2:
        raise ShapeError(f"embedding takes rows of a matrix, got {table.tensor_type}")
    return take(table, checked_rows(index, table.shape[0]), axis=0)


def _embedding_vjp(
    g: Any, out: Any, table: Any, index: Any, *, padding: int, by_frequency: bool
) -> tuple[Any, None]:
    axis = len(index.shape)

    def by_table() -> Any:
        by_rows = g
        zero = lift(0, by_rows)
        if padding != NO_ROW:
            padded = e.eq(index, broadcast_to(lift(padding, index), index.shape))
            is_padding = r.spread(padded, (axis,), g.shape)
            by_rows = e.where(is_padding, broadcast_to(zero, g.shape), by_rows)
        if by_frequency:
            ones = broadcast_to(lift(1, by_rows), index.shape)
            counts = index_add(broadcast_to(zero, table.shape[:1]), index, ones, axis=0)
            by_rows = by_rows / r.spread(take(counts, index, axis=0), (axis,), g.shape)
        return index_add(broadcast_to(zero, table.shape), index, by_rows, axis=0)

    return by_table, None


def _samples(m: SampleDrawer) -> list[Any]:
    return [
        m(m.normal(6, 20), m.integers(6, 2, 3)),
        m(m.normal(6, 4), m.integers(6, 9)),
        m(m.normal(6, 4), m.integers(6), padding=2, differentiable=False),
        m(m.normal(6, 4), m.integers(6, 0), by_frequency=True, differentiable=False),
    ]


embedding = Composite("embedding", _embedding, vjp=_embedding_vjp, samples=_samples)
