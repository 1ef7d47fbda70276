"""Sampling at places that are data: each row of the result is made of a few rows of a table.

Regions of images that are pooled, convolutions with offsets: which rows, and with what weights, is
computed from the places beforehand. Indices must lie in [0, rows): those of places outside name any
row, with the weight 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops import reduce as r
from graphc.ops.elementwise import where
from graphc.ops.indexing import index_add, take
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import Sample, SampleDrawer


def _check(name: str, table: Any, index: Any, third: Any, dtype: DType) -> None:
    if not table.dtype.is_float or third.dtype is not dtype:
        raise DTypeError(f"{name} of {table.tensor_type} with {third.tensor_type}")
    if len(table.shape) != 2 or not index.shape or index.shape != third.shape:
        raise ShapeError(
            f"{name} takes rows of a matrix, and an index and weights of one shape, got "
            f"{table.tensor_type}, {index.tensor_type}, {third.tensor_type}"
        )


def _weighted_rows(table: Any, index: Any, weights: Any) -> Any:
    _check("weighted_rows", table, index, weights, table.dtype)
    taps = len(index.shape) - 1
    rows = take(table, index, axis=0)
    return r.sum(rows * r.spread(weights, (taps + 1,), rows.shape), axes=(taps,))


def _weighted_rows_vjp(g: Any, out: Any, table: Any, index: Any, weights: Any) -> Any:
    taps = len(index.shape) - 1
    by_tap = r.spread(g, (taps,), (*index.shape, table.shape[1]))

    def of_table() -> Any:
        by_rows = by_tap * r.spread(weights, (taps + 1,), by_tap.shape)
        zeros = broadcast_to(lift(0, table), table.shape)
        return index_add(zeros, index, by_rows, axis=0)

    def of_weights() -> Any:
        return r.sum(by_tap * take(table, index, axis=0), axes=(taps + 1,))

    return of_table, None, of_weights


weighted_rows = Composite(
    "weighted_rows", _weighted_rows, vjp=_weighted_rows_vjp, samples=lambda m: [
        m(m.normal(6, 20), m.integers(6, 3, 4), m.normal(3, 4)),
        m(m.normal(5, 3), m.integers(5, 2, 3, 2), m.normal(2, 3, 2)),
        m(m.normal(5, 3), m.integers(5, 4), m.normal(4)),
        m(m.normal(5, 3), m.integers(5, 0, 4), m.normal(0, 4)),
        m(m.normal(5, 3), m.integers(5, 2, 0), m.normal(2, 0)),
    ],
)  # fmt: skip
"""table [R, C], index [..., T], weights [..., T]: Σ over T of table[index] · weight, [..., C]."""


def _greatest_row(table: Any, index: Any, counts: Any) -> Any:
    _check("greatest_row", table, index, counts, DType.bool)
    taps = len(index.shape) - 1
    rows = take(table, index, axis=0)
    counted = r.spread(counts, (taps + 1,), rows.shape)
    least = broadcast_to(lift(-np.inf, table), rows.shape)
    return r.argmax(where(counted, rows, least), axes=(taps,))


def _greatest_samples(m: SampleDrawer) -> list[Sample]:
    return [
        m(m.apart(6, 20), m.integers(6, 3, 4), m.bools(3, 4)),
        m(m.apart(5, 3), m.integers(5, 2, 3, 5), m.bools(2, 3, 5)),
        m(m.apart(5, 3), m.integers(5, 0, 4), m.bools(0, 4)),
    ]


greatest_row = Composite(
    "greatest_row", _greatest_row, differentiable=False, samples=_greatest_samples
)
"""table [R, C], index [..., T], counts bool [..., T]: for each column the first of the T rows that
has the greatest element among those that count, i64 [..., C]; 0 where none does."""
