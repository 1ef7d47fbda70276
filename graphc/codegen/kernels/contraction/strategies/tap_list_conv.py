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

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.contraction.cost.costs import TRANSPOSED, note
from graphc.codegen.kernels.contraction.cost.tiles import Tile, choose_tile, vector_registers
from graphc.codegen.kernels.contraction.emission.axes import BatchNest, batch_loops, batch_of
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.emission.sums import Sums
from graphc.codegen.kernels.contraction.emission.transposed_epilogue import (
    Transposed,
    TransposedEpilogue,
)
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.problem.view import operand_value
from graphc.codegen.kernels.contraction.problem.windows import (
    Windows,
    copied_elements,
    index_in,
    windows_of,
)
from graphc.codegen.kernels.contraction.strategies.tap_list import (
    TapList,
    Taps,
    in_k_blocks,
    is_cut,
    over_taps,
    planes_of,
    store_sums,
)
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Nest,
    NestPlace,
    Role,
    Room,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ir.dims import at_least, at_most, bounds_of
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.movement import Case
from graphc.records import record
from graphc.schedule.access import Index, unflatten

MOST_LISTED = 1 << 16
"""Pairs of position and tap up to which listing them is considered: on larger planes few are off
the edge."""
EFFICIENCY = 0.97
"""Efficiency of loops over listed taps beside those that are written out."""
FAR = 3.0
"""Times as long as a vector of elements takes to be transposed, where all of them exceed L2."""


@record
class TapListConvPlan:
    """A register tile of output channels, and of vectors along images or along the channels of a
    weight gradient, as `windows` has it."""

    problem: ContractionProblem
    windows: Windows
    tile: Tile
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.IMAGES | Coordinates.DEPTH)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[TapListConvPlan]:
        for by_column in (False, True):
            plan = _plan(problem, by_column, target)
            if plan is not None:
                yield plan

    def nest(self) -> Nest:
        """Groups of channels outside, then parts of what runs along vectors, blocks of rows, K
        blocks, positions, listed taps."""
        problem, tile, k = self.problem, self.tile, self.problem.view.k
        planes = Planes(self)
        row = Axis("rows", problem.rows, Role.ROWS)
        rows = Split("rows", row, tile.rows, Tail.WHOLE_AND_REST, variable="row_block")
        by_column = self.windows.by_column
        role = Role.COLUMNS if by_column else Role.BATCH
        axis = Axis("along", self.windows.extent, role)
        parts = Split("along", axis, planes.width, _tail(self.windows), variable="part")
        position = Axis("positions", planes.positions, Role.COLUMNS, number=1)
        positions = Split("positions", position, 1, Tail.EXACT, variable="position")
        one_part = parts.tiles == 1
        # Without the images, where these run along vectors.
        loops = batch_loops(problem, 0 if by_column else 1)
        batch = batch_of(problem, loops, Holds.SUMS)
        copy = PartCopy(planes, one_part, batch_of(problem, loops, Holds.VECTORS))
        room: Room = (
            *((name, 1) for name in batch), ("rows", tile.rows), ("positions", planes.positions),
            ("along", planes.width),
        )  # fmt: skip
        whole = (*batch, "rows") if one_part else (*batch, "rows", "along")
        sums = Sums("sums", room, whole, self.lanes)
        transposed = Transposed(planes.along, planes.positions)
        taps = Taps(planes.positions, math.prod(k[1:]), 2, planes.entry)
        products = ForEach(positions, (Compute(TapTile(planes, one_part)),), always=True)
        of_rows = in_k_blocks(problem, (Compute(TapClear(planes, one_part)),), (products,))
        of_part: tuple[Statement, ...] = (
            Fill(copy),
            ForEach(rows, (*of_rows, Fill(sums), Compute(TapResults(planes, one_part)))),
        )
        if not one_part:
            of_part = (ForEach(parts, of_part, fused=rows),)
        covered = (axis,) if one_part else ()
        return BatchNest(
            problem, (copy, sums, transposed, taps), of_part, self.reason, once=(Fill(taps),),
            parallel=(rows if one_part else parts,), fused=None if one_part else rows,
            covered=covered,
        ).nest(loops)  # fmt: skip

    @property
    def lanes(self) -> int:
        return self.problem.lanes


