"""The operand of a contraction whose elements fill all lanes: one element for each row of a tile.

In: how it is to be read. Out: a reader. It is read where it lies (`BroadcastInPlace`), or, where
it is transposed, from a copy (`PackedBroadcast`) [batch axes it has, runs of k, groups of tiles of
rows, k, row], which `BroadcastPacker` fills.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from graphc.codegen.kernels.contraction.cost.broadcast_packing import BroadcastPacking
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.panel import FilledPanel, Panel, Tiles
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.problem.view import operand_value
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import Axis, Holds, NestPlace, Role, Room, Split
from graphc.codegen.nests.tails import Run, Tail
from graphc.ir.dims import Extent
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.records import record
from graphc.schedule.access import Index


@record
class KRun:
    """A run of k in the copy: row `first` + k holds index k of the first group of rows; the run has
    `count` indices for each group."""

    first: Expr
    count: int


class BroadcastOperand(Protocol):
    def element(
        self, batch: Index, m: Index, k: Index, tile: Expr, row: int, run: KRun | None
    ) -> LoopValue:
        """The element at a row and k, in all lanes; in the copy it is that of row `row` of `tile`,
        and k lies in `run` (None: all of k)."""


@record
class BroadcastInPlace:
    """Reads the operand where it lies."""

    emit: Emitter

    def element(
        self, batch: Index, m: Index, k: Index, tile: Expr, row: int, run: KRun | None
    ) -> LoopValue:
        return self.at(batch, m, k)

    def at(self, batch: Index, m: Index, k: Index) -> LoopValue:
        emit = self.emit
        case = emit.view.broadcast(batch, m, k)
        assert case is not None
        value = operand_value(emit.evaluator, emit.view, case)
        return emit.builder.splat(value, emit.lanes)


class BroadcastPacker:
    """Fills a panel with the operand. `batch`: the coordinates of the batch that the copy has, and
    their extents. `overlaps`: the last group of rows is whole, and begins in the one before."""

    def __init__(
        self, emit: Emitter, packing: BroadcastPacking, panel: Panel,
        batch: tuple[Index, tuple[Extent, ...]] = ((), ()), overlaps: bool = False,
    ) -> None:  # fmt: skip
        self.emit = emit
        self.packing = packing
        self.panel = panel
        self.overlaps = overlaps
        problem = emit.problem
        self.groups = packing.groups(problem.rows)
        self.batch_start: Expr = flatten(*batch) * (self.groups * problem.depth)
        """The row of the copy where a batch element starts."""

    def copy(
        self, groups: Tiles, rows: int, place: Callable[[Expr], Expr], begin: Expr, count: int,
        first: Callable[[Expr], Expr] | None = None,
    ) -> FilledPanel:  # fmt: skip
        """The first `rows` rows of some groups, `count` elements of k from `begin` on, the first of
        these as row place(group) of the copy. A group begins at row first(group) of the operand."""
        problem, packing, width = self.emit.problem, self.packing, self.panel.columns
        first = first or (lambda group: group * packing.group_rows)
        return self.panel.fill(
            groups, rows, count,
            lambda group, k, r: problem.view.broadcast(
                problem.batch, problem.m(first(group) + r),
                packing.k(begin + k, problem.view.k),
            ),
            lambda group: place(group) * width,
            whole=False,
        )  # fmt: skip

    def copy_run(self, begin: Expr, count: int) -> None:
        """All rows, a run of k, which lies behind those before it."""
        rows, size = self.emit.problem.rows, self.packing.group_rows

        def place(group: Expr) -> Expr:
            return self.batch_start + begin * self.groups + group * count

        for run in Split("groups", Axis("rows", rows, Role.ROWS), size, Tail.NUMBERED).numbered:

            def groups(one: Callable[[Expr], None], run: Run = run) -> None:
                self.emit.copier.loop(run.count, "pt", lambda group: one(group + run.number))

            if run.size < size and self.overlaps:
                self.copy(groups, size, place, begin, count, lambda group: of(rows - size))
            else:
                self.copy(groups, run.size, place, begin, count)

    def reader(self, filled: FilledPanel) -> PackedBroadcast:
        return PackedBroadcast(self.emit, self.packing, self.batch_start, filled)


@record
class PackedBroadcast:
    """Reads the copy of the operand."""

    emit: Emitter
    packing: BroadcastPacking
    batch_start: Expr
    filled: FilledPanel

    def element(
        self, batch: Index, m: Index, k: Index, tile: Expr, row: int, run: KRun | None
    ) -> LoopValue:
        packing, problem = self.packing, self.emit.problem
        run = run or KRun(of(0), problem.depth)
        at = self.batch_start + run.first + tile // packing.group * run.count
        at = (at + packing.position(k, problem.view.k)) * self.filled.panel.columns
        element = self.filled.load(at + tile % packing.group * packing.tile_rows + row)
        return self.emit.builder.splat(element, self.emit.lanes)


@record
class PackedAhead:
    """The stage of the operand copied ahead of the loops over the batch: a convolution's weight is
    copied once, not once per image. `used`: the variables of the batch it depends on. `by_k_block`:
    K block after K block; else all of k at once. `overlaps`: as in `BroadcastPacker`."""

    problem: ContractionProblem
    packing: BroadcastPacking
    used: tuple[Variable, ...]
    by_k_block: bool = False
    overlaps: bool = False
    name: str = "broadcast"
    whole: tuple[str, ...] = ()
    holds: Holds = Holds.BROADCAST

    @property
    def room(self) -> Room:
        rows = self.packing.groups(self.problem.rows) * self.packing.group_rows
        used = ((variable.name, variable.extent) for variable in self.used)
        return (*used, ("rows", rows), ("k", self.problem.view.k[0]))

    @property
    def text(self) -> str:
        return f"{self.problem.dtype.value} [groups of rows][k][{self.packing.width} rows]"

    def declare(self, emit: Emitter) -> BroadcastPacker:
        problem, extents = self.problem, tuple(variable.extent for variable in self.used)
        depth = self.packing.groups(problem.rows) * math.prod(extents) * problem.depth
        panel = Panel(emit.copier, emit.view, self.name, depth, self.packing.width)
        batch = tuple(of(variable) for variable in self.used), extents
        return BroadcastPacker(emit, self.packing, panel, batch, self.overlaps)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> PackedBroadcast:
        packer: BroadcastPacker = place.memory[self.name]
        if emit.view.products_each > 1:
            # What is read whole, for its least magnitude, has no rows that are not there.
            memory, zero = packer.panel.memory, emit.builder.const(emit.view.element_dtype, 0)
            emit.clear(memory, memory.size // emit.lanes, lambda at: at * emit.lanes, zero)

        def copy() -> None:
            if self.by_k_block:
                k_block_runs(emit, packer.copy_run)
            else:
                packer.copy_run(of(0), self.problem.depth)

        emit.nested(self.used, "p", copy)
        # Readers stand inside no loop of the copying.
        return packer.reader(packer.panel.filled_here())


def packed_ahead(
    problem: ContractionProblem, packing: BroadcastPacking | None, loops: list[Variable],
    by_k_block: bool = False, overlaps: bool = False,
) -> tuple[PackedAhead, ...]:  # fmt: skip
    """The stage, where there is a packing; `loops`: the variables that loops over the batch have.
    Without it the operand is read in place."""
    if packing is None:
        return ()
    probe = problem.view.broadcast(problem.batch, problem.m(of(0)), problem.k(of(0)))
    used = [v for v in loops if probe is None or any(v in i.variables() for i in probe.index)]
    return (PackedAhead(problem, packing, tuple(used), by_k_block, overlaps),)


def broadcast_of(emit: Emitter, place: NestPlace) -> BroadcastOperand:
    """What reads the operand at a place: its stage, or else it is read where it lies."""
    reader: BroadcastOperand = place.filled.get("broadcast") or BroadcastInPlace(emit)
    return reader


def k_block_runs(emit: Emitter, body: Callable[[Expr, int], None]) -> None:
    """K block after K block: what is in use then lies together, spread over all sets of L2."""
    emit.copier.tiles(
        emit.problem.depth, K_BLOCK, "pc", lambda block, count: body(block * K_BLOCK, count)
    )
