"""Offsets in one arena: dynamic storage allocation, greedy by size with best fit.

Source of the method: Pisarchyk and Lee, "Efficient memory management for deep neural net
inference" (2020). The lower bound is the greatest sum of sizes alive at one step.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

ALIGNMENT = 64

Range = tuple[int, int]
Offsets = np.ndarray[Any, np.dtype[np.int64]]


def aligned(size: int) -> int:
    """`size` rounded up to the alignment of a cache line."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan_offsets(sizes: list[int], ranges: list[Range]) -> tuple[list[int], int]:
    """Byte offsets so that buffers alive together do not overlap, and the arena's size."""
    best: tuple[list[int], int] | None = None
    least = lower_bound(sizes, ranges)
    orders = (
        lambda i: (-sizes[i], ranges[i][0]),
        lambda i: (-sizes[i] * (ranges[i][1] - ranges[i][0] + 1), ranges[i][0]),
        lambda i: (ranges[i][0], -sizes[i]),
    )
    for order in orders:
        plan = _greedy(sizes, ranges, sorted(range(len(sizes)), key=order))
        if best is None or plan[1] < best[1]:
            best = plan
        if best[1] == least:
            break
    return best if best is not None else ([], 0)


def plan_slots(sizes: list[int], ranges: list[Range]) -> tuple[list[int], int]:
    """The same where buffers share an offset or lie apart, whatever their sizes come to be: each
    has a slot, as long as the longest in it, the first with none that is alive with it."""
    slots: list[list[int]] = []
    for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i], ranges[i])):
        apart = (slot for slot in slots if not any(_meet(ranges[i], ranges[j]) for j in slot))
        slot = next(apart, None)
        if slot is None:
            slots.append([i])
        else:
            slot.append(i)
    offsets, total = [0] * len(sizes), 0
    for slot in slots:
        for i in slot:
            offsets[i] = total
        total += max(aligned(max(sizes[i] for i in slot)), ALIGNMENT)
    return offsets, total


def _meet(one: Range, other: Range) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _greedy(sizes: list[int], ranges: list[Range], order: list[int]) -> tuple[list[int], int]:
    offsets, total = [0] * len(sizes), 0
    # Of those placed, in that order: from and to which byte, first and last step.
    starts, ends, begun, done = np.zeros((4, len(sizes)), np.int64)
    for number, i in enumerate(order):
        size = aligned(sizes[i])
        first, last = ranges[i]
        together = np.flatnonzero((done[:number] >= first) & (begun[:number] <= last))
        offsets[i] = _best_fit(size, starts[together], ends[together])
        total = max(total, offsets[i] + size)
        starts[number], ends[number] = offsets[i], offsets[i] + size
        begun[number], done[number] = first, last
    return offsets, total


def _best_fit(size: int, starts: Offsets, ends: Offsets) -> int:
    """The first byte of the smallest gap that holds `size` bytes between what lies from `starts`
    to `ends`; behind all of it where there is none."""
    if not starts.size:
        return 0
    by_place = np.lexsort((ends, starts))
    reached = np.maximum.accumulate(ends[by_place])
    free_from = np.concatenate(([0], reached[:-1]))
    gaps = starts[by_place] - free_from
    fitting = np.flatnonzero(gaps >= size)
    if not fitting.size:
        return int(reached[-1])
    return int(free_from[fitting[gaps[fitting].argmin()]])


def lower_bound(sizes: list[int], ranges: list[Range]) -> int:
    """The greatest sum of (aligned) sizes alive at one step: no plan can do with less."""
    change: dict[int, int] = {}
    for size, (first, last) in zip(sizes, ranges, strict=True):
        change[first] = change.get(first, 0) + aligned(size)
        change[last + 1] = change.get(last + 1, 0) - aligned(size)
    return max(itertools.accumulate(change[step] for step in sorted(change)), default=0)
