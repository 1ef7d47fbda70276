"""Convolutions with vectors along output channels: products with padding are left out.

The rows of a tile are neighbouring positions of one line of the plane. Which taps of the kernel's
last axis they have is known where the tile is written; those of its other axes are listed for each
line (`listed_taps.py`), so all lines are one loop. For each tile of columns the weights of one
chain are read by all lines in turn, so they come from L1; sums stay in scratch from chain to chain.
Weights must lie with output channels side by side: a pass packs those that are frozen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.contraction.k_blocks import CHAIN, cut
from graphc.codegen.recipes.contraction.lines import Segment, lines_of
from graphc.codegen.recipes.contraction.operands import CACHE_LINE
from graphc.codegen.recipes.contraction.tap_list import list_taps, over_chains, store_sums
from graphc.codegen.recipes.contraction.tiled import TiledOrder
from graphc.codegen.recipes.contraction.tiles import OutputTile
from graphc.codegen.recipes.contraction.transposed_epilogue import TurnedOutputs
from graphc.codegen.recipes.contraction.view import operand_value
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Case
from graphc.schedule.access import Index, unflatten


class ByLines(TiledOrder):
    """Batch, tiles of columns, chains, tiles of positions, lines, listed taps."""

    def prepare(self, batch: Index, loops: list[Variable]) -> None:
        lines = lines_of(self.view, self.tile.rows)
        assert lines is not None
        self.lines = lines
        self.columns = self.choice.columns(self.choice.phases[0])
        self.width = self.tile.vectors * self.lanes
        self.sums = self.builder.scratch("sums", self.dtype, self.rows * self.width)
        self.turned = TurnedOutputs.of_order(self, self.width, self.rows)
        # Each tap of the last axis reads the number anew. Where two taps of neighbouring positions
        # are the same element, LLVM would share the load, and have no registers left for the sums.
        taps = math.prod(self.view.k[1:-1])
        self.taps = list_taps(self, lines.count, taps, self.view.k[-1], self._entry)

    def _entry(self, line: Expr, tap: Expr) -> tuple[tuple[Expr, ...], tuple[Guard, ...]]:
        """A tap of the outer kernel axes, once for each of the last."""
        place, last = next(
            (segment.first + row, last) for segment in self.lines.segments
            for row, taps in enumerate(segment.exists) for last, exists in enumerate(taps) if exists
        )  # fmt: skip
        zeros = (of(0),) * len(self.view.batch)
        at = (*unflatten(line, self.view.m[:-1]), of(place))
        case = self.view.broadcast(zeros, at, self._k(of(0), tap, last))
        assert case is not None
        return (tap,) * self.view.k[-1], tuple(case.guards)

    def _k(self, plane: Expr, tap: Expr, last: int) -> Index:
        return (plane, *unflatten(tap, self.view.k[1:-1]), of(last))

    def batch_element(self, batch: Index, split: bool) -> int:
        """What is split are tiles of columns."""
        parts = self.columns.tiles(self.tile)
        count = sum(part.count for part in parts)
        for part in parts:
            self.run(part, 0, split and count > 1, partial(self._columns, batch))
        return count

    def _columns(self, batch: Index, vector: Expr, vectors: int) -> None:
        """One tile of columns, all rows."""

        def chain(begin: int | LoopValue, end: int | LoopValue, added: bool) -> None:
            for segment in self.lines.segments:
                self._each(
                    segment,
                    lambda line, row, segment=segment: self._chain(  # type: ignore[misc]
                        OutputTile(batch, row, segment.rows, self.columns, vector, vectors),
                        segment, line, (begin, end), added,
                    ),
                )  # fmt: skip

        over_chains(self, self.sums, self.rows * self.tile.vectors, chain)
        first = vector * self.lanes
        along = vectors * self.lanes
        if first.is_constant:
            along = min(along, self.columns.lanes_used - first.constant)
        self.turned.store(
            self.sums, lambda position: position * self.width, along,
            lambda i, position: self.view.out(batch, self.m(position), (first + i,)),
        )  # fmt: skip

    def _each(self, segment: Segment, body: Callable[[Expr, Expr], None]) -> None:
        """`body(line, first row)` for the tiles of a segment of all lines."""

        def tile(i: Expr) -> None:
            first = i * segment.rows + segment.first
            lines = self.lines.count
            self.copier.loop(lines, "line", lambda line: body(line, line * self.view.m[-1] + first))

        self.copier.loop(segment.count, "segment", tile)

    # -- the register tile -------------------------------------------------------------------

    def _chain(
        self, at: OutputTile, segment: Segment, line: Expr,
        planes: tuple[int | LoopValue, int | LoopValue], added: bool,
    ) -> None:  # fmt: skip
        """The products of some indices of k's first axis, stored or added to the tile's sums."""
        builder, zeros = self.builder, self.zeros[: at.rows * at.vectors]
        lane = self.lane()
        taps = self.taps.bounds(self.integers.scalar(line))
        with builder.loop(*planes, carried=zeros, hint="plane") as outer:
            plane = Variable("plane", self.view.k[0])
            self.integers.bind(plane, outer.variable, builder.block)
            self._fetch_ahead(at, line, of(plane))
            with builder.loop(*taps, self.taps.size, carried=outer.carried, hint="tap") as inner:
                sums = list(inner.carried)
                for last in range(self.view.k[-1]):
                    rows = [r for r in range(at.rows) if segment.exists[r][last]]
                    if rows:
                        # Never of extent 1: what is read must depend on it, and so stay inside
                        # this loop, which a line without taps does not enter.
                        tap = Variable(f"tap{last}", max(math.prod(self.view.k[1:-1]), 2))
                        number = self.taps.number(inner.variable, last, tap)
                        k = self._k(of(plane), number, last)
                        sums = self._added(at, lane, rows, k, sums)
                inner.yield_(*sums)
            outer.yield_(*inner.results)
        positions = [
            (at.row + r) * self.width + v * self.lanes + lane
            for r in range(at.rows) for v in range(at.vectors)
        ]  # fmt: skip
        store_sums(self, self.sums, positions, list(outer.results), added)

    def _added(
        self, at: OutputTile, lane: Expr, rows: list[int], k: Index, sums: list[LoopValue]
    ) -> list[LoopValue]:
        """The sums with the products of one tap, which these rows have."""
        right = [
            self.right.vector(at.batch, n, guards, k, lane, of(0)) for n, guards in at.places(lane)
        ]
        made = list(sums)
        for r in rows:
            case = self.view.broadcast(at.batch, self.m(at.row + r), k)
            assert case is not None
            # Its guards hold: they are what the taps are listed by.
            element = operand_value(self.evaluator, self.view, Case(case.operand, case.index, ()))
            wide = self.builder.splat(element, self.lanes)
            for v, vector in enumerate(right):
                assert vector is not None
                made[r * at.vectors + v] = self.multiply_add(wide, vector, sums[r * at.vectors + v])
        return made

    def _fetch_ahead(self, at: OutputTile, line: Expr, plane: Expr) -> None:
        """Asks for a part of the weights of the next chain while this one is computed, each tile
        for another: at batch 1 all weights come from memory, and only the first tile would wait."""
        k = (plane, *(of(0) for _ in self.view.k[1:]))
        case = self.view.vector(at.batch, self.columns.index(at.vector * self.lanes), k)
        place = self.view.place(case) if case is not None else None
        if place is None:
            return
        number, linear = place
        per_line = CACHE_LINE // self.dtype.itemsize
        of_plane = math.prod(self.view.k[1:]) * at.vectors * self.lanes
        ahead = of_plane * (cut(self.view.k)[1] if self.depth > CHAIN else self.view.k[0])
        share = -(-of_plane // per_line // (self.lines.count * self.lines.tiles))
        tile = self.m(at.row)[-1] // self.tile.rows * self.lines.count + line
        for i in range(share):
            self.evaluator.prefetch(number, linear + ahead + (tile * share + i) * per_line)
