"""Transposing blocks of vectors in registers, and picking lanes of several."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue


def transpose(builder: LoopBuilder, rows: Sequence[LoopValue]) -> list[LoopValue]:
    """Lane c of row r as lane r of row c, by two-operand shuffles: neighbours are interleaved
    inside 16 bytes, which takes one instruction each, then blocks of 16 bytes change places."""
    lanes = len(rows)
    vectors = list(rows)
    together = 16 // rows[0].type.dtype.itemsize
    distance = 1
    if lanes >= together == 4:
        vectors = _interleaved_quads(builder, vectors)
        distance = 4
    while distance < lanes:
        low = [i if not i & distance else lanes + i - distance for i in range(lanes)]
        high = [i + distance if not i & distance else lanes + i for i in range(lanes)]
        for i in range(lanes):
            if not i & distance:
                a, b = vectors[i], vectors[i + distance]
                vectors[i] = builder.shuffle(a, b, low)
                vectors[i + distance] = builder.shuffle(a, b, high)
        distance *= 2
    return vectors


def _interleaved_quads(builder: LoopBuilder, rows: list[LoopValue]) -> list[LoopValue]:
    """Blocks of 4 x 4 elements transposed in place."""
    lanes = len(rows)
    blocks = range(0, lanes, 4)

    def shuffled(a: LoopValue, b: LoopValue, order: tuple[int, ...]) -> LoopValue:
        # 0 to 3 are elements of a block of a, 4 to 7 of b's.
        picked = [g + i if i < 4 else lanes + g + i - 4 for g in blocks for i in order]
        return builder.shuffle(a, b, picked)

    columns: list[LoopValue] = []
    for first in blocks:
        a, b, c, d = rows[first : first + 4]
        low, high = (0, 4, 1, 5), (2, 6, 3, 7)
        ab, cd = shuffled(a, b, low), shuffled(c, d, low)
        columns += [shuffled(ab, cd, (0, 1, 4, 5)), shuffled(ab, cd, (2, 3, 6, 7))]
        ab, cd = shuffled(a, b, high), shuffled(c, d, high)
        columns += [shuffled(ab, cd, (0, 1, 4, 5)), shuffled(ab, cd, (2, 3, 6, 7))]
    return columns


def interleave(builder: LoopBuilder, a: LoopValue, b: LoopValue, half: int) -> LoopValue:
    """Lanes of two vectors in turn: of each the first half of them, or the second."""
    lanes = a.type.lanes
    if lanes == 1:
        return b if half else a
    first = half * lanes // 2
    order = [first + i // 2 + (lanes if i % 2 else 0) for i in range(lanes)]
    return builder.shuffle(a, b, order)


def pick(
    builder: LoopBuilder, parts: Sequence[LoopValue], lanes_of: Sequence[tuple[int, int]]
) -> LoopValue:
    """The vector whose lane i is lane `lane` of part `number`, for (number, lane) = lanes_of[i]."""
    lanes = len(lanes_of)
    picked, order = parts[0], [lane for _, lane in lanes_of]
    for number, part in enumerate(parts[1:], start=1):
        order = [
            lanes + lane if source == number else order[i]
            for i, (source, lane) in enumerate(lanes_of)
        ]
        picked, order = builder.shuffle(picked, part, order), list(range(lanes))
    return builder.shuffle(picked, picked, order) if len(parts) == 1 else picked