def _plan(problem: ContractionProblem, by_column: bool, target: Target) -> TapListConvPlan | None:
    view, lanes = problem.view, problem.lanes
    extents = view.n if by_column else view.batch
    apart = view.batch if by_column else view.batch[1:]
    if by_column and problem.open & Coordinates.IMAGES:
        return None
    # Lanes without images would cost as much as those with: there are to be enough at every size.
    if view.swapped or not extents or bounds_of(extents[0])[0] < lanes or 0 in view.k:
        return None
    taps = math.prod(view.k[1:])
    if taps > K_BLOCK or math.prod(view.n[by_column:]) * taps > MOST_LISTED:
        return None
    windows = windows_of(view, by_column)
    if windows is None or not windows.products:
        return None
    rows, vectors = problem.rows, -(-problem.typical(windows.extent) // lanes)
    # Whole tiles of whole vectors, or one tile for all; where the last is bounded any tiles.
    parts = set(range(1, vectors + 1))
    if _tail(windows) is Tail.EXACT:
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


def _tail(windows: Windows) -> Tail:
    """How tiles along vectors end."""
    return Tail.by(windows.extent, Tail.EXACT, Tail.BOUNDED)


def _divisors(count: int) -> set[int]:
    return {part for part in range(1, count + 1) if count % part == 0}


@record
class Planes:
    """What the leaves have in common: the operand's copy [first of k, place, what runs along
    vectors], and sums [row, position, what runs along vectors]."""

    plan: TapListConvPlan

    @property
    def width(self) -> int:
        """What runs along vectors, a tile's vectors at a time."""
        return self.plan.tile.vectors * self.plan.lanes

    @property
    def along(self) -> int:
        """A single part may be less than these."""
        return at_most(self.plan.windows.extent, self.width)

    @property
    def positions(self) -> int:
        return math.prod(self.plan.windows.positions)

    @property
    def places(self) -> int:
        return math.prod(self.plan.windows.size)

    def entry(self, position: Expr, tap: Expr) -> tuple[tuple[Expr, ...], tuple[Guard, ...]]:
        """Where the operand's element of a tap lies in its copy, and the number of the tap."""
        view, windows = self.plan.problem.view, self.plan.windows
        zeros = (of(0),) * len(view.batch)
        batch, n = windows.index(zeros, of(0), position)
        case = view.vector(batch, n, self.k(of(0), tap))
        assert case is not None
        coordinates = [case.index[axis] for axis in windows.places]
        place: Expr = flatten(coordinates, windows.size)
        return (place * self.width, tap), tuple(case.guards)

    def k(self, first: Expr, tap: Expr) -> Index:
        return (first, *unflatten(tap, self.plan.problem.view.k[1:]))

    def index(self, along: Expr, position: Expr) -> tuple[Index, Index]:
        """The coordinates of the batch and of n."""
        return self.plan.windows.index(self.plan.problem.batch, along, position)


@record
class FilledPart:
    """What runs along vectors from `first` on: a tile's vectors of it, copied in some block."""

    first: Expr
    filled_in: OpenBlock
    count: Number | None
    """How many there are, where that is known only at run time."""


@record
class PartCopy:
    """The stage of the operand's copy: of what runs along vectors a part, or all."""

    planes: Planes
    one_part: bool
    batch: tuple[str, ...]
    name: str = "copy"
    holds: Holds = Holds.VECTORS

    @property
    def room(self) -> Room:
        planes = self.planes
        along = (("along", planes.width), ("positions", planes.positions))
        batch = tuple((name, 1) for name in self.batch)
        return (*batch, *along, ("k", planes.plan.problem.view.k[0]))

    @property
    def whole(self) -> tuple[str, ...]:
        return self.batch if self.one_part else (*self.batch, "along")

    @property
    def text(self) -> str:
        planes, dtype = self.planes, self.planes.plan.problem.dtype.value
        return f"{dtype} [k][{planes.places} places][{planes.width} along]"

    def declare(self, emit: Emitter) -> Buffer:
        size = emit.view.k[0] * self.planes.places * self.planes.width
        return emit.scratch(self.name, at_least(size, 1))

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> FilledPart:
        first = of(0) if self.one_part else place["along"].first
        memory: Buffer = place.memory[self.name]
        planes, windows, view = self.planes, self.planes.plan.windows, emit.view
        if planes.width != planes.along:
            emit.clear(memory, memory.size // emit.lanes, lambda at: at * emit.lanes)

        def plane(number: Expr) -> None:
            def read(place: Expr, along: Expr, guards: tuple[Guard, ...]) -> LoopValue:
                there = self._existing(emit, first + along)
                index = index_in(view, windows, there, number, place)
                return operand_value(emit.evaluator, view, Case(windows.operand, index), guards)

            def position(place: Expr, along: Expr) -> Expr:
                at: Expr = (number * planes.places + place) * planes.width + along
                return at

            emit.copier.transposed(planes.places, planes.along, read, position, memory)

        emit.copier.loop(view.k[0], "plane", plane)
        return FilledPart(first, emit.builder.block, self._count(emit, first))

    @property
    def _is_bounded(self) -> bool:
        """Whether the last part may have fewer than others."""
        return _tail(self.planes.plan.windows) is Tail.BOUNDED

    def _count(self, emit: Emitter, first: Expr) -> Number | None:
        if not self._is_bounded:
            return None
        extent = emit.numbers.value(self.planes.plan.windows.extent)  # ahead of what follows
        left = emit.numbers.sub(extent, emit.addresses.scalar(first))
        return emit.numbers.minimum(left, self.planes.width)

    def _existing(self, emit: Emitter, along: Expr) -> Expr:
        """A position along vectors, or the last there is: lanes behind it are copies of it."""
        if not self._is_bounded:
            return along
        extent, builder, addresses = self.planes.plan.windows.extent, emit.builder, emit.addresses
        number = builder.minimum(addresses.scalar(along), builder.size(extent - 1))
        variable = Variable(f"existing{number.name}", extent)
        addresses.bind(variable, number, builder.block)
        return of(variable)


@record
class TapClear:
    """The leaf that sets the sums of a block of rows to zero."""

    planes: Planes
    one_part: bool

    @property
    def text(self) -> str:
        return "clear sums"

    @property
    def effect(self) -> Effect:
        covers = ("positions", "along") if self.one_part else ("positions",)
        return Effect(covers=covers, clears="sums", tails=OF_NUMBERS | {Tail.BOUNDED})

    def write(self, emit: Emitter, place: NestPlace) -> None:
        vectors = place["rows"].size * self.planes.positions * self.planes.plan.tile.vectors
        start = emit.first_addend() if emit.problem.has_sizes else None
        emit.clear(place.memory["sums"], vectors, lambda at: at * emit.lanes, start)


@record
class TapTile:
    """The leaf of a block of rows at one position: the products of some planes, in place of the
    sums in scratch or added to them."""

    planes: Planes
    one_part: bool

    @property
    def text(self) -> str:
        tile = self.planes.plan.tile
        return f"register tile {tile.rows}x{tile.vectors}x{self.planes.plan.lanes} of listed taps"

    @property
    def effect(self) -> Effect:
        several = is_cut(self.planes.plan.problem.view.k)
        covers = (("along",) if self.one_part else ()) + (() if several else ("k",))
        return Effect(
            covers=covers, reads=("taps", "copy"), adds="sums", starts=not several,
            tails=OF_NUMBERS | {Tail.BOUNDED, Tail.STEPPED},
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        part: FilledPart = place.filled["copy"]
        rows, at, taps = place["rows"], place["positions"].first, place.filled["taps"]
        bounds, added = planes_of(emit, place)
        tile, width, memory = self.planes.plan.tile, self.planes.width, place.memory["copy"]
        totals = over_taps(
            emit, taps, at, bounds, emit.zeros(rows.size * tile.vectors),
            lambda plane, entry, sums: self._tap(
                emit, memory, taps, part, rows.first, plane, entry, sums
            ),
        )  # fmt: skip
        lane = emit.copier.lane()
        positions = [
            (at + r * self.planes.positions) * width + v * emit.lanes + lane
            for r in range(rows.size) for v in range(tile.vectors)
        ]  # fmt: skip
        store_sums(emit, place.memory["sums"], positions, totals, added)

    def _tap(
        self, emit: Emitter, copy: Buffer, taps: TapList, part: FilledPart, first_row: Expr,
        plane: Expr, entry: LoopValue, sums: list[LoopValue],
    ) -> list[LoopValue]:  # fmt: skip
        """Adds the products of one listed tap."""
        planes, view, lanes = self.planes, emit.view, emit.lanes
        place = taps.number(entry, 0, Variable("place", planes.places * planes.width))
        tap = taps.number(entry, 1, Variable("tap", math.prod(view.k[1:])))
        lane = emit.copier.lane()
        columns = []
        for v in range(planes.plan.tile.vectors):
            at = plane * (planes.places * planes.width) + place + v * lanes + lane
            columns.append(emit.evaluator.load(copy, at, (), part.filled_in))
        totals = list(sums)
        batch, _ = planes.index(of(0), of(0))
        for r in range(len(sums) // len(columns)):
            case = view.broadcast(batch, emit.problem.m(first_row + r), planes.k(plane, tap))
            assert case is not None
            wide = emit.builder.splat(operand_value(emit.evaluator, view, case), lanes)
            for v, vector in enumerate(columns):
                number = r * len(columns) + v
                totals[number] = emit.multiply_add(wide, vector, sums[number])
        return totals


@record
class TapResults:
    """The leaf of the body's outputs of a block of rows, by vectors along positions; in a weight
    gradient along channels and positions, which lie behind one another."""

    planes: Planes
    one_part: bool

    @property
    def text(self) -> str:
        return "results of sums, transposed"

    @property
    def effect(self) -> Effect:
        covers = ("positions", "along") if self.one_part else ("positions",)
        return Effect(covers=covers, takes="sums", stores=True, tails=OF_NUMBERS | {Tail.BOUNDED})

    def write(self, emit: Emitter, place: NestPlace) -> None:
        rows, part = place["rows"], place.filled["copy"]
        emit.copier.loop(rows.size, "r", lambda r: self._row(emit, place, part, rows.first, r))

    def _row(
        self, emit: Emitter, place: NestPlace, part: FilledPart, first_row: Expr, r: Expr
    ) -> None:
        planes, windows, view = self.planes, self.planes.plan.windows, emit.view
        epilogue: TransposedEpilogue = place.memory["transposed"]

        def index(along: Expr, position: Expr) -> Index:
            batch, n = planes.index(part.first + along, position)
            if windows.by_column:
                n = unflatten(part.first * planes.positions + position, view.n)
            return view.out(batch, emit.problem.m(first_row + r), n)

        epilogue.store(
            place.memory["sums"],
            lambda position: (r * planes.positions + position) * planes.width, planes.along,
            index, joined=windows.by_column, count=part.count,
        )  # fmt: skip
