"""Draws by native code are what the words of NumPy's generator give, and leave its state, wherever
in the state they begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.ops.mersenne_twister import STATE, WORDS, seeded, shuffled
from graphc.runtime.random_words import random_words

NATIVE = random_words()
COUNTS = (0, 1, 5, 7, 8, 9, 16, 300, 600, 625, 1300)


def words(state: np.ndarray, count: int) -> np.ndarray:
    """The next words by NumPy, in i64, which takes the state on."""
    used = int(state[WORDS])
    engine: Any = np.random.MT19937(0)
    key = state[:WORDS].copy().view(np.uint32)
    position = used if 0 <= used < WORDS else WORDS
    engine.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": position}}
    drawn = engine.random_raw(count).astype(np.int64)
    if count:
        after = engine.state["state"]
        state[:WORDS], state[WORDS] = after["key"].view(np.int32), after["pos"]
    return np.asarray(drawn)


def fraction(state: np.ndarray, count: int) -> np.ndarray:
    return (words(state, count) & 0xFFFFFF).astype(np.float32) * np.float32(2**-24)


def long_words(state: np.ndarray, count: int) -> np.ndarray:
    drawn = words(state, 2 * count).astype(np.uint64).reshape(count, 2)
    return drawn[:, 0] << np.uint64(32) | drawn[:, 1]


def long_fraction(state: np.ndarray, count: int) -> np.ndarray:
    return (long_words(state, count) & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53


def remainder(state: np.ndarray, count: int) -> np.ndarray:
    return words(state, count) % 10 - 3


def long_remainder(span: int, state: np.ndarray, count: int) -> np.ndarray:
    wanted = [int(word) % span - 3 for word in long_words(state, count)]
    return np.array([(n + 2**63) % 2**64 - 2**63 for n in wanted], np.int64)


CASES: dict[str, tuple[Any, Any, tuple[int, ...], Any]] = {
    "words": (NATIVE.words, np.int64, (), words),
    "fractions": (NATIVE.fractions, np.float32, (), fraction),
    "long_fractions": (NATIVE.long_fractions, np.float64, (), long_fraction),
    "remainders": (NATIVE.remainders, np.int64, (10, -3), remainder),
    "long_remainders": (NATIVE.long_remainders, np.int64, (2**63 + 5, -3),
                        lambda *of: long_remainder(2**63 + 5, *of)),
    "all": (NATIVE.long_remainders, np.int64, (2**64, -3), lambda *of: long_remainder(2**64, *of)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_fills_are_made_of_the_words(name: str) -> None:
    fill, dtype, arguments, wanted = CASES[name]
    native, other = seeded(3), seeded(3)
    for count in COUNTS:
        array = np.empty(count, dtype)
        assert fill(native, array, *arguments) is array
        np.testing.assert_array_equal(array, wanted(other, count))
        if count:  # a state as seeded keeps its count until words are drawn
            np.testing.assert_array_equal(native, other)


def test_all_elements_of_a_shape_are_filled() -> None:
    array = np.zeros((3, 5, 7), np.float32)
    NATIVE.fractions(seeded(1), array)
    np.testing.assert_array_equal(array.reshape(-1), fraction(seeded(1), 105))
    single = np.zeros((), np.float32)
    NATIVE.fractions(seeded(1), single)
    assert single == fraction(seeded(1), 1)[0]


@pytest.mark.parametrize("used", [-(2**31), -1, 620, 624, 625, 10**6])
@pytest.mark.parametrize("name", ["fractions", "long_fractions"])
def test_any_count_of_used_words_stays_within_memory(name: str, used: int) -> None:
    fill, dtype, arguments, wanted = CASES[name]
    native = seeded(3)
    native[WORDS] = used
    other = native.copy()
    np.testing.assert_array_equal(fill(native, np.empty(20, dtype), *arguments), wanted(other, 20))
    np.testing.assert_array_equal(native, other)


@pytest.mark.parametrize("seed", [0, 1, 2**31, -1, 2**40 + 7, 2**64 - 1])
def test_seeds(seed: int) -> None:
    state = np.zeros(STATE, np.int32)
    assert NATIVE.seed(state, seed) is state
    np.testing.assert_array_equal(state, seeded(seed))


@pytest.mark.parametrize("parts", [(999,), (1, 2, 700, 999)])
def test_an_order_in_parts(parts: tuple[int, ...]) -> None:
    state, order, start = seeded(4), np.empty(1000, np.int64), 0
    for stop in parts:
        NATIVE.order(state, order, start, stop)
        start = stop
    drawn = words(seeded(4), 999).astype(np.uint32).view(np.int32)
    np.testing.assert_array_equal(order, shuffled.run((drawn,), {})[0])
