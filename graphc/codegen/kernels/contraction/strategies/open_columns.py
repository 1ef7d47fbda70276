"""Strategy: a register tile whose columns are of sizes known only at run time.

Vectors run along the last coordinate of n. Those of a tile are neighbours along it, or, where n is
a plane, of neighbouring lines. The last tile of a line is masked; of the last tile of lines those
that are not there are computed from what a halo buffer has behind the last one, and not stored.
Where the results of a stride have products of their own a tile has all residues of its lines and
columns: even and odd ones are interleaved in registers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphc.codegen.elements.shuffles import interleave
from graphc.codegen.kernels.contraction.cost.costs import COPIED, GATHERED, TRANSPOSED, note
from graphc.codegen.kernels.contraction.cost.halo_plan import HaloAxis, HaloPlan, plan_halo
from graphc.codegen.kernels.contraction.cost.tiles import (
    MOST_COLUMNS,
    Columns,
    OutputTile,
    Place,
    Tile,
    choose_tile,
    vector_registers,
)
from graphc.codegen.kernels.contraction.cost.tilings import first_unrolled
from graphc.codegen.kernels.contraction.cost.vector_read import (
    axes_of,
    n_variables,
    window_cases,
)
from graphc.codegen.kernels.contraction.emission.axes import BatchNest, batch_loops, batch_of, each
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.broadcast_operand import broadcast_of
from graphc.codegen.kernels.contraction.operands.vector_operand import HaloStage, vectors_of
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.kernels.contraction.problem.view import ResidueClass
from graphc.codegen.kernels.contraction.strategies.register_tile import RegisterTile, store_results
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Clear,
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Nest,
    NestPlace,
    Role,
    Span,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, at_most, ceil_div
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Case
from graphc.records import record, replace
from graphc.schedule.access import Index

EFFICIENCY = 0.85
"""Efficiency of such tiles beside those that have output channels along vectors, where both have
as few lanes empty (measured)."""
MOST_LINES, MOST_STRIDED = 6, 4
"""Lines of a tile of one row at most: those that windows read have an address each, and where
windows have a stride there are twice as many, each in parts."""
MOST_ACROSS = 2
"""Vectors of a tile of several rows along a line at most: all are computed where that ends."""
COPIES = {1: COPIED, 2: 2 * COPIED}
"""Cost of one vector of elements of a halo buffer, by the stride of windows: where it is 2, two
loads and a shuffle."""


@record
class OpenColumnsPlan:
    """Tiles of `lines`, and of so many vectors `across` each. `steps`: see ResidueClass. `halo`:
    None where columns are read where they lie."""

    problem: ContractionProblem
    lanes: int
    rows: int
    lines: int
    across: int
    steps: Shape
    unrolled: int
    halo: HaloPlan | None
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.ANY & ~Coordinates.TAPS, needs=Coordinates.COLUMNS)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[OpenColumnsPlan]:
        """For the roles as the op has them, whose results lie along n; a convolution of one element
        is a product in its swapped role, which has flat positions as rows."""
        view = problem.view
        n, steps = view.n, view.steps
        if (
            0 in view.k or problem.pairs or view.swapped
            or (view.has_windows and len(view.k) == 1)
            or not _is_read_in_place(problem) or math.prod(steps[:-2]) != 1
        ):  # fmt: skip
            return
        unrolled = first_unrolled(view, steps != (1,) * len(steps))
        reads, halo = _Reads.of(problem, unrolled), None
        tile, efficiency = _tile(problem, steps, reads.stride, target)
        if efficiency <= 0:
            return
        lines, across = _shape(tile, n, steps)
        if len(n) > 1 and lines % steps[-2]:
            return
        width = n[-1]
        lanes = problem.lanes_for(ceil_div(width, across))
        if not reads.are_vectors or (lines > 1 and n[-2] % lines != 0):
            halo = reads.halo(lines)
            if halo is None:
                return
        vectors = math.prod(n[:-1]) * ceil_div(width, lanes)
        count = problem.typical(problem.batch_count * problem.rows * vectors * problem.depth)
        products = count / (math.prod(steps) * efficiency * EFFICIENCY)
        copies = 0.0
        if halo is not None:
            copied = problem.typical(problem.batch_count * halo.elements) / lanes
            each = COPIES.get(halo.axes[-1].split, GATHERED)
            copies = copied * (TRANSPOSED if reads.are_transposed else each)
        how = "in place" if halo is None else "from a halo buffer"
        sides = f"{tile.rows}x{tile.vectors}x{lanes}"
        yield OpenColumnsPlan(
            problem, lanes, tile.rows, lines, across, steps, unrolled, halo, products + copies,
            note(
                problem, "open columns", f"tile {sides} of {lines} lines, vector operand {how}",
                products=products, copies=copies,
            ),
        )  # fmt: skip

    def nest(self) -> Nest:
        problem, n = self.problem, self.problem.view.n
        loops, last = batch_loops(problem), len(n) - 1
        columns = Split(
            "columns", Axis("columns", n[last], Role.COLUMNS, last), self.lanes * self.across,
            Tail.MASKED,
        )  # fmt: skip
        rows = Split("rows", Axis("rows", problem.rows, Role.ROWS), self.rows, Tail.ONE_BY_ONE)
        halos: tuple[HaloStage, ...] = ()
        if self.halo is not None:
            halos = (self._stage(batch_of(problem, loops, Holds.VECTORS)),)
        leaf = ColumnTileLeaf(self, *halos)
        body: tuple[Statement, ...] = (ForEach(columns, (ForEach(rows, (Compute(leaf),)),)),)
        outermost = columns
        if last:
            lines = Axis("lines", n[last - 1], Role.COLUMNS, last - 1)
            outermost = Split("lines", lines, self.lines, Tail.COUNTED)
            body = (ForEach(outermost, body),)
        for axis in reversed(range(last - 1)):
            outermost = each(f"n{axis}", Variable(f"n{axis}", n[axis]), Role.COLUMNS, axis)
            body = (ForEach(outermost, body),)
        return BatchNest(
            problem, halos, (*map(Fill, halos), *body), self.reason,
            once=tuple(map(Clear, halos)), parallel=(outermost,),
        ).nest(loops)  # fmt: skip

    def _stage(self, batch: tuple[str, ...]) -> HaloStage:
        assert self.halo is not None
        view = self.problem.view
        outer = ((f"n{axis}", extent) for axis, extent in enumerate(view.n[:-2]))
        plane = zip(("lines", "columns")[-len(view.n) :], view.n[-2:], strict=True)
        room = (*((name, 1) for name in batch), *outer, *plane, ("k", view.k[0]))
        return HaloStage(self.halo, room, self.rows == 1, batch)


def _is_read_in_place(problem: ContractionProblem) -> bool:
    """Whether the broadcast operand has all its elements."""
    view = problem.view
    m = tuple(of(Variable(f"probe_m{axis}", extent)) for axis, extent in enumerate(view.m))
    case = view.broadcast(problem.batch, m, tuple(map(of, k_variables(view))))
    return case is not None and not case.guards


def _tile(
    problem: ContractionProblem, steps: Shape, stride: int, target: Target
) -> tuple[Tile, float]:
    """Its vectors are those of neighbouring lines, or of a single one; with steps, all residues.
    `stride`: of windows."""
    n, unit = problem.view.n, math.prod(steps)
    vectors = MOST_COLUMNS if _has_lines(n) or problem.rows == 1 else MOST_ACROSS
    if _has_lines(n):
        vectors = at_most(n[-2] * steps[-1], MOST_COLUMNS)
    elif unit > 1:
        vectors = unit
    # What windows of neighbouring lines share LLVM holds in registers.
    k = problem.view.k
    taps = 0 if len(k) < 3 or k[-2] <= steps[-2] else k[-1]
    registers = vector_registers(target)

    def allowed(tile: Tile) -> bool:
        if tile.vectors % unit:
            return False
        if problem.rows == 1:
            return tile.vectors <= (MOST_LINES if stride == 1 else MOST_STRIDED)
        lines = tile.vectors // unit if _has_lines(n) else 1
        shared = (lines - 1) * taps
        return tile.rows * tile.vectors + tile.vectors + 1 + shared <= registers

    return choose_tile(problem.typical(problem.rows), vectors, registers, allowed)


def _has_lines(n: Shape) -> bool:
    return len(n) > 1 and n[-2] != 1


def _shape(tile: Tile, n: Shape, steps: Shape) -> tuple[int, int]:
    """Lines of a tile, and the vectors of each."""
    across = steps[-1] if _has_lines(n) else tile.vectors
    return tile.vectors // across, across


@record
class _Reads:
    """What the vector operand is asked for, by all residues. `inner`: see `plan_halo`."""

    problem: ContractionProblem
    classes: tuple[tuple[Columns, tuple[Case, ...]], ...]
    inner: frozenset[Variable]

    @staticmethod
    def of(problem: ContractionProblem, unrolled: int) -> _Reads:
        classes, inner = [], frozenset[Variable]()
        for residues in problem.view.all_residues():
            columns = Columns(residues, (len(problem.view.n) - 1,), problem.lanes, 0)
            cases, variables = window_cases(problem, unrolled, [columns], None)
            classes.append((columns, tuple(cases)))
            inner |= variables
        return _Reads(problem, tuple(classes), inner)

    @property
    def are_vectors(self) -> bool:
        """Whether neighbours along the last coordinate are so in memory, and all are there."""
        return all(
            self.problem.view.stride(case, n_variables(columns)[-1]) == 1
            for columns, cases in self.classes for case in cases
        )  # fmt: skip

    @property
    def are_transposed(self) -> bool:
        """Whether neighbours along k are neighbours in memory."""
        view, (along, *_) = self.problem.view, k_variables(self.problem.view)
        return any(view.stride(case, along) == 1 for _, cases in self.classes for case in cases)

    @property
    def stride(self) -> int:
        """Elements from one column's to the next one's, of windows."""
        for columns, cases in self.classes:
            if cases:
                return axes_of(cases[0], n_variables(columns)[-1:])[1]
        return 1

    def halo(self, lines: int) -> HaloPlan | None:
        """The buffer of a batch element, with room for as many lines as whole tiles have."""
        cases = [case for _, cases in self.classes for case in cases]
        if not cases:
            return None
        columns, (first, *_) = next(each for each in self.classes if each[1])
        *outer, along = n_variables(columns)
        axes, step = axes_of(first, [along])
        if axes is None or along.extent == 1:
            return None
        plan = plan_halo(self.problem.view, cases, self.inner, axes, step, grows=True)
        if plan is None or lines == 1:
            return plan
        moved, by = axes_of(first, outer[-1:])
        if moved is None:
            return None
        more = (lines - 1) * by
        longer = (_longer(axis, more) if axis.axis == moved[0] else axis for axis in plan.axes)
        return replace(plan, axes=tuple(longer))


def _longer(axis: HaloAxis, more: int) -> HaloAxis:
    """The axis with room for more coordinates, which are not copied."""
    end = axis.low + axis.extent if axis.dim is None else axis.dim
    return replace(axis, extent=axis.extent + more, dim=end)


@record
class ColumnBlock:
    """The columns of a tile: `vectors` from `first` on, so many `across` of each line. `rest`: only
    so many of a line are there; `end`: where lines end, if not all may be there."""

    n: Shape
    outer: Index
    first: Expr
    lanes: int
    vectors: int
    across: int
    is_interleaved: bool
    rest: Extent | None
    end: Extent | None

    @property
    def residues(self) -> ResidueClass:
        return ResidueClass(self.n, (1,) * len(self.n), (0,) * len(self.n))

    def place(self, number: Expr, lane: Expr) -> Place:
        """Vector `number`: its n coordinates, and the guards of those that exist."""
        line, inside = number // self.across, number % self.across
        at = lane * self.across + inside if self.is_interleaved else inside * self.lanes + lane
        guards = () if self.rest is None else ((at, 0, self.rest),)
        if not self.outer:
            return (self.first + at,), guards
        line = self.outer[-1] + line
        if self.end is not None:
            guards = (*guards, (line, 0, self.end))
        return (*self.outer[:-1], line, self.first + at), guards


@record
class ColumnTileLeaf:
    """The leaf of a tile. `halo`: the stage that has the columns, if they are not read in place."""

    plan: OpenColumnsPlan
    halo: HaloStage | None = None

    @property
    def text(self) -> str:
        plan = self.plan
        return f"register tile {plan.rows}x{plan.lines * plan.across}x{plan.lanes}"

    @property
    def effect(self) -> Effect:
        return Effect(
            covers=("k",), reads=() if self.halo is None else (self.halo.name,), stores=True,
            tails=OF_NUMBERS | {Tail.MASKED, Tail.ONE_BY_ONE, Tail.COUNTED},
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        plan, problem, n = self.plan, self.plan.problem, self.plan.problem.view.n
        rows, columns, lines = place["rows"], place["columns"], None
        outer: Index = ()
        if len(n) > 1:
            lines = place["lines"]
            outer = (*(place[f"n{axis}"].first for axis in range(len(n) - 2)), lines.first)
        is_open = lines is not None and lines.count != lines.size
        block = ColumnBlock(
            n, outer, columns.first, plan.lanes, plan.lines * plan.across, plan.across,
            plan.steps[-1] > 1, columns.rest, n[-2] if is_open else None,
        )  # fmt: skip
        at = OutputTile(problem.batch, rows.first, rows.size, block, of(0), block.vectors)
        registers = RegisterTile(
            emit, broadcast_of(emit, place), vectors_of(emit, self.halo, block, place)
        )
        lane = emit.tile_lane()
        totals = registers.k_loops(at, lane, rows.number, plan.unrolled).total()
        if plan.halo is not None and plan.halo.guarded and problem.dtype.is_float:
            totals = emit.guarded.tile(at, totals)
        self._store(emit, at, block, lane, totals, lines)

    def _store(
        self, emit: Emitter, at: OutputTile, block: ColumnBlock, lane: Expr,
        totals: list[LoopValue], lines: Span | None,
    ) -> None:  # fmt: skip
        """The results of the lines that are there."""
        b, across = emit.builder, self.plan.across
        interleaves = block.is_interleaved and across == 2
        kept = replace(block, end=None, is_interleaved=block.is_interleaved and not interleaves)

        def store(number: int, kept: ColumnBlock) -> None:
            line: list[LoopValue] = []
            for row in range(at.rows):
                first = row * at.vectors + number * across
                vectors = totals[first : first + across]
                if interleaves:
                    vectors = [interleave(b, vectors[0], vectors[1], half) for half in range(2)]
                line += vectors
            store_results(emit, replace(at, columns=kept, vectors=across), lane, line)

        for number in range(self.plan.lines):
            outer = (*block.outer[:-1], *(line + number for line in block.outer[-1:]))
            if number == 0 or block.end is None:
                store(number, replace(kept, outer=outer))
                continue
            assert lines is not None and lines.count is not None
            with b.if_(emit.numbers.compare("lt", number, lines.count)) as branch:
                with branch.then():
                    # Known in here alone: what is read for it must not be read ahead of the test.
                    line = b.add(emit.addresses.scalar(outer[-1]), b.const(DType.i64, 0))
                    there = Variable(f"line{line.name}", block.end)
                    emit.addresses.bind(there, line, b.block)
                    store(number, replace(kept, outer=(*outer[:-1], of(there))))
                with branch.otherwise():
                    pass
