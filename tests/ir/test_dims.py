"""Extents known only at run time: arithmetic, bounds and comparisons against plain integers."""

from __future__ import annotations

import operator
import pickle
import random

import pytest

from graphc.errors import UndecidedSizeError
from graphc.ir.dims import (
    Dim,
    Extent,
    always_le,
    always_lt,
    ceil_div,
    common_divisor,
    dim,
    evaluate,
    greatest,
    is_single,
    least,
    remainder,
)
from graphc.ir.size_guards import answered_by
from graphc.ir.types import DType, TensorType

N, M = dim("n"), dim("m", 1, 64)


def _drawn(draw: random.Random, depth: int = 3) -> Extent:
    if depth == 0 or draw.random() < 0.2:
        return draw.choice([N, M, draw.randint(-4, 20)])
    a, b = _drawn(draw, depth - 1), _drawn(draw, depth - 1)
    operation = draw.choice([operator.add, operator.sub, operator.mul, "floordiv", "mod"])
    if operation == "floordiv":
        return a // draw.choice([1, 2, 3, 16, M, 4 * M])
    if operation == "mod":
        return a % draw.choice([1, 2, 3, 16, M, 4 * M])
    return operation(a, b)  # type: ignore[operator,no-any-return]


def _plain(draw: random.Random, sizes: dict[str, int], depth: int = 3) -> int:
    """What `_drawn` of the same draws is, in integers."""
    if depth == 0 or draw.random() < 0.2:
        return draw.choice([sizes["n"], sizes["m"], draw.randint(-4, 20)])
    a, b = _plain(draw, sizes, depth - 1), _plain(draw, sizes, depth - 1)
    operation = draw.choice([operator.add, operator.sub, operator.mul, "floordiv", "mod"])
    if operation in ("floordiv", "mod"):
        divisor = draw.choice([1, 2, 3, 16, sizes["m"], 4 * sizes["m"]])
        return a // divisor if operation == "floordiv" else a % divisor
    return operation(a, b)  # type: ignore[operator,no-any-return]


def test_arithmetic_and_bounds_are_those_of_integers() -> None:
    for seed in range(400):
        extent = _drawn(random.Random(seed))
        low, high = extent.bounds() if isinstance(extent, Dim) else (extent, extent)
        for n, m in [(0, 1), (1, 1), (7, 64), (16, 3), (129, 16)]:
            sizes = {"n": n, "m": m}
            expected = _plain(random.Random(seed), sizes)
            assert evaluate(extent, sizes) == expected, f"{seed}: {extent} at {sizes}"
            assert low <= expected <= high, f"{seed}: {extent} in [{low}, {high}] at {sizes}"


def test_equal_extents_are_equal_and_numbers_are_ints() -> None:
    assert (N + 1) * (N - 1) == N * N - 1
    assert type(N - N) is int and N - N == 0
    assert (N * M * 4 + 3) // (2 * M) == 2 * N + 3 // (2 * M)
    assert (N * M) // M == N and (N * M) % M == 0
    assert hash(N * 2) == hash(2 * N) and dim("n", 1) != N
    assert (
        str(4 * N * M - N + 3) == "4*m*n - n + 3"
        and str(ceil_div(N, 16)) == "((n + 15) floordiv 16)"
    )


def test_of_several_extents_the_least_and_greatest_at_every_size() -> None:
    assert least(N, N + 1, N - 3) == N - 3 and greatest(N, N + 1, N - 3) == N + 1
    assert least(4, 7, 7) == 4 and greatest(4, 7, 7) == 7 and greatest(M, 64) == 64
    assert least(N, 5) is None and greatest(N, M) is None, "either may be less"
    assert least(M, 1) == 1 and greatest(M, 1) is M and least(N * N, N, 0) == 0


def test_what_tiles_leave_is_a_number_also_of_some_sizes() -> None:
    assert remainder(19, 8) == 3 and remainder(8 * N + 3, 8) == 3 and remainder(16 * N * M, 8) == 0
    with pytest.raises(UndecidedSizeError, match="has to be a number"):
        remainder(N, 8)


def test_what_holds_of_an_extent_at_every_size() -> None:
    assert is_single(1) and is_single(0) and is_single(M // 64) and is_single(N % 2)
    assert not is_single(2) and not is_single(N) and not is_single(M)
    assert common_divisor(96, 256) == 32 and common_divisor(0, 256) == 256
    assert common_divisor(32 * N + 8, 256) == 8 and common_divisor(64 * N * M, 256) == 64
    assert common_divisor(N, 256) == 1
    for seed in range(100):
        extent, number = _drawn(random.Random(seed)), random.Random(seed).randint(1, 99)
        divisor = common_divisor(extent, number)
        assert number % divisor == 0
        assert all(evaluate(extent, {"n": n, "m": 3}) % divisor == 0 for n in range(9))


def test_comparisons_are_decided_by_bounds_or_refused() -> None:
    assert N >= 0 and M < 65 and N * M >= 0 and not N < 0 and M
    assert always_le(N, N * 1) and always_lt(N % 16, 16) and always_le(N - N % 16, N)
    assert not always_le(N, 5) and not always_lt(5, N)
    for undecided, words in (
        (lambda: N < 5, "n < 5 depends on the size"),
        (lambda: N > M, "n > m depends on the size"),
        (lambda: bool(N), "n != 0 depends on the size"),
        (lambda: N // (N - 3), "a division by n - 3, which may be 0 or below"),
    ):
        with pytest.raises(UndecidedSizeError, match=words):
            undecided()


def test_types_go_to_other_processes() -> None:
    """What an example answered (is n - 1 negative?) is not asked again where there is none."""
    with answered_by({"n": 5}):
        type = TensorType(DType.f32, (N - 1, 3))  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(type)) is type
