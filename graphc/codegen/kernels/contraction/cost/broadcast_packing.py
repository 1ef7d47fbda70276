"""How a copy of the broadcast operand lies: what `tilings` chooses and `broadcast_operand` fills.

In: the register tile's rows, the extents of k. Out: where an element lies in the copy.
"""

from __future__ import annotations

from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, flatten
from graphc.records import record
from graphc.schedule.access import Index, unflatten


@record
class BroadcastPacking:
    """How the copy lies: `width` rows side by side, those of one or more tiles of `tile_rows`; the
    axes of k from `taps_first` on ahead of those before it (0: as they are). Where each residue
    class of the results uses a few kernel positions these come first. `channels_first`: k ends in
    the place in a pair of channels, the odd one first; the copy has channel after channel, each
    with its taps, as a weight lies in memory."""

    width: int
    tile_rows: int
    taps_first: int
    channels_first: bool = False

    @property
    def group(self) -> int:
        """Tiles of rows side by side."""
        return self.width // self.tile_rows if self.width % self.tile_rows == 0 else 1

    @property
    def group_rows(self) -> int:
        return self.tile_rows * self.group

    def groups(self, rows: int) -> int:
        """Groups of tiles of so many rows."""
        return -(-rows // self.group_rows)

    def k(self, flat: Expr, extents: Shape) -> Index:
        order = self._order(extents)
        items = unflatten(flat, tuple(extents[axis] for axis in order))
        at = dict(zip(order, items, strict=True))
        return self._turned(tuple(at[axis] for axis in range(len(order))))

    def position(self, k: Index, extents: Shape) -> Expr:
        """Where an index of k stands among all in the copy."""
        order, k = self._order(extents), self._turned(k)
        return flatten([k[axis] for axis in order], [extents[axis] for axis in order])

    def _turned(self, k: Index) -> Index:
        """Places in pairs counted from the even one, or back."""
        return (*k[:-1], 1 - k[-1]) if self.channels_first else k

    def _order(self, extents: Shape) -> tuple[int, ...]:
        axes = tuple(range(len(extents)))
        if self.channels_first:
            return (0, axes[-1], *axes[1:-1])
        return axes[self.taps_first :] + axes[: self.taps_first]
