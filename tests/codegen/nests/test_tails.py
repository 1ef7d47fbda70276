"""Tails: each position of an axis is in one tile, in order, at every extent; what is not legal is
refused with a reason."""

from __future__ import annotations

import pytest

from graphc.codegen.nests.tails import Run, Tail
from graphc.ir.dims import dim

SIZE = 4
EXTENTS = (0, 1, 3, 4, 5, 8, 14)
OF_TILES = (Tail.CLIPPED, Tail.BY_RUN, Tail.APART)
"""Of splits of tiles: the positions are those of the tiles."""


def runs_of(extent: int) -> tuple[Run, ...]:
    """Whole tiles, and one of what is left."""
    whole, rest = extent // SIZE, extent % SIZE
    return (Run(0, 0, whole, SIZE), *([Run(whole, whole * SIZE, 1, rest)] if rest else []))


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("tail", [tail for tail in Tail if tail not in OF_TILES])
def test_each_position_is_in_one_tile(tail: Tail, extent: int) -> None:
    runs = runs_of(extent) if tail is Tail.RUNS else ()
    refusal = tail.refusal(extent, SIZE, runs)
    assert (refusal is not None) == (
        (tail is Tail.EXACT and extent % SIZE != 0) or (tail is Tail.SHIFTED and extent < SIZE)
    ), refusal
    if refusal is not None:
        return
    tiles = list(tail.tiles(extent, SIZE, runs))
    positions = [first + i for first, count in tiles for i in range(count)]
    if tail is Tail.SHIFTED:
        assert sorted(set(positions)) == list(range(extent))
        assert all(count == SIZE for _, count in tiles)
    else:
        assert positions == list(range(extent))
    assert all(0 < count <= SIZE for _, count in tiles) or extent == 0


def test_what_an_open_size_cannot_be() -> None:
    n = dim("n", 2)
    refused = {tail for tail in Tail if tail.refusal(n, SIZE, runs_of(8)) is not None}
    numbers = {Tail.WHOLE_AND_REST, Tail.PEELED, Tail.NUMBERED, Tail.SHIFTED, Tail.RUNS}
    assert refused == {Tail.EXACT, *numbers}
    assert Tail.EXACT.refusal(n * SIZE, SIZE) is None
    assert Tail.WHOLE_AND_REST.refusal(n * SIZE + 3, SIZE) is None


def test_runs_that_do_not_follow_one_another_are_refused() -> None:
    said = Tail.RUNS.refusal(8, SIZE, (Run(0, 4, 1, SIZE), Run(1, 0, 1, SIZE)))
    assert said == "a run begins at tile 0, position 4 instead of 0"
    assert Tail.RUNS.refusal(8, SIZE, (Run(0, 0, 1, SIZE),)) == "runs have 4 of 8 positions"
