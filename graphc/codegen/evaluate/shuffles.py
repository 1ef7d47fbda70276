"""Transposing blocks of vectors in registers, and picking lanes of several."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue


def transpose(builder: LoopBuilder, rows: Sequence[LoopValue]) -> list[LoopValue]:
    """Lane c of row r as lane r of row c, by two-operand shuffles: neighbours are interleaved
    inside 16 bytes, which takes one instruction each, then blocks of 16 bytes change places."""
    lanes = len(rows)
    found = list(rows)
    together = 16 // rows[0].type.dtype.itemsize
    distance = 1
    if lanes >= together == 4:
        found = _interleaved_quads(builder, found)
        distance = 4
    while distance < lanes:
        low = [i if not i & distance else lanes + i - distance for i in range(lanes)]
        high = [i + distance if not i & distance else lanes + i for i in range(lanes)]
        for i in range(lanes):
            if not i & distance:
                a, b = found[i], found[i + distance]
                found[i] = builder.shuffle(a, b, low)
                found[i + distance] = builder.shuffle(a, b, high)
        distance *= 2
    return found


def _interleaved_quads(builder: LoopBuilder, rows: list[LoopValue]) -> list[LoopValue]:
    """Blocks of 4 x 4 elements transposed in place."""
    lanes = len(rows)
    blocks = range(0, lanes, 4)

    def shuffled(a: LoopValue, b: LoopValue, order: tuple[int, ...]) -> LoopValue:
        # 0 to 3 are elements of a block of a, 4 to 7 of b's.
        picked = [g + i if i < 4 else lanes + g + i - 4 for g in blocks for i in order]
        return builder.shuffle(a, b, picked)

    found: list[LoopValue] = []
    for first in blocks:
        a, b, c, d = rows[first : first + 4]
        low, high = (0, 4, 1, 5), (2, 6, 3, 7)
        ab, cd = shuffled(a, b, low), shuffled(c, d, low)
        found += [shuffled(ab, cd, (0, 1, 4, 5)), shuffled(ab, cd, (2, 3, 6, 7))]
        ab, cd = shuffled(a, b, high), shuffled(c, d, high)
        found += [shuffled(ab, cd, (0, 1, 4, 5)), shuffled(ab, cd, (2, 3, 6, 7))]
    return found


def pick(
    builder: LoopBuilder, parts: Sequence[LoopValue], places: Sequence[tuple[int, int]]
) -> LoopValue:
    """The vector whose lane i is lane `place` of part `number`, for (number, place) = places[i]."""
    lanes = len(places)
    made, order = parts[0], [place for _, place in places]
    for number, part in enumerate(parts[1:], start=1):
        order = [
            lanes + place if source == number else order[i]
            for i, (source, place) in enumerate(places)
        ]
        made, order = builder.shuffle(made, part, order), list(range(lanes))
    return builder.shuffle(made, made, order) if len(parts) == 1 else made
