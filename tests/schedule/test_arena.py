"""Offsets in one arena: never an overlap, close to the lower bound."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.schedule.arena import ALIGNMENT, _greedy, aligned, lower_bound, plan_offsets

Range = tuple[int, int]
lives = st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1]))
requests = st.lists(st.tuples(st.integers(0, 5000), lives), max_size=40)


def check_plan(sizes: list[int], ranges: list[Range]) -> tuple[int, int]:
    """Offsets are sound; the arena's size and the lower bound."""
    offsets, total = plan_offsets(sizes, ranges)
    assert len(offsets) == len(sizes)
    for i, j in itertools.combinations(range(len(sizes)), 2):
        together = ranges[i][0] <= ranges[j][1] and ranges[j][0] <= ranges[i][1]
        apart = offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]
        assert apart or not together
    for offset, size in zip(offsets, sizes, strict=True):
        assert offset % ALIGNMENT == 0 and offset >= 0 and offset + size <= total
    return total, lower_bound(sizes, ranges)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(requests)
def test_buffers_alive_together_do_not_overlap(wanted: list[tuple[int, Range]]) -> None:
    sizes, ranges = [size for size, _ in wanted], [range_ for _, range_ in wanted]
    total, bound = check_plan(sizes, ranges)
    by_step = [
        sum(aligned(s) for s, (a, b) in zip(sizes, ranges, strict=True) if a <= step <= b)
        for step in range(60)
    ]
    assert bound == max(by_step)
    assert bound <= total <= sum(map(aligned, sizes))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["chain", "nested", "random"])
def test_the_arena_is_close_to_the_lower_bound(seed: int, kind: str) -> None:
    """Like forward (short lives), forward and backward (nested lives), and anything."""
    random = np.random.default_rng(seed)
    count = 80
    sizes = [int(size) for size in 64 * 2 ** random.integers(0, 10, count)]
    if kind == "chain":
        ranges = [(i, i + int(random.integers(1, 4))) for i in range(count)]
    elif kind == "nested":
        ranges = [(i, 2 * count - i) if i % 2 else (i, i + 1) for i in range(count)]
    else:
        starts = random.integers(0, count, count)
        ranges = [(int(s), int(s + random.integers(0, 20))) for s in starts]
    total, bound = check_plan(sizes, ranges)
    assert bound <= total <= 1.3 * bound


def test_nothing_and_one() -> None:
    assert plan_offsets([], []) == ([], 0)
    assert lower_bound([], []) == 0
    assert plan_offsets([1], [(3, 3)]) == ([0], ALIGNMENT)
    assert [aligned(size) for size in (0, 1, 64, 65)] == [0, 64, 64, 128]


def test_buffers_that_only_touch_share_memory() -> None:
    assert plan_offsets([100, 100], [(0, 1), (2, 3)])[1] == 128
    assert plan_offsets([100, 100], [(0, 1), (1, 2)])[1] == 256


def greedy_by_definition(
    sizes: list[int], ranges: list[Range], order: list[int]
) -> tuple[list[int], int]:
    """Each buffer, in the order, in the smallest gap between those alive with it."""
    offsets: dict[int, int] = {}
    for i in order:
        size, position, gaps = aligned(sizes[i]), 0, []
        together = [
            (offsets[j], offsets[j] + aligned(sizes[j])) for j in offsets
            if ranges[i][0] <= ranges[j][1] and ranges[j][0] <= ranges[i][1]
        ]  # fmt: skip
        for start, end in sorted(together):
            if start - position >= size:
                gaps.append((start - position, position))
            position = max(position, end)
        offsets[i] = min(gaps)[1] if gaps else position
    total = max((offsets[i] + aligned(sizes[i]) for i in offsets), default=0)
    return [offsets[i] for i in range(len(sizes))], total


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(requests, st.randoms(use_true_random=False))
def test_each_buffer_takes_the_smallest_gap(
    wanted: list[tuple[int, Range]], random: Random
) -> None:
    sizes, ranges = [size for size, _ in wanted], [range_ for _, range_ in wanted]
    order = list(range(len(sizes)))
    random.shuffle(order)
    assert _greedy(sizes, ranges, order) == greedy_by_definition(sizes, ranges, order)
