"""What the recipe of a contraction does, as the cost model decided it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from graphc.codegen.recipes.contraction.halo import BoxAxis
from graphc.codegen.recipes.contraction.k_blocks import CHAIN
from graphc.codegen.recipes.contraction.tiles import Columns, Tile
from graphc.codegen.recipes.contraction.view import ContractionView, Phase


@dataclass(frozen=True)
class Choice:
    """What the recipe does. `left` is the operand that is broadcast, `right` that read by vectors;
    each is read `direct`ly, from a `panel`, or (right) from a `box`. `right` also names what has an
    order of loops of its own: `streamed` and `turned` for one row, `batch`, `listed`, `lines`."""

    view: ContractionView
    lanes: int
    lane_axes: tuple[int, ...]
    down: int
    tile: Tile
    left: str
    left_width: int
    right: str
    box: tuple[BoxAxis, ...] | None
    right_operand: int
    unrolled: int
    zeros_stand_in: bool
    row_block: int
    """Tiles of rows whose broadcast operand stays in L2 while columns pass; 0: all rows."""
    group: int
    """Indices of the first axis of k whose products are added at a time; 0: all."""
    left_box: tuple[BoxAxis, ...] | None
    left_operand: int
    """The broadcast operand's copy, where vectors run along the batch."""
    cost: float
    reason: str
    phases: list[Phase] = field(default_factory=list)
    column_block: int = 1
    """Tiles of columns that a block of rows meets for one chain before the next."""
    left_by_block: bool = False
    """The broadcast operand is copied for one block of rows at a time, not ahead of all loops."""

    @property
    def grouped(self) -> bool:
        return self.group > 0

    @property
    def chain_by_chain(self) -> bool:
        """Whether the columns of a tile meet all rows for one chain before the next: where they are
        copied for it, or too deep to stay in L1."""
        deep = math.prod(self.view.k) > CHAIN and math.prod(self.view.m) > self.tile.rows
        return self.right == "panel" or (self.right == "direct" and (deep or self.row_block > 0))

    @property
    def interleaved(self) -> bool:
        """Whether every second result along the vectors belongs to another phase."""
        last = len(self.view.n) - 1
        both = len({phase.offsets[-1] for phase in self.phases}) == 2 if last >= 0 else False
        return both and self.phases[0].steps[-1] == 2 and self.lane_axes == (last,)

    def columns(self, phase: Phase) -> Columns:
        return Columns(phase, self.lane_axes, self.lanes, self.down)
