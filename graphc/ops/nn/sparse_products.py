"""Products of a sparse matrix, given by its elements and where they stand, with a dense one."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ops import reduce as r
from graphc.ops.indexing import index_add, take
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer


def _sparse_matmul(x: Any, rows: Any, columns: Any, values: Any, dense: Any) -> Any:
    if len(dense.shape) != 2 or len(x.shape) != 2 or len(values.shape) != 1:
        raise ShapeError(
            "sparse_matmul takes matrices and the values of one, got "
            f"{x.tensor_type}, {values.tensor_type}, {dense.tensor_type}"
        )
    picked = take(dense, columns, axis=0)
    return index_add(x, rows, r.spread(values, (1,), picked.shape) * picked, axis=0)


def _vjp(
    g: Any, out: Any, x: Any, rows: Any, columns: Any, values: Any, dense: Any
) -> tuple[Any, ...]:
    def by_values() -> Any:
        return r.sum(take(g, rows, axis=0) * take(dense, columns, axis=0), axes=(1,))

    def by_dense() -> Any:
        return sparse_matmul(broadcast_to(lift(0, dense), dense.shape), columns, rows, values, g)

    return g, None, None, by_values, by_dense


def _samples(m: SampleDrawer) -> list[Any]:
    return [
        m(m.normal(4, 3), m.integers(4, 9), m.integers(6, 9), m.normal(9), m.normal(6, 3)),
        m(m.normal(2, 20), np.array([1, 0, 1]), m.integers(5, 3), m.normal(3), m.normal(5, 20)),
        m(m.normal(2, 3), m.integers(2, 0), m.integers(5, 0), m.normal(0), m.normal(5, 3)),
    ]


sparse_matmul = Composite("sparse_matmul", _sparse_matmul, vjp=_vjp, samples=_samples)
"""x [m, k] plus the product of a matrix [m, n] and dense [n, k]: the first has values [nnz] at rows
and columns [nnz], in whose order the products are added up; several at one place count all."""
