"""Ways to read the operand that runs along vectors, and what they cost.

In: a tiling. Out: a `VectorRead`: in place, from a packed panel, or from a halo buffer; None where
none of these does. The cost is that of the copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from graphc.codegen.kernels.contraction.cost.costs import (
    CACHE_LINE,
    COPIED,
    GATHERED,
    TRANSPOSED,
    any_place,
)
from graphc.codegen.kernels.contraction.cost.halo_plan import HaloAxis, HaloPlan, plan_halo
from graphc.codegen.kernels.contraction.cost.tiles import Columns
from graphc.codegen.kernels.contraction.cost.tilings import Tiling
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.kernels.contraction.problem.view import ContractionView, group_variable
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, at_least, ceil_div, known_number
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.movement import Case
from graphc.records import record, replace
from graphc.schedule.access import Index

PANEL_ROWS, PANEL_ROWS_FULL, PANEL_ROWS_ALIASED = 96, 64, 24
"""Rows from which copying columns that could be read in place pays: neighbouring rows of a panel
are neighbours in memory, in few pages and spread over all sets of the cache. Sooner where those of
one K block, two or three cache lines each, fill L1, or where they share few sets."""
WIDENED = 2.0
"""Cost of one vector of elements that are widened where they are multiplied."""
ALIASING = 2048
"""A power-of-two distance between rows puts them into few sets of a cache."""


@record
class VectorRead:
    """In place, or `packed` in panels, or from a `halo` buffer. `guarded`: zeros stand for products
    that are skipped."""

    cost: float = 0.0
    packed: bool = False
    guarded: bool = False
    halo: HaloPlan | None = None

    @property
    def description(self) -> str:
        how = "from a halo buffer" if self.halo else "packed" if self.packed else "in place"
        return f"vector operand {how}"


def vector_read(tiling: Tiling, target: Target) -> VectorRead | None:
    """How a register tile reads its columns."""
    return column_read(tiling, target) or halo_read(tiling)


def column_read(tiling: Tiling, target: Target) -> VectorRead | None:
    """In place or packed: what needs no windows; None where only a halo buffer may do."""
    problem, columns = tiling.problem, tiling.columns
    view = problem.view
    if 0 in view.k:
        return VectorRead(packed=True)
    lane = Variable("probe_lane", max(tiling.lanes, 2))
    k = tuple(of(v) for v in k_variables(view))
    if len(columns) == 1:
        case = view.vector(problem.batch, any_place(columns[0], lane), k)
        if view.stride(case, lane) == 1 and not (
            tiling.is_flat and not problem.sum_grows
            and (_computed_often(tiling, case) or _panel_pays(tiling, case, target))
        ):  # fmt: skip
            return VectorRead()
    if not tiling.is_flat:
        return None
    packed = _packed(tiling)
    # A panel of all of k would grow; where every product has both its elements it need not be.
    in_place = problem.sum_grows and not packed.guarded
    return replace(packed, packed=False) if in_place else packed


def _packed(tiling: Tiling) -> VectorRead:
    problem, (columns,) = tiling.problem, tiling.columns
    view = problem.view
    column = Variable("probe_column", max(columns.lanes_used, 2))
    depth = Variable("probe_depth", at_least(problem.depth, 2))
    case = view.vector(problem.batch, columns.index(of(column)), problem.k(of(depth)))
    each = GATHERED
    if view.stride(case, column) == 1:
        each = COPIED
    elif view.stride(case, depth) == 1:
        each = TRANSPOSED
    guarded = case is not None and bool(case.guards)
    copies = problem.typical(problem.batch_count * problem.depth) * columns.vectors
    return VectorRead(copies * each, packed=True, guarded=guarded)


def _computed_often(tiling: Tiling, case: Case | None) -> bool:
    """Whether elements that are computed from several reads would be so for several tiles, or
    those of a matrix that are widened for more than a copy of them costs."""
    problem = tiling.problem
    view, rows = problem.view, problem.typical(problem.rows)
    if case is not None and len(view.places(case)) > 1 and rows > tiling.tile.rows:
        return True
    widens = len(view.k) == 1 and view.widens(broadcast=False)
    return widens and -(-rows // tiling.tile.rows) * WIDENED > COPIED


def _panel_pays(tiling: Tiling, case: Case | None, target: Target) -> bool:
    """Whether columns that could be read where they lie are better copied first: not where what a
    tile reads is one run of memory already."""
    problem, view, columns = tiling.problem, tiling.problem.view, tiling.columns[0]
    if case is None or len(view.k) != 1 or view.k[0] < 64 or columns.blocks < 2:
        return False
    rows = problem.typical(problem.rows)
    width = tiling.tile.vectors * columns.lanes
    linear = view.linear(case)
    step = linear.coefficient(k_variables(view)[0]) if linear is not None else None
    step = None if step is None else problem.typical(step)
    if step is not None and step <= width:
        return False
    if step is not None and step * view.dtype.itemsize % ALIASING == 0:
        return rows >= PANEL_ROWS_ALIASED
    run = width * view.dtype.itemsize + CACHE_LINE // 2
    full = min(view.k[0], K_BLOCK) * run >= target.l1_bytes
    return rows >= (PANEL_ROWS_FULL if full else PANEL_ROWS)


# -- halo buffers ----------------------------------------------------------------------------------


def halo_read(tiling: Tiling, group: int | None = None) -> VectorRead | None:
    """The vector operand through a halo buffer of a batch element, or of a group of so many indices
    of k's first axis at a time, where one does."""
    problem, columns = tiling.problem, tiling.columns
    view = problem.view
    halo = halo_of(tiling, group)
    if halo is None:
        return None
    lane = Variable("probe_lane", max(tiling.lanes, 2))
    place = any_place(columns[0], lane)
    looped = tuple(of(v) for v in k_variables(view)[: tiling.unrolled])
    probes = (
        view.vector(problem.batch, place, (*looped, *tap)) for tap in taps_of(view, tiling.unrolled)
    )
    probe = next((case for case in probes if case is not None), None)
    if probe is None or _lane_step(halo.axes, probe, lane) != 1:
        return None
    last = halo.axes[-1]
    source = _contiguous_axis(view, halo, probe)
    each = COPIED if source == last.axis and last.split == 1 else TRANSPOSED
    if last.split == 2 and source == last.axis:
        each = 2 * COPIED  # two loads and a shuffle
    elif source is None or last.split > 1:
        each = GATHERED
    fills = problem.batch_count * (1 if group is None else ceil_div(view.k[0], group))
    cost = problem.typical(halo.elements * fills) / tiling.lanes * each
    return VectorRead(cost, guarded=halo.guarded, halo=halo)


