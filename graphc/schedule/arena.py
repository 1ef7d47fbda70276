"""Offsets in one arena: dynamic storage allocation, greedy by size with best fit.

Source of the method: Pisarchyk and Lee, "Efficient memory management for deep neural net
inference" (2020). The lower bound is the greatest sum of sizes alive at one step.
"""

from __future__ import annotations

import itertools

ALIGNMENT = 64

Range = tuple[int, int]


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


def _greedy(sizes: list[int], ranges: list[Range], order: list[int]) -> tuple[list[int], int]:
    offsets = [0] * len(sizes)
    placed: list[tuple[int, int, int, int]] = []  # from and to which byte, first and last step
    total = 0
    for i in order:
        size = aligned(sizes[i])
        first, last = ranges[i]
        together = sorted([
            (start, end) for start, end, begun, done in placed if first <= done and begun <= last
        ])  # fmt: skip
        position, best_gap, best_at = 0, None, None
        for start, end in together:
            gap = start - position
            if gap >= size and (best_gap is None or gap < best_gap):
                best_gap, best_at = gap, position
            position = max(position, end)
        offsets[i] = position if best_at is None else best_at
        total = max(total, offsets[i] + size)
        placed.append((offsets[i], offsets[i] + size, first, last))
    return offsets, total


def lower_bound(sizes: list[int], ranges: list[Range]) -> int:
    """The greatest sum of (aligned) sizes alive at one step: no plan can do with less."""
    change: dict[int, int] = {}
    for size, (first, last) in zip(sizes, ranges, strict=True):
        change[first] = change.get(first, 0) + aligned(size)
        change[last + 1] = change.get(last + 1, 0) - aligned(size)
    return max(itertools.accumulate(change[step] for step in sorted(change)), default=0)
