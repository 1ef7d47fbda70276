"""Products at any size."""

from __future__ import annotations

from graphc import ops
from graphc.ir.builder import Var
from graphc.ir.dims import dim
from tests.codegen.run_time_extents.kernels import (
    M,
    N,
    along,
    compare,
)


def test_products_with_rows_and_batch() -> None:
    def product(x: Var, w: Var, y: Var) -> Var:
        return ops.relu(ops.matmul(x, w)) - y

    sizes = along(0, 1, 5, 6, 7, 13)
    compare(product, [(N, 19), (19, 33), (N, 33)], sizes)
    compare(product, [(N, 3, 4), (N, 4, 5), (N, 3, 5)], along(0, 1, 3))
    few = dim("n", 0, 2)  # costs are compared within its bounds
    compare(product, [(few, 19), (19, 33), (few, 33)], along(0, 1, 2))
    none = dim("n", 0, 0)
    compare(product, [(none, 19), (19, 33), (none, 33)], along(0))
    compare(
        lambda x, w: ops.matmul(x, ops.transpose(w, permutation=(1, 0))),
        [(N, 19), (7, 19)], sizes,
    )  # fmt: skip


def test_products_over_a_size() -> None:
    """As the gradient of a weight, over the batch: K blocks end where they do for the number."""

    def gradient(x: Var, g: Var) -> Var:
        return ops.matmul(ops.transpose(x, permutation=(1, 0)), g)

    compare(gradient, [(N, 3), (N, 5)], along(0, 1, 255, 256, 257, 600))


def test_products_with_sizes_anywhere() -> None:
    """Columns, and several sizes at once, as the scores and values of attention have."""
    triples = [(0, 3, 2), (2, 0, 3), (3, 2, 0), (1, 1, 1), (9, 17, 5), (3, 33, 300)]
    sizes = [{"n": n, "m": m, "k": k} for n, m, k in triples]
    k = dim("k")
    compare(ops.matmul, [(3, 4), (4, N)], along(0, 1, 15, 16, 17, 33))
    compare(lambda x, w: ops.relu(ops.matmul(x, w)), [(N, k), (k, M)], sizes)
    compare(
        lambda x, w: ops.matmul(x, ops.transpose(w, permutation=(0, 2, 1))),
        [(M, N, k), (M, 7, k)], sizes[:5],
    )  # fmt: skip
