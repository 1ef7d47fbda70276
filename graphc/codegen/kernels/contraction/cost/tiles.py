"""The register tile of a contraction, and the vectors its columns are made of.

In: extents, lanes, registers. Out: a `Tile`, by a stated cost model; `Columns`, which say where
each vector of results lies; `OutputTile`, the results of one tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.contraction.problem.view import ResidueClass
from graphc.codegen.nests.tails import Run
from graphc.codegen.target import Target
from graphc.ops.kinds.index_expr import Expr, flatten, of
from graphc.records import record, replace
from graphc.schedule.access import Index, unflatten


def vector_registers(target: Target) -> int:
    """Vector registers of a target: AVX-512 and NEON have 32, AVX2 and SSE 16."""
    return 32 if target.vector_bytes == 64 or "aarch64" in target.triple else 16


def most_columns(target: Target, reads: int) -> int:
    """Vectors of columns of a tile of one row at most, where each is computed from so many reads:
    they are often the same for several k, and stay in registers beside the sum."""
    return (vector_registers(target) - 4) // (reads + 1) if reads > 1 else MOST_COLUMNS


MOST_COLUMNS = 12
FMA_IN_FLIGHT = 8
"""Sums to have under way: an FMA takes four cycles, and two start in each."""


@record
class Tile:
    """Rows, and vectors of columns, that stay in registers."""

    rows: int
    vectors: int


def choose_tile(
    rows: int, vectors: int, registers: int, allowed: Callable[[Tile], bool] = lambda tile: True
) -> tuple[Tile, float]:
    """The most efficient tile that fits the registers: rows·vectors accumulators, a vector of each
    column block, and one broadcast. Also its efficiency: the part of the FMA peak that tails,
    latency and loads leave. `allowed` says which may be taken."""
    for efficiency, tile in _ranked(rows, vectors, registers):
        if allowed(tile):
            return tile, efficiency
    return Tile(1, 1), 0.0


@lru_cache(maxsize=1024)
def _ranked(rows: int, vectors: int, registers: int) -> list[tuple[float, Tile]]:
    """The tiles that fit the registers, most efficient first, of equal ones those of fewer vectors
    and rows."""
    ranked = []
    for v in range(1, min(vectors, MOST_COLUMNS) + 1):
        for r in range(1, min(rows, 14) + 1):
            if r * v + v + 1 > registers:
                continue
            tail = rows * vectors / (-(-rows // r) * r * -(-vectors // v) * v)
            latency = min(r * v, FMA_IN_FLIGHT) / FMA_IN_FLIGHT
            # Measured: of two tiles of 12, that with 7 loads reaches 0.97 of peak, with 8 0.91.
            loads = 1 - 0.75 * max((r + v) / (r * v) - 0.55, 0)
            ranked.append((tail * latency * loads, Tile(r, v)))
    return sorted((each for each in ranked if each[0] > 0), key=lambda each: -each[0])


Place = tuple[Index, tuple[Guard, ...]]
"""An index, and the guards under which it exists."""


@record
class Columns:
    """The n coordinates of one residue class as vectors: `lane_axes` run along vectors, slowest
    first; the others are rows of vectors. Every row ends in a masked vector where lanes
    do not divide it."""

    residues: ResidueClass
    lane_axes: tuple[int, ...]
    lanes: int
    down: int
    """Neighbouring vectors are those of rows so far apart; 0: of one row."""

    @property
    def lanes_used(self) -> int:
        return math.prod(self.residues.extents[axis] for axis in self.lane_axes)

    @property
    def blocks(self) -> int:
        """Vectors per row."""
        return -(-self.lanes_used // self.lanes)

    @property
    def row_axes(self) -> tuple[int, ...]:
        return tuple(a for a in range(len(self.residues.extents)) if a not in self.lane_axes)

    @property
    def row_count(self) -> int:
        return math.prod(self.residues.extents[axis] for axis in self.row_axes)

    @property
    def vectors(self) -> int:
        return self.blocks * self.row_count

    def lanes_of(self, block: Expr, vectors: int) -> int:
        """How many columns so many vectors of a single row have from `block` on: a tile that ends
        in the masked vector is one of its own, whose place is known."""
        lanes = vectors * self.lanes
        if not block.is_constant:
            return lanes
        return min(lanes, self.lanes_used - block.number * self.lanes)

    @property
    def is_plain(self) -> bool:
        """One row of whole vectors."""
        return self.row_count == 1 and self.lanes_used % self.lanes == 0

    def tiles(self, tile: Tile) -> list[Run]:
        """The vectors as tiles, runs of equal ones. What is left over joins the last whole tile and
        is halved with it where alone it would keep too few sums under way. A single row's masked
        vector stands in a run of one, so that no other tile needs a mask."""
        whole = self.vectors // tile.vectors
        if self.row_count == 1:
            whole = min(whole, self.lanes_used // (tile.vectors * self.lanes))
        rest = self.vectors - whole * tile.vectors
        sizes = [rest] if rest else []
        if rest and whole and rest * tile.rows < FMA_IN_FLIGHT <= tile.vectors * tile.rows:
            whole -= 1
            rest += tile.vectors
            sizes = [rest - rest // 2, rest // 2]
        parts = [Run(0, 0, whole, tile.vectors)] if whole else []
        first = whole * tile.vectors
        for number, size in enumerate(sizes, whole):
            last = parts[-1] if parts else None
            if last is not None and last.size == size and self.is_plain:
                parts[-1] = replace(last, count=last.count + 1)  # no code of its own
            else:
                parts.append(Run(number, first, 1, size))
            first += size
        return parts

    def index(self, position: Expr, row: Expr | int = 0) -> Index:
        """The n coordinate at a position along the lanes of a row of vectors."""
        extents = self.residues.extents
        at: dict[int, Expr] = {}
        for axes, flat in ((self.lane_axes, position), (self.row_axes, of(row))):
            items = unflatten(flat, tuple(extents[axis] for axis in axes))
            at.update(zip(axes, items, strict=True))
        return self.residues.index(tuple(at[axis] for axis in range(len(extents))))

    def position(self, index: Index) -> Expr:
        """Where a coordinate stands among the lanes of all vectors, of a single residue class."""
        extents = self.residues.extents
        lane, row = (
            flatten([index[axis] for axis in axes], [extents[axis] for axis in axes])
            for axes in (self.lane_axes, self.row_axes)
        )
        return row * (self.blocks * self.lanes) + lane

    def row_and_block(self, number: Expr) -> tuple[Expr, Expr]:
        """The row of vector `number`, and its place in that row."""
        if self.row_count == 1:
            return of(0), number
        if not self.down:
            return number // self.blocks, number % self.blocks
        # Tile after tile, each of vectors `down` rows apart.
        per_tile = self.row_count // self.down
        inside, block = number % self.row_count, number // self.row_count
        return inside // per_tile + inside % per_tile * self.down, block

    def place(self, number: Expr, lane: Expr) -> Place:
        """Vector `number`: its n coordinates, and the guard of those that exist."""
        row, block = self.row_and_block(number)
        position = block * self.lanes + lane
        guard = (position, 0, self.lanes_used)
        return self.index(position, row), () if position.within(*guard[1:]) else (guard,)


class TileColumns(Protocol):
    """The columns of a tile, in vectors."""

    @property
    def residues(self) -> ResidueClass: ...

    @property
    def lanes(self) -> int: ...

    @property
    def vectors(self) -> int: ...

    def place(self, number: Expr, lane: Expr) -> Place:
        """Vector `number`: its n coordinates, and the guard of those that exist."""


@record
class OutputTile:
    """The results of one register tile: `rows` of them from `row` on, and as many `vectors` of the
    columns from vector number `vector` on."""

    batch: Index
    row: Expr
    rows: int
    columns: TileColumns
    vector: Expr
    vectors: int
    clamped: tuple[Expr, ...] = ()
    """The numbers of its rows where some of them are not there: those are that of the last one."""

    def row_number(self, r: int) -> Expr:
        return self.clamped[r] if self.clamped else self.row + r

    def places(self, lane: Expr) -> list[Place]:
        """The n coordinates of each vector."""
        return [self.columns.place(self.vector + v, lane) for v in range(self.vectors)]
