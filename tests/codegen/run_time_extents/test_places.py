"""Elements at places that are data: gathers, scatters, embeddings; and elements that depend on
their place alone."""

from __future__ import annotations

import numpy as np
import pytest

from graphc import ops
from graphc.ir.builder import Var
from graphc.ir.dims import dim
from graphc.ir.types import DType
from graphc.ops.generate import iota_like
from tests.codegen.run_time_extents.kernels import (
    TARGETS,
    Array,
    Draw,
    M,
    N,
    Operand,
    along,
    body_of,
    compare,
    lowered,
)

PAIRS = [{"n": n, "m": m} for n, m in [(0, 3), (3, 0), (1, 1), (2, 17), (5, 4), (16, 5)]]


def picking(rows: int | str, *others: tuple[int | str, ...]) -> Draw:
    """An array of `others`' first shape, indices of the second into `rows`, arrays of the rest."""

    def draw(numbers: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        def at(extent: int | str) -> int:
            return sizes[extent] if isinstance(extent, str) else extent

        first, index, *rest = (tuple(map(at, shape)) for shape in others)
        return [
            numbers.standard_normal(first).astype(np.float32),
            numbers.integers(0, max(at(rows), 1), index),
            *(numbers.standard_normal(shape).astype(np.float32) for shape in rest),
        ]

    return draw


def test_rows_of_a_table() -> None:
    draw = picking(7, (7, 5), ("n", "m"))
    compare(lambda x, i: ops.take(x, i, axis=0), [(7, 5), (DType.i64, (N, M))], PAIRS, draw)
    sizes = [{"n": n, "m": m} for n, m in [(1, 0), (1, 1), (5, 17)]]
    draw = picking("n", ("n", "m"), (3,))
    compare(lambda x, i: ops.take(x, i, axis=0), [(N, M), (DType.i64, (3,))], sizes, draw)


def test_gradient_of_a_table() -> None:
    """As of an embedding over a batch of any length."""
    draw = picking(7, (7, 5), ("n", "m"), ("n", "m", 5))
    compare(
        lambda x, i, g: ops.index_add(x, i, g, axis=0), [(7, 5), (DType.i64, (N, M)), (N, M, 5)],
        PAIRS, draw,
    )  # fmt: skip


def test_sizes_have_their_names() -> None:
    """Whatever loops are called: those over a source are s0, s1 …"""
    rows = dim("s0")
    body = body_of(
        lambda x, i, g: ops.index_add(x, i, g, axis=0), [(7, 5), (DType.i64, (rows,)), (rows, 5)]
    )
    for target in TARGETS:
        assert [size.name for size in lowered(body, target).dims] == ["s0"]


@pytest.mark.parametrize("axis", [0, 1])
def test_picks_along_an_axis(axis: int) -> None:
    """As cross entropy picks the logarithm of a class, and its gradient goes back there."""
    shape: tuple[int | str, ...] = ("n", 6) if axis == 1 else (6, "n")
    index: tuple[int | str, ...] = ("n", 1) if axis == 1 else (1, "n")
    operands = [(N, 6), (DType.i64, (N, 1)), (N, 1)]
    if axis == 0:
        operands = [(6, N), (DType.i64, (1, N)), (1, N)]
    sizes, draw = along(0, 1, 3, 4, 17), picking(6, shape, index, index)
    compare(lambda x, i, g: ops.gather(x, i, axis=axis) * g, operands, sizes, draw)
    compare(lambda x, i, g: ops.scatter_add(x, i, g, axis=axis), operands, sizes, draw)


def test_one_hot() -> None:
    def one_hot(i: Var) -> Var:
        rows = i.type.shape[0]
        places = iota_like(i, (rows, 6), 1)
        hot = ops.eq(ops.broadcast(ops.reshape(i, shape=(rows, 1)), shape=(rows, 6)), places)
        return ops.cast(hot, dtype=DType.f32)

    def classes(draw: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        return [draw.integers(0, 6, sizes["n"])]

    compare(one_hot, [(DType.i64, (N,))], along(0, 1, 3, 17), classes)


@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_of_places(axis: int) -> None:
    compare(lambda x: x + ops.cast(iota_like(x, x.type.shape, axis), dtype=DType.f32), [(N, M)],
            PAIRS)  # fmt: skip


def test_random_numbers() -> None:
    """Each from its place; the state goes on by as many."""

    def uniform(x: Var, state: Var) -> tuple[Var, ...]:
        attributes = {"shape": x.type.shape, "dtype": DType.f32}
        results: tuple[Var, ...] = x.context.apply(ops.random_uniform, (state,), attributes)
        return results

    def seeded(draw: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        shape = sizes["n"], sizes["m"]
        return [draw.standard_normal(shape).astype(np.float32), np.array([7, 2**33])]

    operands: list[Operand] = [(N, M), (DType.i64, (2,))]
    compare(lambda x, state: x * uniform(x, state)[0], operands, PAIRS, seeded)
    compare(lambda x, state: uniform(x, state)[1], operands, PAIRS, seeded)
