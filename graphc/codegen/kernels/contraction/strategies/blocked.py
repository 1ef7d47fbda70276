"""Strategy: matrix products by blocks of rows, blocks of columns, K blocks, columns, rows.

One K block of a block of rows stays in L2 while the columns of a block pass, each tile of them, for
that K block, small enough for L1 (the loops of Goto and van de Geijn, "Anatomy of High-Performance
Matrix Multiplication", 2008). Sums go on in scratch from K block to K block. The broadcast operand
is packed per block of rows: per K block of it where all columns are one block. Columns are packed
per block of them and K block, or where there are several blocks of rows once, ahead of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from graphc.codegen.elements.leaf_loops import each, fold
from graphc.codegen.kernels.contraction.cost.broadcast_packing import BroadcastPacking
from graphc.codegen.kernels.contraction.cost.cache_blocks import CacheBlocks, cache_blocks
from graphc.codegen.kernels.contraction.cost.costs import note
from graphc.codegen.kernels.contraction.cost.tiles import Columns, OutputTile, Tile
from graphc.codegen.kernels.contraction.cost.tilings import tilings
from graphc.codegen.kernels.contraction.cost.vector_read import column_read
from graphc.codegen.kernels.contraction.emission.axes import (
    BatchNest,
    batch_loops,
    batch_of,
    column_split,
    sum_axis,
)
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.emission.sums import Sums
from graphc.codegen.kernels.contraction.operands.broadcast_operand import (
    BroadcastOperand,
    BroadcastPacker,
    KRun,
    PackedAhead,
    broadcast_of,
    k_block_runs,
    packed_ahead,
)
from graphc.codegen.kernels.contraction.operands.panel import FilledPanel, Panel
from graphc.codegen.kernels.contraction.operands.vector_operand import (
    VectorInPlace,
    VectorOperand,
    VectorPanel,
)
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK, Accumulate, nothing_added
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.strategies.register_tile import RegisterTile, store_results
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Clipped,
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Nest,
    NestPlace,
    Role,
    Room,
    Span,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import record, replace


@record
class BlockedPlan:
    """A register tile, blocks for the caches, and which operands are packed."""

    problem: ContractionProblem
    lanes: int
    columns: Columns
    tile: Tile
    packing: BroadcastPacking | None
    packs_columns: bool
    blocks: CacheBlocks
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.BATCH)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[BlockedPlan]:
        """Products with columns packed, or too deep to stay in L1."""
        if not len(problem.view.k) == 1 == len(problem.view.n):
            return
        for tiling in tilings(problem, target, limit):
            read, blocks = column_read(tiling, target), cache_blocks(tiling, target)
            deep = problem.depth > K_BLOCK and problem.rows > tiling.tile.rows
            if read is None or not (read.packed or deep or blocks.rows):
                continue
            rows = f"{blocks.rows} tiles of rows" if blocks.rows else "all rows"
            yield BlockedPlan(
                problem, tiling.lanes, tiling.columns[0], tiling.tile, tiling.packing, read.packed,
                blocks, tiling.bound + read.cost + tiling.scattered,
                note(
                    problem, "blocked", f"{tiling.description}, {read.description}, blocks of "
                    f"{rows} and {blocks.columns} of columns", products=tiling.products,
                    copies=read.cost + tiling.packing_cost, scattered=tiling.scattered,
                ),
            )  # fmt: skip

    def nest(self) -> Nest:
        """Blocks of rows, blocks of columns, K blocks, columns, rows."""
        problem, depth, loops = self.problem, self.problem.depth, batch_loops(self.problem)
        parts = BlockedParts(self, tuple(loops))
        ahead: tuple[PackedAhead, ...] = ()
        if not parts.packs_rows:
            ahead = packed_ahead(problem, self.packing, loops, by_k_block=True)
        k = Split("k", sum_axis(problem), K_BLOCK, Tail.PEELED, variable="k_block")
        sums = parts.sums
        broadcast = (PackedRows(parts),) if parts.packs_rows else ()
        vectors = (PackedColumns(parts),) if self.packs_columns else ()
        ahead_of_all = bool(self.blocks.rows)
        tile = Compute(BlockedTile(parts, bool(ahead or broadcast), bool(vectors)))
        columns = ForEach(parts.columns, (parts.rows_loop(tile),), within=parts.runs)
        pack = tuple(map(Fill, vectors)) if not ahead_of_all else ()
        each_run = ForEach(parts.runs, (*pack, columns), within=parts.column_blocks)
        of_k = tuple(map(Fill, broadcast)) if parts.one_block else ()
        k_blocks: tuple[Statement, ...] = (ForEach(k, (*of_k, each_run)),)
        if depth > 2 * K_BLOCK:
            # Where each K block but the last is the first, it needs no zeros to add to.
            clear = parts.rows_loop(Compute(BlockedClear(parts)))
            k_blocks = (ForEach(parts.columns, (clear,), within=parts.column_blocks), *k_blocks)
        against: tuple[Statement, ...] = (ForEach(parts.column_blocks, k_blocks),)
        if not parts.one_block:
            against = (*map(Fill, broadcast), *against)
        if ahead_of_all:
            clips = (parts.rows, parts.groups_of_rows) if broadcast else (parts.rows,)
            against = (ForEach(parts.row_blocks, against, clips=clips),)
        if ahead_of_all and vectors:
            all_columns = replace(parts.column_blocks, name="all_columns", size=parts.count)
            packed = ForEach(parts.runs, (Compute(PackColumns(vectors[0])),), within=all_columns)
            against = (ForEach(all_columns, (packed,)), Fill(vectors[0]), *against)
        return BatchNest(
            problem, (*ahead, *(() if sums is None else (sums,)), *vectors, *broadcast), against,
            self.reason, once=tuple(map(Fill, ahead)),
            parallel=(parts.columns,) if parts.count > 1 else (),
        ).nest(loops)  # fmt: skip


@record
class BlockedParts:
    """The splits, and where copies and sums of a tile lie."""

    plan: BlockedPlan
    loops: tuple[Variable, ...]

    @property
    def columns(self) -> Split:
        return column_split(self.plan.problem, self.plan.columns, self.plan.tile)

    def batch(self, holds: Holds) -> tuple[str, ...]:
        return batch_of(self.plan.problem, self.loops, holds)

    @property
    def count(self) -> int:
        """Tiles of columns."""
        return self.columns.count

    @property
    def column_blocks(self) -> Split:
        size = min(self.plan.blocks.columns, self.count)
        return Split("column_blocks", self.columns, size, Tail.CLIPPED, variable="first")

    @property
    def one_block(self) -> bool:
        """Whether all columns are one block."""
        return self.column_blocks.size == self.count

    @property
    def runs(self) -> Split:
        return Split("column_runs", self.columns, 1, Tail.BY_RUN)

    @property
    def rows(self) -> Split:
        rows = Axis("rows", self.plan.problem.rows, Role.ROWS)
        return Split("rows", rows, self.plan.tile.rows, Tail.NUMBERED, variable="tile")

    @property
    def groups_of_rows(self) -> Split:
        """Rows that are side by side in the copy of the broadcast operand."""
        assert self.plan.packing is not None
        size = self.plan.packing.group_rows
        return Split("groups", self.rows.axis, size, Tail.NUMBERED, variable="group")

    @property
    def row_blocks(self) -> Split:
        rows = self.plan.blocks.rows
        return Split("row_blocks", self.rows, rows, Tail.CLIPPED, variable="row_block")

    @property
    def row_tiles(self) -> int:
        """Tiles of rows that meet columns together."""
        return self.plan.blocks.rows or self.rows.count

    def rows_loop(self, leaf: Compute) -> ForEach:
        return ForEach(self.rows, (leaf,), self.row_blocks if self.plan.blocks.rows else None)

    @property
    def packs_rows(self) -> bool:
        """Whether the broadcast operand is packed for each block of rows."""
        return self.plan.packing is not None and self.plan.blocks.packs_each

    @property
    def groups(self) -> int:
        """Groups of tiles of rows in a copy of the broadcast operand."""
        packing = self.plan.packing
        if packing is None:
            return 1
        if self.packs_rows:
            return self.row_tiles // packing.group
        return packing.groups(self.plan.problem.rows)

    @property
    def width(self) -> int:
        return self.plan.tile.vectors * self.plan.lanes

    @property
    def tile_sums(self) -> int:
        """Sums of a tile of columns."""
        return self.row_tiles * self.plan.tile.rows * self.width

    @property
    def sums(self) -> Sums | None:
        """Those of a block of rows and one of columns, from K block to K block."""
        if self.plan.problem.depth <= K_BLOCK:
            return None
        batch, columns = self.batch(Holds.SUMS), self.column_blocks
        room = (
            *((name, 1) for name in batch), ("rows", self.row_tiles * self.plan.tile.rows),
            ("columns", columns.positions),
        )  # fmt: skip
        blocks = (columns.name, "row_blocks") if self.plan.blocks.rows else (columns.name,)
        return Sums("sums", room, (*batch, *blocks))

    def sum_at(self, rows: Span, columns: Span) -> Expr:
        """Where the sums of a tile start."""
        assert rows.inside is not None and columns.inside is not None
        return columns.inside * self.tile_sums + rows.inside * (self.plan.tile.rows * self.width)


@record
class PackedRows:
    """The stage of the broadcast operand of a block of rows: of one K block where all columns are
    one block, else of all of k, K block after K block."""

    parts: BlockedParts
    name: str = "broadcast"
    holds: Holds = Holds.BROADCAST

    @property
    def room(self) -> Room:
        packing, depth = self.parts.plan.packing, self.parts.plan.problem.depth
        assert packing is not None
        rows = self.parts.groups * packing.group_rows
        at_once = min(K_BLOCK, depth) if self.parts.one_block else depth
        return (*((name, 1) for name in self._batch), ("rows", rows), ("k", at_once))

    @property
    def _batch(self) -> tuple[str, ...]:
        return self.parts.batch(self.holds)

    @property
    def whole(self) -> tuple[str, ...]:
        return (*self._batch, "row_blocks", *(("k",) if self.parts.one_block else ()))

    @property
    def text(self) -> str:
        plan = self.parts.plan
        assert plan.packing is not None
        dtype, width = plan.problem.dtype.value, plan.packing.width
        return f"{dtype} [{self.parts.groups} groups][k][{width} rows]"

    def declare(self, emit: Emitter) -> BroadcastPacker:
        parts, packing = self.parts, self.parts.plan.packing
        assert packing is not None
        depth = min(K_BLOCK, emit.problem.depth) if parts.one_block else emit.problem.depth
        size = depth * parts.groups
        panel = Panel(emit.copier, emit.view, self.name, size, packing.width)
        return BroadcastPacker(emit, packing, panel)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> BroadcastOperand:
        packer: BroadcastPacker = place.memory[self.name]
        if self.parts.one_block:
            filled, k = packer.panel.filled_here(), place["k"]
            self._pack(emit, packer, place, of(0), k.first, k.size)
            return packer.reader(filled)

        def pack(begin: Expr, count: int) -> None:
            self._pack(emit, packer, place, begin * self.parts.groups, begin, count)

        k_block_runs(emit, pack)
        return packer.reader(packer.panel.filled_here())

    def _pack(
        self, emit: Emitter, packer: BroadcastPacker, place: NestPlace, at: Expr, begin: Expr,
        count: int,
    ) -> None:  # fmt: skip
        """`count` elements of k from `begin` on, behind row `at` of the copy."""
        split = self.parts.groups_of_rows
        for part in place["row_blocks"].clipped["groups"]:
            run = split.numbered[part.run]
            extent = run.number + run.count

            def groups(
                body: Callable[[Expr], None], part: Clipped = part, extent: int = extent,
                rows: int = run.size,
            ) -> None:  # fmt: skip
                variable = Variable(f"group{extent}_{rows}", extent)
                each(emit.addresses, variable, (part.begin, part.end), "group", body)

            def there(group: Expr, part: Clipped = part, extent: int = extent) -> Expr:
                return at + (group - part.first if extent > 1 else group) * count

            packer.copy(groups, run.size, there, begin, count)


@record
class PackedColumns:
    """The stage of the columns as [tile][k][column]: of one block of them and one K block, or,
    where there are several blocks of rows, of all, ahead of these."""

    parts: BlockedParts
    name: str = "vectors"
    holds: Holds = Holds.VECTORS

    @property
    def room(self) -> Room:
        parts, depth = self.parts, self.parts.plan.problem.depth
        tiles = parts.count if self._ahead else parts.column_blocks.size
        at_once = depth if self._ahead else min(K_BLOCK, depth)
        columns = ("columns", tiles * parts.plan.tile.vectors)
        return (*((name, 1) for name in self._batch), columns, ("k", at_once))

    @property
    def _batch(self) -> tuple[str, ...]:
        return self.parts.batch(self.holds)

    @property
    def whole(self) -> tuple[str, ...]:
        return (*self._batch, *(() if self._ahead else ("column_blocks", "column_runs", "k")))

    @property
    def text(self) -> str:
        return f"{self.parts.plan.problem.dtype.value} [tile][k][{self.parts.width} columns]"

    def declare(self, emit: Emitter) -> Panel:
        parts, depth = self.parts, emit.problem.depth
        k_block = min(K_BLOCK, depth)
        rows = depth * parts.count if self._ahead else k_block * parts.column_blocks.size
        return Panel(emit.copier, emit.view, self.name, rows, parts.width)

    @property
    def _ahead(self) -> bool:
        return bool(self.parts.plan.blocks.rows)

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> FilledPanel:
        panel: Panel = place.memory[self.name]
        if self._ahead:  # `PackColumns` has
            return panel.filled_here()
        k = place["k"]
        return self.pack(emit, place, k.first, k.size)

    def pack(self, emit: Emitter, place: NestPlace, begin: Expr, depth: int) -> FilledPanel:
        """A block of columns, for k from `begin` on."""
        panel: Panel = place.memory[self.name]
        problem, lanes, columns = emit.problem, emit.lanes, self.parts.plan.columns
        ((part,),) = place["column_runs"].clipped.values()
        run = self.parts.columns.runs[part.run]
        width = run.size * lanes
        if run.count == 1:
            width = columns.lanes_of(of(run.first), run.size)

        def tiles(body: Callable[[Expr], None]) -> None:
            tile = Variable(f"columns{run.number}", run.count)
            each(emit.addresses, tile, (part.begin, part.end), "columns", body)

        return panel.fill(
            tiles, width, depth,
            lambda tile, k, c: problem.view.vector(
                problem.batch, columns.index((tile * run.size + run.first) * lanes + c),
                problem.k(begin + k),
            ),
            lambda tile: (tile - part.first) * (depth * self.parts.width),
        )  # fmt: skip


@record
class PackColumns:
    """The leaf that packs a run of columns, all of k."""

    stage: PackedColumns

    @property
    def text(self) -> str:
        return "pack columns"

    @property
    def effect(self) -> Effect:
        return Effect(
            covers=("k",), fills=self.stage.name, tails=OF_NUMBERS | {Tail.CLIPPED, Tail.BY_RUN}
        )

    def write(self, emit: Emitter, place: NestPlace) -> None:
        self.stage.pack(emit, place, of(0), emit.problem.depth)


@record
class BlockedClear:
    """The leaf that sets the sums of a tile to zero."""

    parts: BlockedParts

    @property
    def text(self) -> str:
        return "clear sums"

    @property
    def effect(self) -> Effect:
        return Effect(clears="sums", tails=BLOCKED)

    def write(self, emit: Emitter, place: NestPlace) -> None:
        rows, tile, at = place["rows"], self.parts.plan.tile, self._at(place)
        vectors, lanes = rows.size * tile.vectors, emit.lanes
        emit.clear(place.memory["sums"], vectors, lambda i: at + i * lanes)

    def _at(self, place: NestPlace) -> Expr:
        return self.parts.sum_at(place["rows"], place["columns"])


BLOCKED = OF_NUMBERS | {Tail.CLIPPED, Tail.BY_RUN, Tail.NUMBERED}


@record
class BlockedTile:
    """The leaf of one K block of a tile: sums of all K blocks but the last go on in scratch, those
    of the last are the results. `packed`, `panel`: which operands stages have."""

    parts: BlockedParts
    packed: bool
    panel: bool

    @property
    def text(self) -> str:
        plan = self.parts.plan
        return f"register tile {plan.tile.rows}x{plan.tile.vectors}x{plan.lanes}"

    @property
    def effect(self) -> Effect:
        reads = (*(["broadcast"] if self.packed else []), *(["vectors"] if self.panel else []))
        adds = "sums" if self.parts.sums is not None else None
        return Effect(
            reads=reads, adds=adds, stores=True, last="k", tails=BLOCKED,
            starts=self.parts.plan.problem.depth <= 2 * K_BLOCK,
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        parts, plan, k = self.parts, self.parts.plan, place["k"]
        rows, columns = place["rows"], place["columns"]
        assert rows.inside is not None and columns.inside is not None
        vectors: VectorOperand = VectorInPlace(emit)
        if self.panel:
            vectors = VectorPanel(emit, place.filled["vectors"])
        registers = RegisterTile(emit, broadcast_of(emit, place), vectors)
        at = OutputTile(
            emit.problem.batch, rows.first, rows.size, plan.columns, columns.first, columns.size
        )
        # In a copy of this K block alone, or of all of them behind one another.
        of_block = parts.packs_rows and parts.one_block
        run = KRun(-k.first if of_block else k.first * (parts.groups - 1), k.size)
        start = columns.inside * k.size - k.first
        if plan.blocks.rows:
            start = columns.number * emit.problem.depth
        lane = emit.copier.lane()
        copied = rows.inside if parts.packs_rows else rows.number
        body = registers.products(at, lane, copied, run, start)
        self._keep(emit, place, at, lane, self._sums(emit, k, at, body))

    def _sums(self, emit: Emitter, k: Span, at: OutputTile, body: Accumulate) -> list[LoopValue]:
        """The sums of one K block."""
        step = 2 if emit.problem.pairs else 1
        sums, whole = emit.zeros(at.rows * at.vectors), k.size // step * step
        if whole or step == 1:

            def together(at: Expr, sums: list[LoopValue]) -> list[LoopValue]:
                for i in reversed(range(step)):
                    sums = body((k.first + at + i,), sums)
                return sums

            variable = Variable(f"k{k.size}", k.size)
            sums = fold(emit.addresses, variable, (0, whole), "k", sums, together, step)
        if whole < k.size:
            sums = body((k.first + whole,), nothing_added(emit.builder, sums))
        return sums

    def _keep(
        self, emit: Emitter, place: NestPlace, at: OutputTile, lane: Expr, sums: list[LoopValue]
    ) -> None:
        """Sums of a K block, or results."""
        k, memory = place["k"], place.memory.get("sums")
        if memory is None:
            store_results(emit, at, lane, sums)
            return
        kept = self.parts.sum_at(place["rows"], place["columns"])
        positions = [
            kept + r * self.parts.width + v * emit.lanes + lane
            for r in range(at.rows) for v in range(at.vectors)
        ]  # fmt: skip
        before = emit.zeros(len(sums))
        if not k.first.is_constant or k.first.constant > 0:
            here = emit.builder.block
            before = [emit.evaluator.load(memory, place, (), here) for place in positions]
        sums = list(map(emit.builder.add, before, sums))
        if k.is_last:
            store_results(emit, at, lane, sums)
            return
        for position, value in zip(positions, sums, strict=True):
            emit.evaluator.store(memory, position, value)
