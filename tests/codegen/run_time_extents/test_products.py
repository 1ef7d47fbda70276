"""Products at any size."""

from __future__ import annotations

import pytest

from graphc import ops
from graphc.errors import LoweringError
from graphc.ir.builder import Var
from graphc.ir.dims import dim
from tests.codegen.run_time_extents.kernels import (
    TARGETS,
    N,
    along,
    body_of,
    compare,
    lowered,
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


def test_what_needs_a_number_says_so() -> None:
    body = body_of(lambda x, w: ops.matmul(x, w), [(3, 4), (4, N)])
    with pytest.raises(LoweringError, match="columns and windows have to be numbers"):
        lowered(body, TARGETS[0])
