"""Strategy: convolutions over small planes; no vector crosses an edge, taps off it are left out.

On a plane of 4 x 4 a row fills half a vector, and of the nine taps of a 3 x 3 window three in ten
fall on padding. A vector that holds the same place of neighbouring images has all lanes in use, and
its taps exist or do not for all of them. For a weight gradient it holds the same tap of
neighbouring channels; positions and taps change roles. Which taps there are is listed per position
(`tap_list.py`). The operand is copied with what runs along vectors last; sums stay in scratch from
K block to K block, so that what one of them reads fits the caches; outputs are computed in the
order of memory, once per block of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.loop_cut import LoopCut
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.recipes.contraction.costs import TRANSPOSED, note
from graphc.codegen.recipes.contraction.emitter import EmissionContext, Emitter
from graphc.codegen.recipes.contraction.k_blocks import K_BLOCK
from graphc.codegen.recipes.contraction.problem import ContractionProblem
from graphc.codegen.recipes.contraction.tap_list import list_taps, over_k_blocks, store_sums
from graphc.codegen.recipes.contraction.tiles import Tile, choose_tile, vector_registers
from graphc.codegen.recipes.contraction.transposed_epilogue import transposed_epilogue
from graphc.codegen.recipes.contraction.view import operand_value
from graphc.codegen.recipes.contraction.windows import (
    Windows,
    copied_elements,
    index_of,
    windows_of,
)
from graphc.codegen.recipes.typical import at_least
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, always_le, ceil_div, fixed, is_symbolic
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.movement import Case
from graphc.schedule.access import Index, unflatten

MOST_LISTED = 1 << 16
"""Pairs of position and tap up to which listing them is considered: on larger planes few are off
the edge."""
EFFICIENCY = 0.97
"""Efficiency of loops over listed taps beside those that are written out."""
FAR = 3.0
"""Times as long as a vector of elements takes to be transposed, where all of them exceed L2."""


@dataclass(frozen=True, slots=True)
class TapListConvPlan:
    """A register tile of output channels, and of vectors along images or along the channels of a
    weight gradient, as `windows` has it."""

    problem: ContractionProblem
    windows: Windows
    tile: Tile
    cost: float
    reason: str

    @staticmethod
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[TapListConvPlan]:
        for by_column in (False, True):
            plan = _plan(problem, by_column, target)
            if plan is not None:
                yield plan

    def lower(self, context: EmissionContext) -> Kernel:
        emit = Emitter(context, self.problem, self.problem.lanes)
        nest = TapNest(emit, self)
        # Without the images, where these run along vectors.
        loops = emit.batch_loops(0 if self.windows.by_column else 1)
        return emit.over_batch(loops, nest.batch_element, self.reason)


def _plan(problem: ContractionProblem, by_column: bool, target: Target) -> TapListConvPlan | None:
    view, lanes = problem.view, problem.lanes
    extents = view.n if by_column else view.batch
    apart = view.batch if by_column else view.batch[1:]
    if not extents or is_symbolic((*view.m, *view.n, *view.k[1:], *apart)):
        return None
    # Lanes without images would cost as much as those with: of a number of images known only at run
    # time there are to be enough.
    if view.swapped or not always_le(lanes, extents[0]) or 0 in view.k:
        return None
    taps = math.prod(view.k[1:])
    if taps > K_BLOCK or math.prod(view.n[by_column:]) * taps > MOST_LISTED:
        return None
    windows = windows_of(view, by_column)
    if windows is None or not windows.products:
        return None
    rows, vectors = problem.rows, -(-problem.typical(windows.extent) // lanes)
    # Whole tiles of whole vectors, or one tile for all; of a size known only at run time any tiles.
    parts = set(range(1, vectors + 1))
    if isinstance(windows.extent, int):
        parts = {vectors} if windows.extent % lanes else _divisors(vectors)
    tile, efficiency = choose_tile(
        rows, vectors, vector_registers(target), lambda tile: tile.vectors in parts
    )
    if efficiency <= 0:
        return None
    groups = math.prod(apart)
    count = groups * vectors * rows * problem.typical(view.k[0]) * windows.products
    products = count / (EFFICIENCY * efficiency)
    elements = problem.typical(copied_elements(view, windows))
    far = elements * tile.vectors * lanes * view.dtype.itemsize > target.l2_bytes
    moved = elements * (FAR if far else 1.0) + rows * math.prod(windows.positions)
    copies = groups * vectors * moved * TRANSPOSED
    what = "channels" if by_column else "images"
    details = f"lanes along {what}, tile {tile.rows}x{tile.vectors}x{lanes}"
    reason = note(problem, "tap list conv", details, products=products, copies=copies)
    return TapListConvPlan(problem, windows, tile, products + copies, reason)


def _divisors(count: int) -> set[int]:
    return {part for part in range(1, count + 1) if count % part == 0}


@dataclass(frozen=True, slots=True)
class Part:
    """What runs along vectors from `first` on: a tile's vectors of it, copied in some block."""

    first: Expr
    filled_in: OpenBlock
    count: Number | None
    """How many there are, where that is known only at run time."""


