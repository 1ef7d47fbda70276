"""Counter-based random numbers: the published generator, one stream however it is cut."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.ir.types import DType
from graphc.ops.generate import random_uniform, threefry
from graphc.ops.kinds.numpy_algebra import NumpyAlgebra


def draw(seed: int, counter: int, *shape: int, level: str = "exact", dtype: DType = DType.f32
         ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    g = graphc.GraphBuilder("draw")
    state = g.input("state", "i64[2]")
    graph = g.finish(*random_uniform(state, shape=shape, dtype=dtype))
    array = np.array([seed, counter])
    numbers, after = graphc.compile(graph, level)(array)
    for actual, wanted in zip((numbers, after), graphc.run(graph, array), strict=True):
        np.testing.assert_array_equal(actual, wanted)
    return numbers, after


def words(*numbers: int) -> tuple[np.ndarray, ...]:
    return tuple(np.array([n], np.uint32).view(np.int32) for n in numbers)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        # The known answers of Random123's threefry2x32, 20 rounds.
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(
    counter: tuple[int, int], key: tuple[int, int], expected: tuple[int, int]
) -> None:
    with np.errstate(over="ignore"):
        x, y = threefry(NumpyAlgebra(), words(*key), words(*counter))
    assert (int(x.view(np.uint32)[0]), int(y.view(np.uint32)[0])) == expected


def test_the_first_number_is_the_top_of_the_first_word() -> None:
    numbers, _ = draw(0, 0, 1)
    assert numbers[0] == (0x6B200159 >> 8) / 2**24


@pytest.mark.parametrize("level", ["none", "exact"])
def test_the_stream_does_not_depend_on_how_it_is_cut(level: str) -> None:
    whole, after = draw(5, 100, 60, level=level)
    np.testing.assert_array_equal(after, [5, 160])
    parts, counter = [], 100
    for shape in [(), (1,), (4, 5), (2, 3, 4), (0, 3), (14,)]:
        part, after = draw(5, counter, *shape, level=level)
        parts.append(part.reshape(-1))
        seed, counter = after.tolist()
        assert seed == 5 and part.shape == shape
    assert counter == 160
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_both_dtypes_have_the_same_numbers() -> None:
    narrow, _ = draw(1, 2, 50)
    wide, _ = draw(1, 2, 50, dtype=DType.f64)
    np.testing.assert_array_equal(narrow, wide)


def test_the_counter_crosses_32_bits() -> None:
    numbers, after = draw(3, 2**32 - 10, 20)
    later, _ = draw(3, 2**32, 10)
    np.testing.assert_array_equal(numbers[10:], later)
    assert after[1] == 2**32 + 10
    assert len(set(numbers.tolist())) == 20


def test_seeds_give_different_streams() -> None:
    streams = [draw(seed, 0, 100)[0] for seed in (0, 1, -1, 2**32, 2**40 + 1)]
    for number, one in enumerate(streams):
        for other in streams[:number]:
            assert np.mean(one == other) < 0.05


def test_statistics_of_the_uniform_distribution() -> None:
    numbers = draw(42, 0, 200, 500)[0].astype(np.float64).reshape(-1)
    count = numbers.size
    assert 0 <= numbers.min() < 1e-3 and 1 - 1e-3 < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 4 / np.sqrt(12 * count)
    assert abs(numbers.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / count)
    buckets, _ = np.histogram(numbers, 100, (0, 1))
    chi_squared = ((buckets - count / 100) ** 2 / (count / 100)).sum()
    assert 50 < chi_squared < 160  # 99 degrees of freedom
    lag = np.corrcoef(numbers[:-1], numbers[1:])[0, 1]
    assert abs(lag) < 4 / np.sqrt(count)
