"""Loops over a range in tiles: whole ones, and what is left of the last.

    for tile = 0 to extent // size:          whole tiles
      body(tile, None)
    if extent % size:                        what is left
      body(extent // size, extent % size)

Beside the nests' writer this is the one place where a range is cut: inside leaves, and in recipes
without a nest. The extent may be a number, or a size known only at run time: then what is left is a
size too, in the block where there is any. Tiles need not divide it.
A thread does its part of the tiles, and the last one what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.ir.dims import Extent, ceil_div, fixed
from graphc.ops.kinds.index_expr import Expr, Variable, of

TileBody = Callable[[Expr, Extent | None], None]
"""What is done with the tile of a number: with all of it, or with so many of its elements."""
FoldBody = Callable[[Expr, int, Sequence[LoopValue]], Sequence[LoopValue]]
"""What becomes of some values by the tile of a number, of which there are so many elements."""
Part = tuple[Number, Number]
"""The tiles a thread does: from, to below."""


@dataclass(frozen=True, slots=True)
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

    def present(self, addresses: Addresses, tile: Expr) -> Number:
        """How many elements the tile of a number has, where one body serves the last one too."""
        if self.rest == 0:
            return self.size
        n = addresses.builder.numbers
        # The extent stands ahead of what is computed of the tile.
        extent = n.value(self.extent)
        return n.minimum(n.sub(extent, addresses.scalar(tile * self.size)), self.size)

    def each(
        self, addresses: Addresses, name: str, body: TileBody, part: Part | None = None
    ) -> None:
        """Writes `body` for all tiles in order, or those of a part; `name` is the loop's."""
        if self.whole != 0:
            self._each_whole(addresses, name, body, part)
        self.last(addresses, body, part, self.tiles)

    def _each_whole(
        self, addresses: Addresses, name: str, body: TileBody, part: Part | None
    ) -> None:
        b, whole = addresses.builder, self.whole
        begin: Number = 0
        end: Number = b.numbers.bound(whole)
        if part is not None:
            begin, end = part
            if self.rest != 0:
                end = b.numbers.minimum(end, whole)
        elif whole == 1:
            body(of(0), None)
            return
        with b.loop(begin, end, hint=name.partition("_")[0]) as loop:
            tile = Variable(name, whole)
            addresses.bind(tile, loop.variable, b.block)
            body(of(tile), None)

    def fold(
        self, addresses: Addresses, name: str, values: Sequence[LoopValue], body: FoldBody,
        hint: str | None = None,
    ) -> list[LoopValue]:  # fmt: skip
        """What `body` makes of the values tile by tile, in order: they are carried through the loop
        over whole tiles, which is written also where there is one. The extent is a number."""
        b, whole = addresses.builder, fixed(self.whole)
        values = list(values)
        if whole:
            with b.loop(0, whole, carried=values, hint=hint or name.partition("_")[0]) as loop:
                tile = Variable(name, whole)
                addresses.bind(tile, loop.variable, b.block)
                loop.yield_(*body(of(tile), self.size, loop.carried))
            values = list(loop.results)
        rest = fixed(self.rest)
        return list(body(of(whole), rest, values)) if rest else values

    def last(self, addresses: Addresses, body: TileBody, part: Part | None, parts: Extent) -> None:
        """Writes `body` for what is left behind the whole tiles, if anything is. With a part, of
        `parts` in all, only the one that ends there does it."""
        b = addresses.builder
        if self.rest == 0:
            return
        tests = []
        if part is not None:
            tests.append(b.numbers.compare("eq", part[1], parts))
        if not isinstance(self.rest, int):
            tests.append(b.numbers.compare("ne", self.rest, 0))
        if not tests:
            body(of(self.whole), self.rest)
            return
        condition = tests[0] if len(tests) == 1 else b.op("and", *tests)
        with b.if_(condition) as branch:
            with branch.then():
                body(of(self.whole), self.rest)
            with branch.otherwise():
                pass
