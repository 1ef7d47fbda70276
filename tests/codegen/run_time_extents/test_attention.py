"""Attention and its gradient over any batch, of any number of queries and keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc import ops
from graphc.ir.builder import Var
from graphc.ir.dims import Extent
from graphc.ir.types import DType
from tests.codegen.run_time_extents.kernels import Array, M, N, Operand, along, compare

PAIRS = [{"n": n, "m": m} for n, m in [(0, 3), (3, 0), (1, 1), (9, 25), (33, 7)]]


def forward(*operands: Var, **options: Any) -> tuple[Var, ...]:
    results: tuple[Var, ...] = ops.attention(*operands, scale=0.4, **options)
    return results


def backward(*operands: Var, **options: Any) -> tuple[Var, ...]:
    results: tuple[Var, ...] = ops.attention_grad(*operands, scale=0.4, **options)
    return results


def operands_of(lead: tuple[Extent, ...], rows: Extent, columns: Extent) -> list[Operand]:
    return [(*lead, rows, 5), (*lead, columns, 5), (*lead, columns, 6)]


def gradient_operands(lead: tuple[Extent, ...], rows: Extent, columns: Extent) -> list[Operand]:
    per_row: list[Operand] = [(*lead, rows), (*lead, rows)]
    return [(*lead, rows, 6), *operands_of(lead, rows, columns), *per_row]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("causal", [False, True])
def test_over_a_batch(causal: bool) -> None:
    sizes = along(0, 1, 3)
    compare(lambda *x: forward(*x, causal=causal), operands_of((N, 2), 5, 5), sizes)
    compare(lambda *x: backward(*x, causal=causal), gradient_operands((N, 2), 5, 5), sizes)


@pytest.mark.slow
def test_of_any_length() -> None:
    compare(forward, operands_of((2,), N, M), PAIRS)
    compare(backward, gradient_operands((2,), N, M), PAIRS)


@pytest.mark.slow
def test_causal_of_any_length() -> None:
    sizes = along(0, 1, 8, 9, 34)
    compare(lambda *x: forward(*x, causal=True), operands_of((2,), N, N), sizes)
    compare(lambda *x: backward(*x, causal=True), gradient_operands((2,), N, N), sizes)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [DType.bool, DType.f32])
@pytest.mark.parametrize("lead", [(), (N,)])
def test_masks_of_any_length(dtype: DType, lead: tuple[Extent, ...]) -> None:
    """One mask for all, or one for each head."""
    operands = [*operands_of((N,), N, M), (dtype, (*lead, N, M))]

    def draw(numbers: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        n, m = sizes["n"], sizes["m"]
        shapes = [(n, n, 5), (n, m, 5), (n, m, 6)]
        seen = numbers.random((n,) * len(lead) + (n, m)) > 0.3
        mask = seen if dtype is DType.bool else np.where(seen, 0, -np.inf).astype(np.float32)
        return [numbers.standard_normal(shape).astype(np.float32) for shape in shapes] + [mask]

    compare(forward, operands, [{"n": n, "m": m} for n, m in [(1, 1), (2, 13), (5, 3)]], draw)


@pytest.mark.slow
def test_chains_of_any_length() -> None:
    """Sums over more rows and columns than one chain has."""
    sizes = [{"n": n, "m": m} for n, m in [(257, 3), (3, 257)]]
    compare(backward, gradient_operands((), N, M), sizes)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("causal", [False, True])
def test_of_any_depth(causal: bool) -> None:
    """Rows of q and k of any length: what is transposed of the last panel has room."""
    of_any: list[Operand] = [(2, 5, N), (2, 19, N), (2, 19, 6)]
    compare(lambda *x: forward(*x, causal=causal), of_any, along(0, 1, 8, 21))


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 3])
def test_of_a_depth_in_vectors(left: int) -> None:
    """What whole vectors leave is a number: it has code of its own."""
    depth = 16 * N + left
    operands: list[Operand] = [(2, 5, depth), (2, 19, depth), (2, 19, 6)]
    compare(forward, operands, along(0, 1, 9))


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("causal", [False, True])
def test_of_half_a_length(causal: bool) -> None:
    """Rounded up: where scratch lies is a quotient of a negative number."""
    half, sizes = -(-N // 2), along(1, 3, 6, 7, 33)
    compare(lambda *x: forward(*x, causal=causal), operands_of((2,), half, half), sizes)
    compare(lambda *x: backward(*x, causal=causal), gradient_operands((2,), half, half), sizes)
