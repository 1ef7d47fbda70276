"""Ways to read a contraction's operands, and what they cost.

In: a `View`, the tile, the columns. Out: for the operand that is broadcast how it is read; for the
one read by vectors all ways there are, each with its cost in vector FMAs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from graphc.codegen.recipes.contraction.choice import Choice
from graphc.codegen.recipes.contraction.halo import BoxAxis, plan_box
from graphc.codegen.recipes.contraction.k_blocks import CHAIN, cut
from graphc.codegen.recipes.contraction.tiles import Columns, Tile
from graphc.codegen.recipes.contraction.view import ContractionView, group_variable
from graphc.codegen.target import Target
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.movement import Case
from graphc.schedule.access import Index, unflatten

# Cost of one vector of elements, in vector FMAs, by how it gets into scratch or out of registers.
COPIED, TRANSPOSED, GATHERED = 4.0, 10.0, 24.0
SCATTERED = 24.0
# Kernel positions written out, not looped over: so many at most, along axes no longer than this.
TAPS, TAP_AXIS = 32, 7
# Rows from which copying a vector operand that could be read where it lies pays: neighbouring
# rows of a panel are neighbours in memory, in few pages and spread over all sets of the cache.
# Sooner where those of one chain, two or three cache lines each, fill L1.
PANEL_ROWS, PANEL_ROWS_FULL, PANEL_ROWS_ALIASED = 96, 64, 24
# Columns from which copying an ill-placed broadcast operand pays.
LEFT_COLUMNS = 64
# Vectors that a copy of a broadcast operand is wide at most, where tiles of rows lie side by side.
LEFT_VECTORS = 8
# A power-of-two distance between rows puts them into few sets of a cache.
ALIASING = 2048
PAGE, CACHE_LINE = 4096, 64


def group_size(view: ContractionView, elements: int, target: Target) -> int:
    """How many indices of the first axis of k to add at a time: a divisor of its extent, whole
    chains, as many as keep the copy in half of L2. `elements`: those of the copy for one index."""
    axis, step = cut(view.k)
    step = step if axis == 0 else 1
    fit = max(target.l2_bytes // 2 // (elements * view.dtype.itemsize), 1)
    found = [g for g in range(1, view.k[0] + 1) if view.k[0] % g == 0 and g % step == 0]
    found = found or [view.k[0]]
    return max((g for g in found if g <= fit), default=found[0])


def first_unrolled(view: ContractionView, needed: bool) -> int:
    """The first axis of k that is written out: kernel positions are few."""
    axis, count = len(view.k), 1
    while axis > 1:
        extent = view.k[axis - 1]
        if not needed and (extent > TAP_AXIS or count * extent > TAPS):
            break
        axis -= 1
        count *= extent
    return axis


def k_variables(view: ContractionView) -> tuple[Variable, ...]:
    return tuple(Variable(f"probe_k{axis}", dim) for axis, dim in enumerate(view.k))


def left_operand(
    view: ContractionView, batch: Index, tile: Tile, vectors: int, lanes: int, phases: int
) -> tuple[str, int, float]:
    """How the broadcast operand is read, the width of its panel, and the cost of that."""
    rows, depth = math.prod(view.m), math.prod(view.k)
    m = Variable("probe_m", max(rows, 2))
    variables = k_variables(view)
    case = view.broadcast(batch, unflatten(of(m), view.m), tuple(of(v) for v in variables))
    width = -(-tile.rows // lanes) * lanes
    copies = math.prod(view.batch) * -(-rows // tile.rows) * depth * max(width // lanes, 1)
    if case is None or case.guards or view.linear(case) is None:
        return "panel", width, copies * GATHERED
    if phases > 1:
        # Each phase reads few kernel positions: little of a cache line, if they lie side by side.
        return "panel", width, copies / max(math.prod(view.batch), 1) * GATHERED
    linear = view.linear(case)
    assert linear is not None
    along_rows = linear.coefficient(m)
    along_k = [linear.coefficient(v) for v in variables if v.extent > 1]
    if None in along_k or vectors * lanes < LEFT_COLUMNS:
        each = TRANSPOSED if along_k and along_k[-1] == 1 else GATHERED
        return ("panel", width, copies * each) if None in along_k else ("direct", width, 0.0)
    # Turned: each k of a tile lies on another line, each line holds several tiles. Not turned, a
    # tile's rows are a few runs of memory, also where these lie a power of two apart.
    turned = along_rows == 1 and bool(along_k) and abs(along_k[-1] or 0) * view.dtype.itemsize >= 64
    large = depth >= 64 and max(depth, vectors * lanes) >= 256
    if len(view.k) == 1 and large and rows > tile.rows and turned:
        batched = any(v in linear.variables() for i in batch for v in i.variables())
        times = 1 if batched else max(math.prod(view.batch), 1)
        together = math.lcm(tile.rows, lanes)
        if together <= LEFT_VECTORS * lanes:
            width, copies = together, math.prod(view.batch) * -(-rows // lanes) * depth
        return "panel", width, copies / times * COPIED
    return "direct", width, 0.0


@dataclass(frozen=True)
class Right:
    """A way to read the vector operand. `guarded`: zeros stand for products that are skipped."""

    kind: str
    cost: float = 0.0
    guarded: bool = False
    box: tuple[BoxAxis, ...] | None = None
    operand: int = 0
    group: int = 0
    vectors: int = 0
    """Vectors of columns that go together, where the way to read asks for a number."""


def right_operands(
    view: ContractionView, base: Choice, columns: list[Columns], batch: Index, target: Target
) -> Iterator[Right]:
    rows, depth, count = math.prod(view.m), math.prod(view.k), math.prod(view.batch)
    lane = Variable("probe_lane", max(base.lanes, 2))
    k = tuple(of(v) for v in k_variables(view))
    flat = base.lane_axes == tuple(range(len(view.n)))
    vectors = sum(column.vectors for column in columns)
    if not columns or 0 in view.k:
        yield Right("panel")
        return
    cases = [view.vector(batch, _any_place(column, lane), k) for column in columns]
    thin = _thin(view, base, cases[0], lane) if flat and rows == 1 else None
    if thin is not None:
        yield thin
        return
    if len(columns) == 1 and view.stride(cases[0], lane) == 1:
        if not (flat and _panel_pays(view, cases[0], rows, columns[0], base.tile.vectors, target)):
            yield Right("direct")
            return
    if flat:
        column = Variable("probe_column", max(columns[0].lanes_used, 2))
        depth_variable = Variable("probe_depth", max(depth, 2))
        case = view.vector(
            batch, columns[0].index(of(column)), unflatten(of(depth_variable), view.k)
        )
        each = GATHERED
        if view.stride(case, column) == 1:
            each = COPIED
        elif view.stride(case, depth_variable) == 1:
            each = TRANSPOSED
        guarded = case is not None and bool(case.guards)
        yield Right("panel", count * vectors * depth * each, guarded)
        return
    found = _box(view, base, columns, batch, target)
    if found is not None:
        yield found


def _thin(view: ContractionView, base: Choice, case: Case | None, lane: Variable) -> Right | None:
    """One row of results, the other operand a matrix that is read once."""
    if len(view.k) != 1 or base.left != "direct" or base.lanes < 4 or view.k[0] < base.lanes:
        return None
    if view.stride(case, lane) == 1:
        return Right("streamed", vectors=2)
    if view.stride(case, k_variables(view)[0]) != 1:
        return None
    # Rows that share a set of the cache: no more of them than it has ways.
    apart = (view.stride(case, lane) or 0) * view.dtype.itemsize
    return Right("turned", vectors=1 if apart % PAGE == 0 else 2)


def _any_place(columns: Columns, lane: Variable) -> Index:
    """The n coordinates of some vector, for probing."""
    number = Variable("probe_v", max(columns.vectors, 2))
    return columns.place(of(number), of(lane))[0]


def _panel_pays(
    view: ContractionView,
    case: Case | None,
    rows: int,
    columns: Columns,
    vectors: int,
    target: Target,
) -> bool:
    """Whether columns that could be read where they lie are better copied first: not where what a
    tile of so many vectors reads is one run of memory already."""
    if case is None or len(view.k) != 1 or view.k[0] < 64 or columns.blocks < 2:
        return False
    linear = view.linear(case)
    step = linear.coefficient(k_variables(view)[0]) if linear is not None else None
    if step is not None and step <= vectors * columns.lanes:
        return False
    if step is not None and step * view.dtype.itemsize % ALIASING == 0:
        return rows >= PANEL_ROWS_ALIASED
    run = vectors * columns.lanes * view.dtype.itemsize + CACHE_LINE // 2
    full = min(view.k[0], CHAIN) * run >= target.l1_bytes
    return rows >= (PANEL_ROWS_FULL if full else PANEL_ROWS)


def _box(
    view: ContractionView, base: Choice, columns: list[Columns], batch: Index, target: Target
) -> Right | None:
    """The vector operand through a box, where one does."""
    lane = Variable("probe_lane", max(base.lanes, 2))
    cases, inner = window_cases(view, base, columns, batch, None)
    if not cases:
        return None
    n = _n_variables(columns[0])
    axes, step = axes_of(cases[0], [n[axis] for axis in base.lane_axes])
    if axes is None or (len(axes) > 1 and step != 1):
        return None
    split = step if len(axes) == 1 else 1
    box = plan_box(view, cases, inner, axes, split)
    taps = itertools.product(*(range(dim) for dim in view.k[base.unrolled :]))
    place = _any_place(columns[0], lane)
    probes = (view.vector(batch, place, _at_tap(view, base, tap)) for tap in taps)
    probe = next((case for case in probes if case is not None), None)
    if box is None or probe is None or _box_stride(box, probe, lane) != 1:
        return None
    elements = math.prod(axis.extent for axis in box)
    source = _contiguous_axis(view, box, cases[0])
    each = COPIED if source == box[-1].axis and box[-1].split == 1 else TRANSPOSED
    if box[-1].split == 2 and source == box[-1].axis:
        each = 2 * COPIED  # two loads and a shuffle
    elif source is None or box[-1].split > 1:
        each = GATHERED
    cost = elements * math.prod(view.batch) / base.lanes * each
    guarded = any(case.guards for case in cases)
    group = 0
    if scatter_cost(view, columns, batch) and base.unrolled > 0 and len(columns) == 1:
        group = group_size(view, -(-elements // view.k[0]), target)
        cases, inner = window_cases(view, base, columns, batch, group)
        box = plan_box(view, cases, inner, axes, split)
        if base.left != "direct" or box is None:
            return None
    return Right("box", cost, guarded, box, cases[0].operand, group)


def _n_variables(columns: Columns) -> list[Variable]:
    return [Variable(f"probe_n{a}", extent) for a, extent in enumerate(columns.phase.extents)]


def window_cases(
    view: ContractionView, base: Choice, columns: list[Columns], batch: Index, group: int | None,
    vector: bool = True,
) -> tuple[list[Case], frozenset[Variable]]:  # fmt: skip
    """What the vector operand (or the other) is asked for by all phases and kernel positions, with
    variables for all else; and those of them that run inside a box."""
    variables = list(k_variables(view))
    k: list[Expr] = [of(variable) for variable in variables]
    if group is not None:
        variables[0] = Variable("probe_member", group)
        k[0] = of(group_variable(view, group)) * group + of(variables[0])
    inner, cases = set(variables), []
    for column in columns:
        n = _n_variables(column)
        inner.update(n)
        at = column.phase.index(tuple(of(v) for v in n))
        for tap in itertools.product(*(range(dim) for dim in view.k[base.unrolled :])):
            where = (*k[: base.unrolled], *(of(t) for t in tap))
            zero = tuple(of(0) for _ in view.m)
            case = view.vector(batch, at, where) if vector else view.broadcast(batch, zero, where)
            if case is not None:
                cases.append(case)
    return cases, frozenset(inner)


def _at_tap(view: ContractionView, base: Choice, tap: tuple[int, ...]) -> Index:
    variables = k_variables(view)
    return (*(of(v) for v in variables[: base.unrolled]), *(of(t) for t in tap))


def axes_of(case: Case, lanes: list[Variable]) -> tuple[tuple[int, ...] | None, int]:
    """The operand's axes along which the lane variables run, and the step of the last."""
    found, step = [], 1
    for variable in lanes:
        steps = [
            (axis, item.coefficient(variable)) for axis, item in enumerate(case.index)
            if isinstance(item, Expr) and item.coefficient(variable) not in (0, None)
        ]  # fmt: skip
        if variable.extent == 1:
            continue
        if len(steps) != 1:
            return None, 1
        found.append(steps[0][0])
        step = steps[0][1] or 1
    if not found or step < 1 or len(set(found)) != len(found):
        return None, 1
    return tuple(found), step


