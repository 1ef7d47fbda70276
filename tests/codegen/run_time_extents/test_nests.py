"""Elementwise ops, reductions and transposes at any size."""

from __future__ import annotations

import numpy as np
import pytest

from graphc import ops
from graphc.codegen.target import running
from graphc.ir.dims import dim
from tests.codegen.run_time_extents.kernels import (
    Array,
    M,
    N,
    along,
    body_of,
    compare,
    lowered,
    native,
)


def test_elementwise_along_one_axis() -> None:
    sizes = along(0, 1, 3, 4, 5, 15, 16, 17, 33)
    compare(lambda x, y: ops.exp(x) * y + x, [(N,), (N,)], sizes)


def test_elementwise_with_rows_and_columns() -> None:
    pairs = [(0, 3), (3, 0), (1, 1), (1, 17), (17, 1), (5, 16), (4, 19)]
    sizes = [{"n": n, "m": m} for n, m in pairs]
    compare(lambda x, row: x * ops.broadcast(row, shape=x.type.shape), [(N, M), (M,)], sizes)
    compare(
        lambda x, y: ops.transpose(x, permutation=(1, 0)) - y, [(N, M), (M, N)], sizes
    )  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("op", ["sum", "argmax"])
@pytest.mark.parametrize("rows", [True, False])
def test_reductions_along_rows_and_columns(op: str, rows: bool) -> None:
    n, sizes = (N, along(0, 1, 17, 64, 273)) if op == "sum" else (dim("n", 1), along(1, 65))
    for shape in [(3, n), (n,)] if rows else [(n, 5), (n, 33)]:
        axes = (len(shape) - 1,) if rows else (0,)
        compare(lambda x, axes=axes: getattr(ops, op)(x, axes=axes), [shape], sizes)


def test_many_rows_without_elements_sum_to_nothing() -> None:
    """Lanes of theirs would lie in scratch of no bytes."""
    for rows in (N, 40):
        for axes in ((0, 2), (0,)):
            compare(lambda x, axes=axes: ops.sum(x, axes=axes), [(rows, M, 0)],
                    [{"n": n, "m": m} for n, m in ((0, 3), (2, 5), (40, 33))])  # fmt: skip


def in_pieces(x: Array) -> Array:
    """The sum of a row as docs/arithmetic.md has it: 64 lanes over pieces of 65,536 elements."""
    lanes = np.zeros(64, np.float32)
    for first in range(0, x.size, 65536):
        piece = x[first : first + 65536]
        for row in np.concatenate([piece, np.zeros(-piece.size % 64, x.dtype)]).reshape(-1, 64):
            lanes = lanes + row
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    return lanes[0]


@pytest.mark.parametrize("n", [65536, 65537, 131072, 200_001])
def test_a_long_run_is_cut_at_any_size(n: int) -> None:
    """The same bits behind 65,536 elements, native: the interpreter would take long."""
    x, target = np.random.default_rng(n).standard_normal(n).astype(np.float32), running()
    for extent in (n, N):
        body = body_of(lambda x: ops.sum(x, axes=(0,)), [(extent,)])
        (result,) = native(lowered(body, target), body, [x], {"n": n}, target)
        assert result.tobytes() == in_pieces(x).tobytes(), extent


def test_no_sum_of_f32_saturates() -> None:
    """2^20 and more equal numbers in one lane would no longer grow from 2^24 on."""
    count, target = 1 << 31, running()
    body = body_of(lambda x: ops.sum(ops.broadcast(x, shape=(count,)), axes=(0,)), [()])
    (result,) = native(lowered(body, target), body, [np.ones((), np.float32)], {}, target)
    assert result == count