class TapNest:
    """Groups of channels outside, then parts of what runs along vectors, blocks of rows, K blocks,
    positions, taps. Makes the scratch and lists the taps."""

    def __init__(self, emit: Emitter, plan: TapListConvPlan) -> None:
        windows = plan.windows
        self.emit = emit
        self.view = emit.view
        self.windows = windows
        self.tile = plan.tile
        self.rows = emit.problem.rows
        # What runs along vectors, a tile's vectors at a time; a single part may be less than these.
        self.width = plan.tile.vectors * emit.lanes
        self.parts = ceil_div(windows.extent, self.width)
        self.along = self.width
        if isinstance(windows.extent, int):
            self.along = min(windows.extent, self.width)
            assert self.parts == 1 or windows.extent % self.width == 0
        self.positions = math.prod(windows.positions)
        self.places = math.prod(windows.size)
        self.copy = emit.scratch("copy", at_least(self.view.k[0] * self.places * self.width, 1))
        self.sums = emit.scratch("sums", self.tile.rows * self.positions * self.width)
        self.epilogue = transposed_epilogue(emit, self.along, self.positions)
        taps = math.prod(self.view.k[1:])
        self.taps = list_taps(emit, self.positions, taps, 2, self._entry)

    def _index(self, along: Expr, position: Expr) -> tuple[Index, Index]:
        """The coordinates of the batch and of n."""
        return self.windows.index(self.emit.problem.batch, along, position)

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
        emit, windows, view = self.emit, self.windows, self.view
        if self.width != self.along:
            emit.clear(self.copy, self.copy.size // emit.lanes, lambda at: at * emit.lanes)

        def plane(number: Expr) -> None:
            def read(place: Expr, along: Expr, guards: tuple[Guard, ...]) -> LoopValue:
                there = self._existing(first + along)
                at = dict(enumerate(index_of(view, windows, there, number)))
                at |= zip(windows.places, unflatten(place, windows.size), strict=True)
                index = tuple(at[axis] for axis in range(len(at)))
                return operand_value(emit.evaluator, view, Case(windows.operand, index), guards)

            def position(place: Expr, along: Expr) -> Expr:
                at: Expr = (number * self.places + place) * self.width + along
                return at

            emit.copier.transposed(self.places, self.along, read, position, self.copy)

        emit.copier.loop(view.k[0], "plane", plane)

    def _existing(self, along: Expr) -> Expr:
        """A position along vectors, or the last there is: lanes behind it are copies of it."""
        extent, builder, addresses = self.windows.extent, self.emit.builder, self.emit.addresses
        if isinstance(extent, int):
            return along
        number = builder.minimum(addresses.scalar(along), builder.size(extent - 1))
        variable = Variable(f"existing{number.name}", extent)
        addresses.bind(variable, number, builder.block)
        return of(variable)

    # -- blocks of rows ----------------------------------------------------------------------

    def batch_element(self, split: bool) -> Extent:
        """All results of one group of channels. What is split are the blocks of rows of all
        parts."""
        emit, builder = self.emit, self.emit.builder
        blocks = LoopCut(self.rows, self.tile.rows).tiles
        count = self.parts * blocks
        if self.parts == 1:
            self._part(of(0), (builder.begin, builder.end) if split else None)
            return count
        size = emit.numbers.value(blocks)
        begin, end = emit.range_of(0, count, split)
        first, last = emit.numbers.value(begin), emit.numbers.value(end)
        behind = builder.add(last, emit.numbers.value(blocks - 1))
        with builder.loop(
            builder.op("div", first, size), builder.op("div", behind, size), hint="part"
        ) as loop:
            part = Variable("part", self.parts)
            emit.addresses.bind(part, loop.variable, builder.block)
            done = builder.mul(loop.variable, size)
            zero = emit.numbers.value(0)
            begin = emit.numbers.maximum(emit.numbers.sub(first, done), zero)
            end = emit.numbers.minimum(emit.numbers.sub(last, done), size)
            self._part(of(part) * self.width, (begin, end))
        return count

    def _part(self, along: Expr, blocks: tuple[Number, Number] | None) -> None:
        """All blocks of rows, or these, of the part that starts at `along`."""
        emit, builder = self.emit, self.emit.builder
        self._copy_operand(along)
        count = None
        if not isinstance(self.windows.extent, int):
            extent = emit.numbers.value(self.windows.extent)  # it stands ahead of what follows
            left = emit.numbers.sub(extent, emit.addresses.scalar(along))
            count = emit.numbers.minimum(left, self.width)
        part = Part(along, builder.block, count)

        def rows(block: Expr, rest: Extent | None) -> None:
            height = self.tile.rows
            self._rows(part, block * height, height if rest is None else fixed(rest))

        LoopCut(self.rows, self.tile.rows).each(emit.addresses, "rows_block", rows, blocks)

    def _rows(self, part: Part, first_row: Expr, rows: int) -> None:
        """All results of a block of rows."""
        vectors = rows * self.positions * self.tile.vectors
        k_block = partial(self._k_block, part, first_row, rows)
        over_k_blocks(self.emit, self.sums, vectors, k_block)
        self.emit.copier.loop(rows, "r", lambda r: self._outputs(part, first_row, r))

    def _k_block(
        self, part: Part, first_row: Expr, rows: int, begin: Number, end: Number, added: bool
    ) -> None:
        """The products of planes begin…end for all positions, in place of the sums in scratch or
        `added` to them."""
        emit, builder = self.emit, self.emit.builder
        lanes, vectors = emit.lanes, self.tile.vectors
        with builder.loop(0, self.positions, hint="position") as loop:
            at = Variable("position", self.positions)
            emit.addresses.bind(at, loop.variable, builder.block)
            taps = self.taps.bounds(loop.variable)
            zeros = emit.zeros(rows * vectors)
            with builder.loop(begin, end, carried=zeros, hint="plane") as outer:
                plane = Variable("plane", self.view.k[0])
                emit.addresses.bind(plane, outer.variable, builder.block)
                with builder.loop(*taps, 2, carried=outer.carried, hint="tap") as inner:
                    sums = list(inner.carried)
                    inner.yield_(*self._tap(part, first_row, of(plane), inner.variable, sums))
                outer.yield_(*inner.results)
            lane = emit.copier.lane()
            positions = [
                (of(at) + r * self.positions) * self.width + v * lanes + lane
                for r in range(rows) for v in range(vectors)
            ]  # fmt: skip
            store_sums(emit, self.sums, positions, list(outer.results), added)

    def _tap(
        self, part: Part, first_row: Expr, plane: Expr, entry: LoopValue, sums: list[LoopValue]
    ) -> list[LoopValue]:
        """Adds the products of one listed tap."""
        emit, view, lanes = self.emit, self.view, self.emit.lanes
        place = self.taps.number(entry, 0, Variable("place", self.places * self.width))
        tap = self.taps.number(entry, 1, Variable("tap", math.prod(view.k[1:])))
        lane = emit.copier.lane()
        columns = []
        for v in range(self.tile.vectors):
            at = plane * (self.places * self.width) + place + v * lanes + lane
            columns.append(emit.evaluator.load(self.copy, at, (), part.filled_in))
        totals = list(sums)
        batch, _ = self._index(of(0), of(0))
        for r in range(len(sums) // len(columns)):
            case = view.broadcast(batch, emit.problem.m(first_row + r), self._k_at(plane, tap))
            assert case is not None
            wide = emit.builder.splat(operand_value(emit.evaluator, view, case), lanes)
            for v, vector in enumerate(columns):
                number = r * len(columns) + v
                totals[number] = emit.multiply_add(wide, vector, sums[number])
        return totals

    # -- outputs -----------------------------------------------------------------------------

    def _outputs(self, part: Part, first_row: Expr, r: Expr) -> None:
        """The body's outputs for one row, by vectors along positions; in a weight gradient along
        channels and positions, which lie behind one another."""
        windows, view = self.windows, self.view

        def index(along: Expr, position: Expr) -> Index:
            batch, n = self._index(part.first + along, position)
            if windows.by_column:
                n = unflatten(part.first * self.positions + position, view.n)
            return view.out(batch, self.emit.problem.m(first_row + r), n)

        self.epilogue.store(
            self.sums, lambda position: (r * self.positions + position) * self.width, self.along,
            index, joined=windows.by_column, count=part.count,
        )  # fmt: skip