def _box_stride(box: tuple[BoxAxis, ...], case: Case, lane: Variable) -> int | None:
    """Elements of the box from one lane to the next."""
    dims: list[int] = []
    index: list[Expr] = []
    for axis in box:
        at: Expr = case.index[axis.axis] - axis.base - axis.low
        if axis.split > 1:
            dims.append(axis.split)
            index.append(at % axis.split)
            at = at // axis.split
        dims.append(-(-axis.extent // axis.split))
        index.append(at)
    return flatten(index, dims).coefficient(lane)


def _contiguous_axis(view: ContractionView, box: tuple[BoxAxis, ...], case: Case) -> int | None:
    """The axis along which the operand lies contiguous in memory."""
    shape: Shape = view.body.type_of(view.node.operands[case.operand]).shape
    probes = [Variable(f"probe_x{axis}", max(dim, 2)) for axis, dim in enumerate(shape)]
    plain = Case(case.operand, tuple(of(v) for v in probes))
    order = [box[-1].axis, *(axis.axis for axis in box)]
    return next((axis for axis in order if view.stride(plain, probes[axis]) == 1), None)


def scatter_cost(view: ContractionView, columns: list[Columns], batch: Index) -> float:
    """Cost of storing one vector of results."""
    if not columns:
        return 0.0
    lane = Variable("probe_lane", max(columns[0].lanes, 2))
    n = _any_place(columns[0], lane)
    row = Variable("probe_m", max(math.prod(view.m), 2))
    linear = flatten(view.out(batch, unflatten(of(row), view.m), n), view.node.types[0].shape)
    if linear.coefficient(lane) == 1:
        return 0.0
    return TRANSPOSED if linear.coefficient(row) == 1 else SCATTERED
