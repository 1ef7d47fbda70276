"""Convolutions over small planes: no vector crosses an edge, and taps off the edge are left out.

On a plane of 4 x 4 a row fills half a vector, and of the nine taps of a 3 x 3 window three in ten
fall on padding. A vector that holds the same place of neighbouring images has all lanes in use, and
its taps exist or do not for all of them. For a weight gradient it holds the same tap of
neighbouring channels; positions and taps change roles. Which taps there are is listed per position
(`listed_taps.py`). The operand is copied with what runs along vectors last; sums stay in scratch
from chain to chain, so that what one chain reads fits the caches; outputs are computed in the order
of memory, once per block of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.contraction.loop_order import LoopOrder
from graphc.codegen.recipes.contraction.tap_list import list_taps, over_chains, store_sums
from graphc.codegen.recipes.contraction.transposed_epilogue import TurnedOutputs
from graphc.codegen.recipes.contraction.view import batch_variables, operand_value
from graphc.codegen.recipes.contraction.windows import index_of, windows_of
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.movement import Case
from graphc.schedule.access import Index, unflatten


class ByTaps(LoopOrder):
    """Groups of channels outside, then parts of what runs along vectors, blocks of rows, chains,
    positions, taps."""

    def outer_variables(self) -> Sequence[Variable]:
        """Without the images, where these run along vectors."""
        batch = batch_variables(self.view)
        return batch if self.choice.lane_axes else batch[1:]

    def prepare(self, batch: Index, loops: list[Variable]) -> None:
        windows = windows_of(self.view, self.choice.lane_axes != ())
        assert windows is not None
        self.windows = windows
        # What runs along vectors, a tile's vectors at a time; a single part may be less than these.
        self.width = self.tile.vectors * self.lanes
        self.parts = -(-windows.extent // self.width)
        self.along = min(windows.extent, self.width)
        assert self.parts == 1 or windows.extent % self.width == 0
        self.positions = math.prod(windows.positions)
        self.places = math.prod(windows.size)
        scratch = self.builder.scratch
        size = self.view.k[0] * self.places * self.width
        self.copy = scratch("copy", self.dtype, max(size, 1))
        tile = self.tile.rows * self.positions
        self.sums = scratch("sums", self.dtype, tile * self.width)
        self.turned = TurnedOutputs.of_order(self, self.along, self.positions)
        taps = math.prod(self.view.k[1:])
        self.taps = list_taps(self, self.positions, taps, 2, self._entry)

    def _index(self, along: Expr, position: Expr) -> tuple[Index, Index]:
        """The coordinates of the batch and of n."""
        at = tuple(of(variable) for variable in batch_variables(self.view))
        return self.windows.index(at, along, position)

    # -- what is read from where -------------------------------------------------------------

    def _entry(self, position: Expr, tap: Expr) -> tuple[tuple[Expr, ...], tuple[Guard, ...]]:
        """Where the operand's element of a tap lies in its copy, and the number of the tap."""
        view = self.view
        zeros = (of(0),) * len(view.batch)
        batch, n = self.windows.index(zeros, of(0), position)
        case = view.vector(batch, n, self._k_at(of(0), tap))
        assert case is not None
        coordinates = [case.index[axis] for axis in self.windows.places]
        place: Expr = flatten(coordinates, self.windows.size)
        return (place * self.width, tap), tuple(case.guards)

    def _k_at(self, first: Expr, tap: Expr) -> Index:
        return (first, *unflatten(tap, self.view.k[1:]))

    def _copy_operand(self, first: Expr) -> None:
        """The operand as [first of k, place, what runs along vectors], of the latter a part."""
        windows, view = self.windows, self.view
        if self.width != self.along:
            self.clear(self.copy, self.copy.size // self.lanes, lambda at: at * self.lanes)

        def plane(number: Expr) -> None:
            def read(place: Expr, along: Expr, guards: tuple[Guard, ...]) -> LoopValue:
                found = dict(enumerate(index_of(view, windows, first + along, number)))
                found |= zip(windows.places, unflatten(place, windows.size), strict=True)
                index = tuple(found[axis] for axis in range(len(found)))
                return operand_value(self.evaluator, view, Case(windows.operand, index), guards)

            def position(place: Expr, along: Expr) -> Expr:
                at: Expr = (number * self.places + place) * self.width + along
                return at

            self.copier.transposed(self.places, self.along, read, position, self.copy)

        self.copier.loop(view.k[0], "plane", plane)

    # -- blocks of rows ----------------------------------------------------------------------

    def batch_element(self, batch: Index, split: bool) -> int:
        """All results of one group of channels. What is split are the blocks of rows of all
        parts."""
        builder = self.builder
        blocks = -(-self.rows // self.tile.rows)
        count = self.parts * blocks
        if self.parts == 1:
            self._part(of(0), *self.range_of(0, blocks, split))
            return count
        size = builder.const(DType.i64, blocks)
        begin, end = self.range_of(0, count, split)
        first, last = (
            builder.const(DType.i64, x) if isinstance(x, int) else x for x in (begin, end)
        )
        behind = builder.add(last, builder.const(DType.i64, blocks - 1))
        with builder.loop(
            builder.op("div", first, size), builder.op("div", behind, size), hint="part"
        ) as loop:
            part = Variable("part", self.parts)
            self.integers.bind(part, loop.variable, builder.block)
            done = builder.mul(loop.variable, size)
            zero = builder.const(DType.i64, 0)
            self._part(
                of(part) * self.width,
                builder.op("maximum", builder.sub(first, done), zero),
                builder.minimum(builder.sub(last, done), size),
            )
        return count

    def _part(self, along: Expr, begin: int | LoopValue, end: int | LoopValue) -> None:
        """Blocks of rows begin…end of the part that starts at `along`."""
        self.first = along
        self._copy_operand(along)
        self.filled_in = self.builder.block
        whole, rest = divmod(self.rows, self.tile.rows)
        if whole:
            last = end
            if isinstance(end, LoopValue):
                last = self.builder.minimum(end, self.builder.const(DType.i64, whole))
            with self.builder.loop(begin, min(last, whole) if isinstance(last, int) else last,
                                   hint="rows") as loop:  # fmt: skip
                block = Variable("row_block", whole)
                self.integers.bind(block, loop.variable, self.builder.block)
                self._rows(of(block) * self.tile.rows, self.tile.rows)
        if not rest:
            return
        # The last block is one of its own, if it is among these.
        at = whole if isinstance(begin, int) else self.builder.maximum(
            begin, self.builder.const(DType.i64, whole)
        )  # fmt: skip
        with self.builder.loop(at, end, hint="last"):
            self._rows(of(whole * self.tile.rows), rest)

    def _rows(self, first_row: Expr, rows: int) -> None:
        """All results of a block of rows."""
        vectors = rows * self.positions * self.tile.vectors
        over_chains(self, self.sums, vectors, partial(self._chain, first_row, rows))
        self.copier.loop(rows, "r", lambda r: self._outputs(first_row, r))

    def _chain(
        self, first_row: Expr, rows: int, begin: int | LoopValue, end: int | LoopValue, added: bool
    ) -> None:
        """The products of planes begin…end for all positions, in place of the sums in scratch or
        `added` to them."""
        builder = self.builder
        with builder.loop(0, self.positions, hint="position") as loop:
            position = Variable("position", self.positions)
            self.integers.bind(position, loop.variable, builder.block)
            taps = self.taps.bounds(loop.variable)
            self._tile_of(first_row, rows, of(position), (begin, end), taps, added)

    def _tile_of(
        self,
        first_row: Expr,
        rows: int,
        position: Expr,
        planes: tuple[int | LoopValue, int | LoopValue],
        taps: tuple[LoopValue, LoopValue],
        added: bool,
    ) -> None:
        builder, vectors = self.builder, self.tile.vectors
        zeros = self.zeros[: rows * vectors]
        with builder.loop(*planes, carried=zeros, hint="plane") as outer:
            plane = Variable("plane", self.view.k[0])
            self.integers.bind(plane, outer.variable, builder.block)
            with builder.loop(*taps, 2, carried=outer.carried, hint="tap") as inner:
                inner.yield_(*self._tap(
                    first_row, rows, of(plane), inner.variable, list(inner.carried)
                ))  # fmt: skip
            outer.yield_(*inner.results)
        lane = self.copier.lane()
        positions = [
            (position + r * self.positions) * self.width + v * self.lanes + lane
            for r in range(rows) for v in range(vectors)
        ]  # fmt: skip
        store_sums(self, self.sums, positions, list(outer.results), added)

    def _tap(
        self, first_row: Expr, rows: int, plane: Expr, entry: LoopValue, sums: list[LoopValue]
    ) -> list[LoopValue]:
        """Adds the products of one listed tap."""
        view = self.view
        place = self.taps.number(entry, 0, Variable("place", self.places * self.width))
        tap = self.taps.number(entry, 1, Variable("tap", math.prod(view.k[1:])))
        lane = self.copier.lane()
        right = []
        for v in range(self.tile.vectors):
            at = plane * (self.places * self.width) + place + v * self.lanes + lane
            right.append(self.evaluator.load(self.copy, at, (), self.filled_in))
        made = list(sums)
        for r in range(rows):
            batch, _ = self._index(of(0), of(0))
            case = view.broadcast(batch, self.m(first_row + r), self._k_at(plane, tap))
            assert case is not None
            element = operand_value(self.evaluator, view, case)
            wide = self.builder.splat(element, self.lanes)
            for v, vector in enumerate(right):
                at_sum = r * len(right) + v
                made[at_sum] = self.multiply_add(wide, vector, sums[at_sum])
        return made

    # -- outputs -----------------------------------------------------------------------------

    def _outputs(self, first_row: Expr, r: Expr) -> None:
        """The body's outputs for one row, by vectors along positions; in a weight gradient along
        channels and positions, which lie behind one another."""
        windows = self.windows

        def index(along: Expr, position: Expr) -> Index:
            batch, n = self._index(self.first + along, position)
            if windows.by_column:
                n = unflatten(self.first * self.positions + position, self.view.n)
            return self.view.out(batch, self.m(first_row + r), n)

        self.turned.store(
            self.sums, lambda position: (r * self.positions + position) * self.width, self.along,
            index, joined=windows.by_column,
        )  # fmt: skip
