"""Offsets in one arena: dynamic storage allocation, greedy by size with best fit.

Source of the method: Pisarchyk and Lee, "Efficient memory management for deep neural net
inference" (2020). The lower bound is the greatest sum of sizes alive at one step.
"""

from __future__ import annotations

ALIGNMENT = 64

Range = tuple[int, int]


def aligned(size: int) -> int:
    """`size` rounded up to the alignment of a cache line."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan_offsets(sizes: list[int], ranges: list[Range]) -> tuple[list[int], int]:
    """Byte offsets so that buffers alive together do not overlap, and the arena's size."""
    best: tuple[list[int], int] | None = None
    orders = (
        lambda i: (-sizes[i], ranges[i][0]),
        lambda i: (-sizes[i] * (ranges[i][1] - ranges[i][0] + 1), ranges[i][0]),
        lambda i: (ranges[i][0], -sizes[i]),
    )
    for order in orders:
        found = _greedy(sizes, ranges, sorted(range(len(sizes)), key=order))
        if best is None or found[1] < best[1]:
            best = found
    return best if best is not None else ([], 0)


def _greedy(sizes: list[int], ranges: list[Range], order: list[int]) -> tuple[list[int], int]:
    offsets = [0] * len(sizes)
    placed: list[int] = []
    total = 0
    for i in order:
        size = aligned(sizes[i])
        together = sorted(
            (offsets[j], offsets[j] + aligned(sizes[j]))
            for j in placed
            if ranges[i][0] <= ranges[j][1] and ranges[j][0] <= ranges[i][1]
        )
        position, best_gap, best_at = 0, None, None
        for start, end in together:
            gap = start - position
            if gap >= size and (best_gap is None or gap < best_gap):
                best_gap, best_at = gap, position
            position = max(position, end)
        offsets[i] = position if best_at is None else best_at
        total = max(total, offsets[i] + size)
        placed.append(i)
    return offsets, total


def lower_bound(sizes: list[int], ranges: list[Range]) -> int:
    """The greatest sum of (aligned) sizes alive at one step: no plan can do with less."""
    steps = {step for range_ in ranges for step in range_}
    return max(
        (
            sum(aligned(size) for size, (a, b) in zip(sizes, ranges, strict=True) if a <= step <= b)
            for step in steps
        ),
        default=0,
    )
