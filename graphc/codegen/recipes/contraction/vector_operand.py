"""The operand of a contraction that is read by vectors of columns.

In: how it is to be read. Out: a reader, in as many steps as its copies are made at different
places: memory is there ahead of all loops, a halo buffer is filled for each batch element, a panel
for each tile of columns. What needs no copy is its own reader at each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.recipes.contraction.emitter import Emitter
from graphc.codegen.recipes.contraction.halo import FilledHalo, HaloBuffer
from graphc.codegen.recipes.contraction.panel import FilledPanel, Panel
from graphc.codegen.recipes.contraction.tiles import Columns, OutputTile
from graphc.codegen.recipes.contraction.vector_read import VectorRead
from graphc.codegen.recipes.contraction.view import operand_value
from graphc.ir.dims import fixed
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.schedule.access import Index


class VectorOperand(Protocol):
    def vector(
        self, batch: Index, n: Index, guards: tuple[Guard, ...], k: Index, column: Expr, start: Expr
    ) -> LoopValue | None:
        """The elements at n and k; None where their products are skipped. In a panel they are those
        from `column` on, and index k is row `start` + k."""


class ForBatchElement(Protocol):
    def for_columns(self, at: OutputTile) -> VectorOperand:
        """The reader for the columns of a tile, here."""


class VectorMemory(Protocol):
    def for_batch_element(self) -> ForBatchElement:
        """What the columns of the batch element at hand are read from, here."""


@dataclass(frozen=True, slots=True)
class VectorInPlace:
    """Reads the operand where it lies."""

    emit: Emitter

    def for_batch_element(self) -> VectorInPlace:
        return self

    def for_columns(self, at: OutputTile) -> VectorInPlace:
        return self

    def vector(
        self, batch: Index, n: Index, guards: tuple[Guard, ...], k: Index, column: Expr, start: Expr
    ) -> LoopValue | None:
        emit = self.emit
        case = emit.view.vector(batch, n, k)
        if case is None:
            return None
        value = operand_value(emit.evaluator, emit.view, case, guards)
        return emit.builder.splat(value, emit.lanes)


@dataclass(frozen=True, slots=True)
class VectorPanel:
    """Reads columns from a panel."""

    emit: Emitter
    filled: FilledPanel

    def vector(
        self, batch: Index, n: Index, guards: tuple[Guard, ...], k: Index, column: Expr, start: Expr
    ) -> LoopValue | None:
        row = start + flatten(k, self.emit.view.k)
        return self.filled.load(row * self.filled.panel.columns + column)


@dataclass(frozen=True, slots=True)
class PanelPerTile:
    """A panel that is filled with the columns of each tile in turn, all of k."""

    emit: Emitter
    panel: Panel

    def for_batch_element(self) -> PanelPerTile:
        return self

    def for_columns(self, at: OutputTile) -> VectorPanel:
        problem, lanes = self.emit.problem, self.emit.lanes
        start, width = at.vector * lanes, at.vectors * lanes
        if start.is_constant:
            width = min(width, at.columns.lanes_used - fixed(start.constant))
        filled = self.panel.fill(
            lambda run: run(of(0)), width, problem.depth,
            lambda _, k, c: problem.view.vector(
                at.batch, at.columns.index(start + c), problem.k(k)
            ),
            lambda _: of(0),
        )  # fmt: skip
        return VectorPanel(self.emit, filled)


Loaded = dict[Expr, list[tuple[LoopValue, OpenBlock]]]
"""The vectors that were loaded, by their positions, and the blocks in which they are known."""


@dataclass(frozen=True, slots=True)
class VectorHalo:
    """Reads vectors of these columns from a halo buffer; with `shares` each once where windows
    share it."""

    emit: Emitter
    filled: FilledHalo
    columns: Columns
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


@dataclass(frozen=True, slots=True)
class HaloOfBatchElement:
    """A halo buffer as it was filled, for columns of any residue class."""

    emit: Emitter
    filled: FilledHalo
    shares: bool
    loaded: Loaded

    def for_columns(self, at: OutputTile) -> VectorHalo:
        return VectorHalo(self.emit, self.filled, at.columns, self.shares, self.loaded)


@dataclass(frozen=True, slots=True)
class HaloPerBatchElement:
    """A halo buffer that is filled for each batch element in turn."""

    emit: Emitter
    halo: HaloBuffer
    shares: bool

    def for_batch_element(self) -> HaloOfBatchElement:
        return HaloOfBatchElement(self.emit, self.halo.fill(), self.shares, {})


def vector_memory(emit: Emitter, read: VectorRead, tile_rows: int, vectors: int) -> VectorMemory:
    """Memory for the copies of a way to read, ahead of all loops, for tiles of so many rows and
    vectors. Tiles of one row have registers for what windows share."""
    if read.halo is not None:
        halo = HaloBuffer(emit.copier, emit.view, read.halo)
        halo.clear()
        return HaloPerBatchElement(emit, halo, shares=tile_rows == 1)
    if read.packed:
        width = vectors * emit.lanes
        panel = Panel(emit.copier, emit.view, "vectors", emit.problem.depth, width)
        return PanelPerTile(emit, panel)
    return VectorInPlace(emit)
