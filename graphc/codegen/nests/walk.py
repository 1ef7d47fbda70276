"""The statements of a nest, gone through tile by tile, as one thread does its part.

In: a nest, the sizes of a call, a part of its tiles. Out: calls of what a runner does with stages
and leaves, at `RunAt`s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from graphc.codegen.nests.nest import (
    Axis,
    Clear,
    Every,
    Fill,
    ForEach,
    Leaf,
    Nest,
    Split,
    Stage,
    Statement,
    all_splits,
)
from graphc.codegen.nests.tiles import SplitTiles, TileRange
from graphc.ir.dims import evaluate
from graphc.records import field, record, replace


@record
class RunAt:
    """Where a runner is: the tiles of the loops around, by split; of each stage that is filled
    which filling that was, and what it holds."""

    tiles: Mapping[str, tuple[Split, TileRange]] = field(default_factory=dict)
    filled: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    last: frozenset[str] = frozenset()
    """Splits that are at the last of their tiles."""


def parts_of(nest: Nest, sizes: Mapping[str, int], parts: int) -> Iterator[range]:
    """The tiles of each of so many threads."""
    count = evaluate(nest.parts, sizes)
    edges = [count * part // parts for part in range(parts + 1)]
    return (range(begin, end) for begin, end in pairwise(edges) if begin != end)


class NestWalk(ABC):
    """One thread's part of a nest. `fillings`: how often each stage was filled."""

    def __init__(self, nest: Nest, sizes: Mapping[str, int], part: range) -> None:
        self.nest = nest
        self.sizes = sizes
        self.stages = {stage.name: stage for stage in nest.stages}
        self.axis_of = {split.name: split.axis.name for split in all_splits(nest)}
        self.fillings: dict[str, int] = {}
        self.part = part
        self.tiling = SplitTiles(sizes, {} if nest.fused else self._divided(part))

    @abstractmethod
    def filled(self, stage: Stage, at: RunAt) -> Any:
        """What a stage that is filled holds from here on."""

    @abstractmethod
    def clear(self, stage: Stage, at: RunAt) -> None:
        """A stage that is cleared."""

    @abstractmethod
    def compute(self, leaf: Leaf, at: RunAt) -> None:
        """What a leaf does."""

    def _divided(self, part: range) -> dict[str, range]:
        """Tiles of the first split ahead of those of the next."""
        divided, first, whole = {}, 0, SplitTiles(self.sizes, {})
        for split in self.nest.parallel:
            count = len(whole.of(split))
            divided[split.name] = range(part.start - first, part.stop - first)
            first += count
        return divided

    def run(self) -> None:
        self._block(self.nest.body, RunAt())

    def _block(self, statements: Sequence[Statement], at: RunAt) -> None:
        for statement in statements:
            if isinstance(statement, ForEach):
                self._loop(statement, at)
            elif isinstance(statement, Every):
                _, tile = at.tiles[statement.split.name]
                if (tile.number + 1) % statement.count == 0:
                    self._block(statement.body, at)
            elif isinstance(statement, Fill):
                name = statement.stage.name
                holds = self.filled(statement.stage, at)
                self.fillings[name] = self.fillings.get(name, 0) + 1
                at = replace(at, filled={**at.filled, name: (self.fillings[name], holds)})
            elif isinstance(statement, Clear):
                self.clear(statement.stage, at)
            else:
                self.compute(statement.leaf, at)

    def _loop(self, loop: ForEach, at: RunAt) -> None:
        split = loop.split
        if loop.within is None:
            tiles = self.tiling.of(split)
        else:
            tiles = self.tiling.inside(split, loop.within, at.tiles[loop.within.name][1])
        for position, tile in enumerate(tiles):
            if not self._is_mine(split, tile, at):
                continue
            last = at.last - {split.name} | ({split.name} if position == len(tiles) - 1 else set())
            inner = {**at.tiles, split.name: (split, tile)}
            is_other = tile.is_rest and loop.rest is not None
            statements = loop.rest if is_other else loop.body
            self._block(statements or (), replace(at, tiles=inner, last=frozenset(last)))

    def _is_mine(self, split: Split, tile: TileRange, at: RunAt) -> bool:
        """Whether a tile of splits that are counted as one range is in the part."""
        fused = self.nest.fused
        if fused is None:
            return True
        (outer,) = self.nest.parallel
        inner = len(self.tiling.of(fused))
        if split.name == outer.name:
            return bool(set(self.part) & set(range(tile.number * inner, (tile.number + 1) * inner)))
        if split.name == fused.name:
            return at.tiles[outer.name][1].number * inner + tile.number in self.part
        return True

    def positions(self, axis: Axis, at: RunAt, only: Sequence[str] | None = None) -> range | None:
        """Those of the innermost loop over an axis; None where no loop, or none of `only`, is."""
        tiles = [
            tile for split, tile in at.tiles.values()
            if split.axis.name == axis.name and (only is None or split.name in only)
        ]  # fmt: skip
        return tiles[-1].positions if tiles else None

    def is_current(self, name: str, at: RunAt) -> bool:
        """Whether the stage still holds what it was filled with before this place."""
        number, _ = at.filled.get(name, (0, None))
        return 0 < number == self.fillings[name]