def halo_of(tiling: Tiling, group: int | None) -> HaloPlan | None:
    """The halo buffer of a batch element, or of a group of so many indices of k's first axis."""
    view, columns = tiling.problem.view, tiling.columns
    cases, inner = window_cases(tiling.problem, tiling.unrolled, columns, group)
    if not cases:
        return None
    n = n_variables(columns[0])
    axes, step = axes_of(cases[0], [n[axis] for axis in tiling.lane_axes])
    if axes is None or (len(axes) > 1 and step != 1):
        return None
    return plan_halo(view, cases, inner, axes, step if len(axes) == 1 else 1)


def n_variables(columns: Columns) -> list[Variable]:
    """Those that `window_cases` has for the coordinates of n."""
    return [Variable(f"probe_n{a}", extent) for a, extent in enumerate(columns.residues.extents)]


def taps_of(view: ContractionView, unrolled: int) -> list[Index]:
    """The indices of the axes of k that are written out."""
    return [
        tuple(of(t) for t in tap)
        for tap in itertools.product(*(range(dim) for dim in view.k[unrolled:]))
    ]


def window_cases(
    problem: ContractionProblem, unrolled: int, columns: Sequence[Columns], group: int | None,
    of_vectors: bool = True, at_batch: Index | None = None,
) -> tuple[list[Case], frozenset[Variable]]:  # fmt: skip
    """What the vector operand (or the other) is asked for by all residue classes and kernel
    positions, with variables for all else; and those of them that run inside a halo buffer.
    `at_batch`: by default the batch element at hand."""
    view = problem.view
    batch = problem.batch if at_batch is None else at_batch
    variables = list(k_variables(view))
    k: list[Expr] = [of(variable) for variable in variables]
    if group is not None:
        variables[0] = Variable("probe_member", group)
        k[0] = of(group_variable(view, group)) * group + of(variables[0])
    inner, cases = set(variables), []
    zero = tuple(of(0) for _ in view.m)
    for column in columns:
        n = n_variables(column)
        inner.update(n)
        at = column.residues.index(tuple(of(v) for v in n))
        for tap in taps_of(view, unrolled):
            where = (*k[:unrolled], *tap)
            case = view.vector(batch, at, where) if of_vectors else view.broadcast(
                batch, zero, where
            )  # fmt: skip
            if case is not None:
                cases.append(case)
    return cases, frozenset(inner)


def axes_of(case: Case, lanes: list[Variable]) -> tuple[tuple[int, ...] | None, int]:
    """The operand's axes along which the lane variables run, and the step of the last."""
    axes, step = [], 1
    for variable in lanes:
        steps = [
            (axis, number) for axis, item in enumerate(case.index)
            if isinstance(item, Expr) and (number := known_number(item.coefficient(variable)))
        ]  # fmt: skip
        if variable.extent == 1:
            continue
        if len(steps) != 1:
            return None, 1
        ((axis, step),) = steps
        axes.append(axis)
    if not axes or step < 1 or len(set(axes)) != len(axes):
        return None, 1
    return tuple(axes), step


def _lane_step(axes: tuple[HaloAxis, ...], case: Case, lane: Variable) -> int | None:
    """Elements of the halo buffer from one lane to the next."""
    dims: list[Extent] = []
    index: list[Expr] = []
    for axis in axes:
        at: Expr = case.index[axis.axis] - axis.base - axis.low
        if axis.split > 1:
            dims.append(axis.split)
            index.append(at % axis.split)
            at = at // axis.split
        dims.append(ceil_div(axis.extent, axis.split))
        index.append(at)
    return known_number(flatten(index, dims).coefficient(lane))


def _contiguous_axis(view: ContractionView, halo: HaloPlan, case: Case) -> int | None:
    """The axis along which the operand lies contiguous in memory."""
    shape: Shape = view.types[case.operand].shape
    probes = [Variable(f"probe_x{axis}", at_least(dim, 2)) for axis, dim in enumerate(shape)]
    plain = Case(case.operand, tuple(of(v) for v in probes))
    order = [halo.axes[-1].axis, *(axis.axis for axis in halo.axes)]
    return next((axis for axis in order if view.stride(plain, probes[axis]) == 1), None)
