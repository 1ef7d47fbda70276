"""Loops over a range in tiles: whole ones, and what is left of the last.

    for tile = 0 to extent // size:          whole tiles
      body(tile, size)
    body(extent // size, extent % size)      what is left, if anything is

Beside the nests' writer this is the one place where a range is cut: inside leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.dims import Extent, ceil_div, fixed
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import record

TileBody = Callable[[Expr, int], None]
"""What is done with the tile of a number, of which there are so many elements."""
FoldBody = Callable[[Expr, int, Sequence[LoopValue]], Sequence[LoopValue]]
"""What becomes of some values by the tile of a number, of which there are so many elements."""


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

    def each(self, addresses: Addresses, name: str, body: TileBody) -> None:
        """Writes `body` for all tiles in order; `name` is the loop's. What is left is a number."""
        b, whole, rest = addresses.builder, self.whole, fixed(self.rest)
        if whole == 1:
            body(of(0), self.size)
        elif whole != 0:
            with b.loop(0, whole, hint=name.partition("_")[0]) as loop:
                tile = Variable(name, whole)
                addresses.bind(tile, loop.variable, b.block)
                body(of(tile), self.size)
        if rest:
            body(of(whole), rest)

    def fold(
        self, addresses: Addresses, name: str, values: Sequence[LoopValue], body: FoldBody,
        hint: str | None = None,
    ) -> list[LoopValue]:  # fmt: skip
        """What `body` makes of the values tile by tile, in order: they are carried through the loop
        over whole tiles, which is written also where there is one. The extent is a number."""
        b, whole = addresses.builder, self.whole
        values = list(values)
        if whole != 0:
            with b.loop(0, whole, carried=values, hint=hint or name.partition("_")[0]) as loop:
                tile = Variable(name, whole)
                addresses.bind(tile, loop.variable, b.block)
                loop.yield_(*body(of(tile), self.size, loop.carried))
            values = list(loop.results)
        rest = fixed(self.rest)
        return list(body(of(whole), rest, values)) if rest else values
