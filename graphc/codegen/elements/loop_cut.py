"""Loops inside leaves over a range in tiles, whole ones and what is left.

    for tile = 0 to extent // size:          whole tiles
      body(tile, size)
    body(extent // size, extent % size)      what is left, if anything is

Beside the nests' writer this is the one place where a range is cut: inside leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.elements.leaf_loops import counted_loop, position_of
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.ir.dims import Bound, Extent, bounds_of, ceil_div, remainder
from graphc.ops.kinds.index_expr import Expr, of
from graphc.records import record

TileBody = Callable[[Expr, int], None]
"""What is done with the tile of a number, of which there are so many elements."""
FoldBody = Callable[[Expr, int, Sequence[LoopValue]], Sequence[LoopValue]]
"""What becomes of some values by the tile of a number, of which there are so many elements."""
N = TypeVar("N", int, Extent)


@record
class LoopCut:
    """The range [0, extent) in tiles of `size`."""

    extent: Extent
    size: int

    @property
    def whole(self) -> Extent:
        """How many tiles are whole."""
        return self.extent // self.size

    @property
    def rest(self) -> Extent:
        """Elements of the tile behind them; 0 where there is none."""
        return self.extent % self.size

    @property
    def tiles(self) -> Extent:
        """How many tiles there are."""
        return ceil_div(self.extent, self.size)

    @property
    def least_whole(self) -> Bound:
        """How many tiles are whole at least, at every size."""
        return bounds_of(self.whole)[0]

    @property
    def is_one_tile(self) -> bool:
        """Whether there is at most one tile, at every size."""
        return bounds_of(self.tiles)[1] <= 1

    @property
    def left(self) -> int:
        """The rest as a number. Raises UndecidedSizeError where it is a size."""
        return remainder(self.extent, self.size)

    def each(self, addresses: Addresses, name: str, body: TileBody) -> None:
        """Writes `body` for all tiles in order; `name` is the loop's. What is left is a number."""
        self._tiles(addresses, name, self.left, body)

    def masked(self, addresses: Addresses, name: str, body: Callable[[Expr, Extent], None]) -> None:
        """As `each`; what is left may be a size, 0 too: `body` masks what is not there."""
        self._tiles(addresses, name, self.rest, body)

    def _tiles(
        self, addresses: Addresses, name: str, rest: N, body: Callable[[Expr, N], None]
    ) -> None:
        def tile(number: Number, values: Sequence[LoopValue]) -> Sequence[LoopValue]:
            body(position_of(addresses, name, self.whole, number), self.size)
            return values

        counted_loop(addresses.builder, 0, self.whole, tile, hint=name.partition("_")[0])
        if rest != 0:
            body(of(self.whole), rest)

    def fold(
        self, addresses: Addresses, name: str, values: Sequence[LoopValue], body: FoldBody,
        hint: str | None = None,
    ) -> list[LoopValue]:  # fmt: skip
        """What `body` makes of the values tile by tile, in order: they are carried through the loop
        over whole tiles, which is written also where there is one. The extent is a number."""

        def tile(number: Number, values: Sequence[LoopValue]) -> Sequence[LoopValue]:
            at = position_of(addresses, name, self.whole, number)
            return body(at, self.size, values)

        hint, rest = hint or name.partition("_")[0], self.left
        folded = counted_loop(
            addresses.builder, 0, self.whole, tile, values, hint=hint, always=True
        )
        return list(body(of(self.whole), rest, folded)) if rest else folded
