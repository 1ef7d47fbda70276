"""The operand of a contraction that is read by vectors of columns.

In: how it is to be read. Out: a reader, in as many steps as its copies are made at different
places: memory is there ahead of all loops, a halo buffer is filled for each batch element, a panel
for each tile of columns. What needs no copy is its own reader at each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.contraction.cost.halo_plan import HaloPlan
from graphc.codegen.kernels.contraction.cost.tiles import Columns, Tile, TileColumns
from graphc.codegen.kernels.contraction.cost.vector_read import VectorRead
from graphc.codegen.kernels.contraction.emission.axes import batch_of
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.halo import (
    FilledHalo,
    HaloBuffer,
    group_end,
    group_members,
)
from graphc.codegen.kernels.contraction.operands.panel import FilledPanel, Panel
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.problem.view import group_variable, operand_value
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.nests.nest import Holds, NestPlace, Room
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.records import record
from graphc.schedule.access import Index


class VectorOperand(Protocol):
    def vector(
        self, batch: Index, n: Index, guards: tuple[Guard, ...], k: Index, column: Expr, start: Expr
    ) -> LoopValue | None:
        """The elements at n and k; None where their products are skipped. In a panel they are those
        from `column` on, and index k is row `start` + k."""


@record
class VectorInPlace:
    """Reads the operand where it lies."""

    emit: Emitter

    def vector(
        self, batch: Index, n: Index, guards: tuple[Guard, ...], k: Index, column: Expr, start: Expr
    ) -> LoopValue | None:
        emit = self.emit
        case = emit.view.vector(batch, n, k)
        if case is None:
            return None
        value = operand_value(emit.evaluator, emit.view, case, guards)
        return emit.builder.splat(value, emit.lanes)


@record
class VectorPanel:
    """Reads columns from a panel."""

    emit: Emitter
    filled: FilledPanel

    def vector(
        self, batch: Index, n: Index, guards: tuple[Guard, ...], k: Index, column: Expr, start: Expr
    ) -> LoopValue | None:
        row = start + flatten(k, self.emit.view.k)
        return self.filled.load(row * self.filled.panel.columns + column)


@record
class PanelPerTile:
    """The stage that holds the columns of one tile, all of k."""

    problem: ContractionProblem
    columns: tuple[Columns, ...]
    width: int
    """Columns of a tile at most."""
    batch: tuple[str, ...]
    name: str = "vectors"
    holds: Holds = Holds.VECTORS

    @property
    def room(self) -> Room:
        names = column_names(self.columns)
        columns = ((name, self.width // columns.lanes) for name, columns in names)
        return (*((name, 1) for name in self.batch), *columns, ("k", self.problem.view.k[0]))

    @property
    def whole(self) -> tuple[str, ...]:
        return (*self.batch, *(name for name, _ in column_names(self.columns)))

    @property
    def text(self) -> str:
        return f"{self.problem.dtype.value} [k][{self.width} columns]"

    def declare(self, emit: Emitter) -> Panel:
        return Panel(emit.copier, emit.view, self.name, self.problem.depth, self.width)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> FilledPanel:
        panel: Panel = place.memory[self.name]
        problem = self.problem
        columns, span = next(
            (columns, place[name])
            for name, columns in column_names(self.columns) if name in place.spans
        )  # fmt: skip
        start, width = span.first * emit.lanes, columns.lanes_of(span.first, span.size)
        return panel.fill(
            lambda run: run(of(0)), width, problem.depth,
            lambda _, k, c: problem.view.vector(
                problem.batch, columns.index(start + c), problem.k(k)
            ),
            lambda _: of(0),
        )  # fmt: skip


def column_names(columns: tuple[Columns, ...]) -> list[tuple[str, Columns]]:
    """The axes of columns by name, one for each residue class of the results."""
    if len(columns) == 1:
        return [("columns", columns[0])]
    return [(f"columns{number}", each) for number, each in enumerate(columns)]


Loaded = dict[Expr, list[tuple[LoopValue, OpenBlock]]]
"""The vectors that were loaded, by their positions, and the blocks in which they are known."""


@record
class VectorHalo:
    """Reads vectors of these columns from a halo buffer; with `shares` each once where windows
    share it."""

    emit: Emitter
    filled: FilledHalo
    columns: TileColumns
    shares: bool
    loaded: Loaded

    def vector(
        self, batch: Index, n: Index, guards: tuple[Guard, ...], k: Index, column: Expr, start: Expr
    ) -> LoopValue | None:
        emit = self.emit
        case = emit.view.vector(batch, n, k)
        if case is None or (guards and self._is_skipped(batch, k)):
            return None
        at = self.filled.halo.position(case.index)
        for known, block in self.loaded.get(at, ()) if self.shares else ():
            if emit.evaluator.usable(block):
                return known
        vector = emit.builder.splat(self.filled.load(case), emit.lanes)
        self.loaded.setdefault(at, []).append((vector, emit.builder.block))
        return vector

    def _is_skipped(self, batch: Index, k: Index) -> bool:
        """Whether no column has a product at k. Where lanes go on behind the last column, one of
        these may seem to have one; what it would read need not be in the buffer."""
        residues = self.columns.residues
        any_column = (of(Variable(f"any_n{a}", dim)) for a, dim in enumerate(residues.extents))
        return self.emit.view.vector(batch, residues.index(tuple(any_column)), k) is None


@record
class HaloStage:
    """The stage of a rectangle that windows sweep over, of one element of the batch. `shares`: as
    in `VectorHalo`."""

    plan: HaloPlan
    room: Room
    shares: bool
    whole: tuple[str, ...]
    name: str = "halo"
    holds: Holds = Holds.VECTORS

    @property
    def text(self) -> str:
        shape = "".join(f"[{axis.extent}]" for axis in self.plan.axes)
        return f"halo {shape}"

    def declare(self, emit: Emitter) -> HaloBuffer:
        return HaloBuffer(emit.copier, emit.view, self.plan)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        place.memory[self.name].clear()

    def fill(self, emit: Emitter, place: NestPlace) -> tuple[FilledHalo, Loaded]:
        return place.memory[self.name].fill(), {}


@record
class FilledGroup:
    """The halo buffers of a group of k as they were filled; where there are several groups, the
    indices of k's first axis that it has, and, where that is asked, whether it is the first."""

    halos: tuple[FilledHalo, ...]
    loaded: Loaded
    bounds: tuple[Number, Number] | None
    is_first: LoopValue | None = None


