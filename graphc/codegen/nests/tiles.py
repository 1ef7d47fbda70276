"""The tiles that a loop of a nest goes through, as numbers.

In: splits, at sizes of a call. Out: lists of `TileRange`s, in the order of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from graphc.codegen.nests.nest import Axis, Split
from graphc.codegen.nests.tails import Tail
from graphc.ir.dims import evaluate
from graphc.records import record, replace


@record
class TileRange:
    """Positions [first, first + count) of an axis: tile `number` of a split; `tiles`: those of the
    split whose tiles it has, where it has some. `run`: which of the runs. `is_rest`: whether it is
    what whole tiles leave."""

    number: int
    first: int
    count: int
    tiles: tuple[TileRange, ...] = ()
    run: int = 0
    is_rest: bool = False

    @property
    def positions(self) -> range:
        return range(self.first, self.first + self.count)


class SplitTiles:
    """The tiles of splits at certain sizes. `part`: by the names of splits that threads divide, the
    numbers of the tiles of one thread."""

    def __init__(self, sizes: Mapping[str, int], part: Mapping[str, range]) -> None:
        self.sizes = sizes
        self.part = part

    def of(self, split: Split) -> list[TileRange]:
        """All tiles, or those of the part."""
        tiles = self._all(split)
        if isinstance(split.of, Split):
            tiles = blocks(split, self.of(split.of), whole=len(self._all(split.of)))
        return [tile for tile in tiles if self._is_there(split, tile)]

    def _all(self, split: Split) -> list[TileRange]:
        if isinstance(split.of, Split):
            tiles = self._all(split.of)
            return blocks(split, tiles, whole=len(tiles))
        return tiles_of_axis(split, evaluate(split.extent, self.sizes))

    def _is_there(self, split: Split, tile: TileRange) -> bool:
        return split.name not in self.part or tile.number in self.part[split.name]

    def inside(self, split: Split, within: Split, outer: TileRange) -> list[TileRange]:
        """The tiles of a split in a tile of another."""
        if isinstance(split.of, Axis) and isinstance(within.of, Axis):
            return [
                TileRange(tile.number, outer.first + tile.first, tile.count)
                for tile in tiles_of_axis(split, outer.count)
            ]
        if isinstance(split.of, Axis):
            return list(outer.tiles)
        return blocks(split, outer.tiles, whole=len(outer.tiles))


def tiles_of_axis(split: Split, extent: int) -> list[TileRange]:
    """The tiles of positions below `extent`."""
    runs = [number for number, run in enumerate(split.runs) for _ in range(run.count)]
    tiles = split.tail.tiles(extent, split.size, split.runs)
    return [
        TileRange(number, first, count, (), runs[number] if runs else 0, count < split.size)
        for number, (first, count) in enumerate(tiles)
    ]


def blocks(split: Split, tiles: Sequence[TileRange], whole: int) -> list[TileRange]:
    """Tiles of tiles. `whole`: how many tiles there are in all parts together."""
    assert isinstance(split.of, Split)
    groups: list[tuple[TileRange, ...]] = []
    if split.tail is Tail.BY_RUN:
        groups = [tuple(run) for _, run in groupby(tiles, lambda tile: tile.run)]
    elif split.tail in (Tail.APART, Tail.BEHIND):
        groups = list(_batched([tile for tile in tiles if not tile.is_rest], split.size))
        groups += [(tile,) for tile in tiles if tile.is_rest]
    elif split.tail is Tail.CLIPPED and split.of.tail is Tail.RUNS and split.size < whole:
        for _, run in groupby(tiles, lambda tile: tile.run):
            groups += _batched(list(run), split.size)
    else:
        groups = list(_batched(tiles, split.size))
    grouped = [
        TileRange(number, group[0].first, sum(tile.count for tile in group), group)
        for number, group in enumerate(groups)
    ]
    if split.tail is Tail.BEHIND and grouped and grouped[-1].tiles[0].is_rest:
        # No part of its own: it is done with the block before.
        grouped[-1] = replace(grouped[-1], number=max(len(grouped) - 2, 0), is_rest=True)
    return grouped


def _batched(tiles: Sequence[TileRange], size: int) -> list[tuple[TileRange, ...]]:
    return [tuple(tiles[first : first + size]) for first in range(0, len(tiles), size)]