@record
class GroupHalos:
    """The stage of rectangles that windows sweep over, of `size` indices of k's first axis at a
    time, those of the tile that the loop `split` is at; None: of all.
    `columns`: the split whose tiles they have as many columns as positions of; None: all.
    `asks_first`: whether the first group is told from others."""

    problem: ContractionProblem
    plans: tuple[HaloPlan, ...]
    room: Room
    batch: tuple[str, ...]
    split: str | None
    size: int
    columns: str | None = None
    asks_first: bool = False
    name: str = "halo"

    @property
    def holds(self) -> Holds:
        return Holds.VECTORS if len(self.plans) == 1 else Holds.OPERANDS

    @property
    def whole(self) -> tuple[str, ...]:
        inner = tuple(each for each in (self.columns, self.split) if each is not None)
        return (*self.batch, *inner)

    @property
    def text(self) -> str:
        shapes = ("".join(f"[{axis.extent}]" for axis in plan.axes) for plan in self.plans)
        return f"halo {' '.join(shapes)}"

    def declare(self, emit: Emitter) -> tuple[HaloBuffer, ...]:
        return tuple(HaloBuffer(emit.copier, emit.view, plan) for plan in self.plans)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        for halo in place.memory[self.name]:
            halo.clear()

    def fill(self, emit: Emitter, place: NestPlace) -> FilledGroup:
        halos: tuple[HaloBuffer, ...] = place.memory[self.name]
        columns = None if self.columns is None else place[self.columns].size
        if self.split is None:
            return FilledGroup(tuple(halo.fill(columns) for halo in halos), {}, None)
        number = emit.addresses.scalar(place[self.split].number)
        members = group_members(emit, group_variable(emit.view, self.size), number, self.size)
        filled = tuple(halo.fill(columns, members) for halo in halos)
        first = emit.numbers.mul(number, self.size)
        is_first = emit.numbers.compare("eq", number, 0) if self.asks_first else None
        return FilledGroup(filled, {}, (first, group_end(emit, first, self.size)), is_first)


VectorStage = PanelPerTile | HaloStage


def vector_stage(
    problem: ContractionProblem, read: VectorRead, columns: tuple[Columns, ...], tile: Tile,
    loops: Sequence[Variable],
) -> VectorStage | None:  # fmt: skip
    """The stage of a way to read; None: in place. Tiles of one row have registers for what windows
    share. `loops`: over the batch."""
    batch = batch_of(problem, loops, Holds.VECTORS)
    if read.halo is not None:
        vectors = ((name, each.vectors) for name, each in column_names(columns))
        room = (*((name, 1) for name in batch), *vectors, ("k", problem.view.k[0]))
        return HaloStage(read.halo, room, tile.rows == 1, batch)
    if read.packed:
        return PanelPerTile(problem, columns, tile.vectors * columns[0].lanes, batch)
    return None


def vectors_of(
    emit: Emitter, stage: VectorStage | None, columns: TileColumns, at: NestPlace
) -> VectorOperand:
    """What reads these columns at a place."""
    if stage is None:
        return VectorInPlace(emit)
    filled = at.filled[stage.name]
    if isinstance(stage, PanelPerTile):
        return VectorPanel(emit, filled)
    halo, loaded = filled
    return VectorHalo(emit, halo, columns, stage.shares, loaded)
