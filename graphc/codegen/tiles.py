"""How a contraction is cut: roles of its operands, register tile, copies. By a stated cost model.

In: a kernel's body around one contraction, lanes, target. Out: a `Choice`, with its reason as text.

The unit of the model is the time of one vector FMA. A candidate is a choice of the coordinates that
run along vectors, and of which operand is broadcast. Its cost is

    products / (lanes used · tile's efficiency) + copies + scattered results

and the cheapest one wins; ties go to the one listed first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from graphc.codegen.contraction_view import Phase, View, cut
from graphc.codegen.integers import Guard
from graphc.codegen.staging import BoxAxis, plan_box
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph
from graphc.ir.types import Shape
from graphc.ops.index import Expr, Variable, flatten, of
from graphc.ops.kinds import Case
from graphc.schedule.access import Index, unflatten

# Cost of one vector of elements, in vector FMAs, by how it gets into scratch or out of registers.
COPIED, TRANSPOSED, GATHERED = 4.0, 10.0, 24.0
SCATTERED = 24.0
# Kernel positions written out, not looped over: so many at most, along axes no longer than this.
TAPS, TAP_AXIS = 32, 7
# Vectors of columns that go together where there is one row.
THIN_VECTORS = {"streamed": 2, "turned": 2}
# Rows from which copying a vector operand that could be read where it lies pays: neighbouring
# rows of a panel are neighbours in memory, in few pages and spread over all sets of the cache.
PANEL_ROWS, PANEL_ROWS_ALIASED = 96, 24
# Columns from which copying an ill-placed broadcast operand pays.
LEFT_COLUMNS = 64
# A power-of-two distance between rows puts them into few sets of a cache.
ALIASING = 2048


def vector_registers(target: Target) -> int:
    """Vector registers of a target: AVX-512 and NEON have 32, AVX2 and SSE 16."""
    return 32 if target.vector_bytes == 64 or "aarch64" in target.triple else 16


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows, and vectors of columns, that stay in registers."""

    rows: int
    vectors: int


def choose_tile(rows: int, vectors: int, registers: int) -> tuple[Tile, float]:
    """The most efficient tile that fits the registers: rows·vectors accumulators, a vector of each
    column block, and one broadcast. Also its efficiency: the part of the FMA peak that tails,
    latency and loads leave."""
    best, best_efficiency = Tile(1, 1), 0.0
    for v in range(1, min(vectors, 12) + 1):
        for r in range(1, min(rows, 14) + 1):
            if r * v + v + 1 > registers:
                continue
            tail = rows * vectors / (-(-rows // r) * r * -(-vectors // v) * v)
            # Latency 4 on two pipes wants eight chains under way.
            chains = min(r * v, 8) / 8
            # Measured: of two tiles of 12, that with 7 loads reaches 0.97 of peak, with 8 0.91.
            loads = 1 - 0.75 * max((r + v) / (r * v) - 0.55, 0)
            efficiency = tail * chains * loads
            if efficiency > best_efficiency:
                best, best_efficiency = Tile(r, v), efficiency
    return best, best_efficiency


@dataclass(frozen=True)
class Columns:
    """The n coordinates of one phase as vectors: `lane_axes` run along vectors, slowest first; the
    others are rows of vectors. Every row ends in a masked vector where lanes do not divide it."""

    phase: Phase
    lane_axes: tuple[int, ...]
    lanes: int
    down: int
    """Neighbouring vectors are those of rows so far apart; 0: of one row."""

    @property
    def lanes_used(self) -> int:
        return math.prod(self.phase.extents[axis] for axis in self.lane_axes)

    @property
    def blocks(self) -> int:
        """Vectors per row."""
        return -(-self.lanes_used // self.lanes)

    @property
    def row_axes(self) -> tuple[int, ...]:
        return tuple(a for a in range(len(self.phase.extents)) if a not in self.lane_axes)

    @property
    def row_count(self) -> int:
        return math.prod(self.phase.extents[axis] for axis in self.row_axes)

    @property
    def vectors(self) -> int:
        return self.blocks * self.row_count

    def tiles(self, vectors: int) -> tuple[int, int]:
        """Tiles of so many vectors, and the vectors left over. A single row's masked vector is
        left over, so that no other tile needs a mask."""
        whole = self.vectors // vectors
        if self.row_count == 1:
            whole = min(whole, self.lanes_used // (vectors * self.lanes))
        return whole, self.vectors - whole * vectors

    def index(self, position: Expr, row: Expr | int = 0) -> Index:
        """The n coordinate at a position along the lanes of a row of vectors."""
        extents = self.phase.extents
        found: dict[int, Expr] = {}
        row = of(row) if isinstance(row, int) else row
        for axes, flat in ((self.lane_axes, position), (self.row_axes, row)):
            items = unflatten(flat, tuple(extents[axis] for axis in axes))
            found.update(zip(axes, items, strict=True))
        return self.phase.index(tuple(found[axis] for axis in range(len(extents))))

    def position(self, index: Index) -> Expr:
        """Where a coordinate stands among the lanes of all vectors of an undivided phase."""
        extents = self.phase.extents
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
        turns = self.row_count // self.down
        inside, block = number % self.row_count, number // self.row_count
        return inside // turns + inside % turns * self.down, block

    def place(self, number: Expr, lane: Expr) -> tuple[Index, tuple[Guard, ...]]:
        """Vector `number`: its n coordinates, and the guard of those that exist."""
        row, block = self.row_and_block(number)
        position = block * self.lanes + lane
        guard = (position, 0, self.lanes_used)
        return self.index(position, row), () if position.within(*guard[1:]) else (guard,)


@dataclass(frozen=True)
class Choice:
    """What the recipe does. `left` is the operand that is broadcast, `right` that read by vectors;
    each is read `direct`ly, from a `panel`, or (right) from a `box`."""

    view: View
    lanes: int
    lane_axes: tuple[int, ...]
    down: int
    tile: Tile
    left: str
    left_width: int
    right: str
    box: tuple[BoxAxis, ...] | None
    right_operand: int
    unrolled: int
    zeros_stand_in: bool
    row_block: int
    """Tiles of rows whose broadcast operand stays in L2 while all columns pass; 0: all rows."""
    group: int
    """Indices of the first axis of k whose products are added at a time; 0: all."""
    left_box: tuple[BoxAxis, ...] | None
    left_operand: int
    """The broadcast operand's copy, where vectors run along the batch."""
    cost: float
    reason: str
    phases: list[Phase] = field(default_factory=list)

    @property
    def grouped(self) -> bool:
        return self.group > 0

    @property
    def interleaved(self) -> bool:
        """Whether every second result along the vectors belongs to another phase."""
        last = len(self.view.n) - 1
        both = len({phase.offsets[-1] for phase in self.phases}) == 2 if last >= 0 else False
        return both and self.phases[0].steps[-1] == 2 and self.lane_axes == (last,)

    def columns(self, phase: Phase) -> Columns:
        return Columns(phase, self.lane_axes, self.lanes, self.down)


def batch_variables(view: View) -> tuple[Variable, ...]:
    """The variables the recipe's loops over the batch bind."""
    return tuple(Variable(f"b{axis}", dim) for axis, dim in enumerate(view.batch))


def group_variable(view: View, group: int) -> Variable:
    """The variable the recipe's loop over groups of k binds."""
    return Variable("group", view.k[0] // group)


def channel_variable(view: View) -> Variable:
    """The variable for the first of the neighbours along the last axis of the batch that share a
    vector."""
    return Variable("channel", view.batch[-1])


def _group(view: View, elements: int, target: Target) -> int:
    """How many indices of the first axis of k to add at a time: a divisor of its extent, whole
    chains, as many as keep the copy in half of L2. `elements`: those of the copy for one index."""
    axis, step = cut(view.k)
    step = step if axis == 0 else 1
    fit = max(target.l2_bytes // 2 // (elements * view.dtype.itemsize), 1)
    found = [g for g in range(1, view.k[0] + 1) if view.k[0] % g == 0 and g % step == 0]
    found = found or [view.k[0]]
    return max((g for g in found if g <= fit), default=found[0])


def choose(body: Graph, lanes: int, target: Target) -> Choice:
    """The cheapest candidate."""
    found = list(_candidates(body, lanes, target))
    return min(found, key=lambda choice: choice.cost)


def _candidates(body: Graph, lanes: int, target: Target) -> Iterator[Choice]:
    for swapped in (False, True):
        view = View(body, swapped)
        if not swapped:
            yield from _along_batch(view, lanes, target)
        rank = len(view.n)
        if swapped and rank == len(view.m) == 1:
            return
        flat = tuple(range(rank))
        yield from _with(view, flat, lanes, target)
        if rank > 1:
            yield from _with(view, flat[-1:], lanes, target)
            yield from _with(view, flat[:1], lanes, target)
            yield from _with(view, (flat[-1], flat[0]), lanes, target)


def _along_batch(view: View, lanes: int, target: Target) -> Iterator[Choice]:
    """The candidate whose vectors run along the last axis of the batch: for one row and few
    columns, all of which are summed at once."""
    columns = math.prod(view.n)
    registers = vector_registers(target)
    if math.prod(view.m) != 1 or len(view.k) < 2 or not 0 < columns < registers - 2:
        return
    if not view.batch or view.batch[-1] < 4 or 0 in view.k or len(view.phases()) > 1:
        return
    while lanes > 1 and lanes // 2 >= view.batch[-1]:
        lanes //= 2
    lane = Variable("probe_lane", lanes)
    outer = tuple(of(variable) for variable in batch_variables(view)[:-1])
    batch = (*outer, of(channel_variable(view)) + of(lane))
    unrolled = _unrolled(view, False)
    phase = view.phases()[0]
    base = Choice(
        view, lanes, (), 0, Tile(1, columns), "box", 0, "box", None, 0, unrolled, False, 0, 0,
        None, 0, 0.0, "", [phase],
    )  # fmt: skip
    whole = Columns(phase, (), 1, 0)

    def boxes(group: int | None) -> list[tuple[tuple[BoxAxis, ...] | None, Case, bool]]:
        found = []
        for vector in (False, True):
            cases, inner = _window_cases(view, base, [whole], batch, group, vector)
            inner |= {lane}
            axes, step = _axes_of(cases[0], [lane]) if cases else (None, 1)
            box = plan_box(view, cases, inner, axes, 1) if axes and step == 1 else None
            found.append((box, cases[0], any(case.guards for case in cases)))
        return found

    probes = boxes(None)
    if any(box is None for box, _, _ in probes) or probes[0][2]:
        return
    elements = sum(math.prod(axis.extent for axis in box or ()) for box, _, _ in probes)
    group = _group(view, -(-elements // view.k[0]), target)
    (left, left_case, _), (right, right_case, guarded) = boxes(group)
    count = math.prod(view.batch) / lanes
    products = count * columns * math.prod(view.k) / 0.6
    copies = count * elements / lanes * TRANSPOSED
    yield replace(
        base, left_box=left, left_operand=left_case.operand, box=right, group=group,
        right_operand=right_case.operand, zeros_stand_in=guarded, right="batch",
        cost=products + copies,
        reason=f"{view.op.name}: lanes along the batch, tile 1x{columns}x{lanes}, both in boxes, "
        f"cost {products + copies:.3g}",
    )  # fmt: skip


def _with(view: View, lane_axes: tuple[int, ...], lanes: int, target: Target) -> Iterator[Choice]:
    """The candidates whose vectors run along these axes of n."""
    phases = view.phases()
    flat = lane_axes == tuple(range(len(view.n)))
    used = math.prod(view.n[axis] for axis in lane_axes)
    if flat and len(phases) > 1:
        phases = [Phase(view.n, (1,) * len(view.n), (0,) * len(view.n))]
    if phases:
        used = max(math.prod(p.extents[axis] for axis in lane_axes) for p in phases)
    while lanes > 1 and lanes // 2 >= used:
        lanes //= 2
    rows, depth = math.prod(view.m), math.prod(view.k)
    columns = [Columns(phase, lane_axes, lanes, 0) for phase in phases]
    vectors = sum(column.vectors for column in columns)
    count = math.prod(view.batch)
    widest = max((column.vectors for column in columns), default=1)
    tile, efficiency = choose_tile(max(rows, 1), max(widest, 1), vector_registers(target))
    down = 0 if flat else _down(columns, tile)
    columns = [replace(column, down=down) for column in columns]
    products = count * rows * vectors * depth / _phase_share(view, phases) / max(efficiency, 1e-6)
    unrolled = _unrolled(view, len(phases) > 1)
    batch = tuple(of(variable) for variable in batch_variables(view))
    left, left_width, left_cost = _left(view, batch, tile, vectors, lanes)
    base = Choice(
        view, lanes, lane_axes, down, tile, left, left_width,
        "panel", None, 0, unrolled, False, 0, 0, None, 0, 0.0, "", phases,
    )  # fmt: skip
    scattered = _scatter_cost(view, columns, batch) * count * rows * vectors
    if base.interleaved:
        scattered /= 8
    for right in _rights(view, base, columns, batch, target):
        out = scattered / 8 if right.group else scattered
        cost = products + left_cost + right.cost + out
        reason = (
            f"{view.op.name}{' swapped' if view.swapped else ''}: lanes along n{list(lane_axes)}, "
            f"tile {tile.rows}x{tile.vectors}x{lanes}, left {left}, right {right.kind}, cost {cost:.3g} "
            f"(products {products:.3g}, copies {right.cost + left_cost:.3g}, "
            f"scattered {out:.3g})"
        )
        block = _row_block(view, tile, left_width if left == "panel" else 0, target)
        if right.kind in ("streamed", "turned"):
            base = replace(base, tile=Tile(1, min(THIN_VECTORS[right.kind], max(widest, 1))))
        yield replace(
            base, down=0 if right.group else down, row_block=block if right.kind == "panel" else 0, right=right.kind, box=right.box, right_operand=right.operand, group=right.group,
            zeros_stand_in=right.guarded, cost=cost, reason=reason,
        )  # fmt: skip


def _down(columns: list[Columns], tile: Tile) -> int:
    """How far apart the rows of a tile's vectors are. A tile of one row of results shares loads
    among the windows of neighbouring rows; with more, registers are too few to hold what is shared,
    so that windows are kept apart."""
    if len(columns) != 1 or columns[0].row_count % tile.vectors or tile.vectors == 1:
        return 0
    if tile.rows == 1:
        return 1
    return columns[0].row_count // tile.vectors if columns[0].blocks == 1 else 0


def _row_block(view: View, tile: Tile, width: int, target: Target) -> int:
    """Tiles of rows to take at a time: as many as fill 0.4 of L2, or all where all fit."""
    rows, depth = math.prod(view.m), math.prod(view.k)
    tile_bytes = (width or tile.rows) * depth * view.dtype.itemsize
    tiles = -(-rows // tile.rows)
    if tiles * tile_bytes <= target.l2_bytes or len(view.n) > 1:
        return 0
    return max(int(0.4 * target.l2_bytes) // tile_bytes, 1)


def _phase_share(view: View, phases: list[Phase]) -> float:
    """How many times fewer products a phase has, its kernel positions being those that fit."""
    return float(math.prod(phases[0].steps)) if len(phases) > 1 else 1.0


def _unrolled(view: View, needed: bool) -> int:
    """The first axis of k that is written out: kernel positions are few."""
    axis, count = len(view.k), 1
    while axis > 1 and (needed or (view.k[axis - 1] <= TAP_AXIS and count * view.k[axis - 1] <= TAPS)):
        axis -= 1
        count *= view.k[axis]
    return axis


def _k_variables(view: View) -> tuple[Variable, ...]:
    return tuple(Variable(f"probe_k{axis}", dim) for axis, dim in enumerate(view.k))


def _left(
    view: View, batch: Index, tile: Tile, vectors: int, lanes: int
) -> tuple[str, int, float]:
    """How the broadcast operand is read, the width of its panel, and the cost of that."""
    rows, depth = math.prod(view.m), math.prod(view.k)
    m = Variable("probe_m", max(rows, 2))
    variables = _k_variables(view)
    case = view.broadcast(batch, unflatten(of(m), view.m), tuple(of(v) for v in variables))
    width = -(-tile.rows // lanes) * lanes
    copies = math.prod(view.batch) * -(-rows // tile.rows) * depth * max(width // lanes, 1)
    if case is None or case.guards or view.linear(case) is None:
        return "panel", width, copies * GATHERED
    linear = view.linear(case)
    assert linear is not None
    along_rows = linear.coefficient(m)
    along_k = [linear.coefficient(v) for v in variables if v.extent > 1]
    if None in along_k or vectors * lanes < LEFT_COLUMNS:
        each = TRANSPOSED if along_k and along_k[-1] == 1 else GATHERED
        return ("panel", width, copies * each) if None in along_k else ("direct", width, 0.0)
    size = view.dtype.itemsize
    far = along_rows is not None and rows > 1 and abs(along_rows) * size % ALIASING == 0
    steep = along_rows == 1 and bool(along_k) and abs(along_k[-1] or 0) * size >= 64 and depth >= 256
    if len(view.k) == 1 and depth > 64 and rows > tile.rows and (far or steep):
        each = COPIED if along_rows == 1 else TRANSPOSED
        batched = any(v in linear.variables() for i in batch for v in i.variables())
        times = 1 if batched else math.prod(view.batch)
        return "panel", width, copies / times * each
    return "direct", width, 0.0


@dataclass(frozen=True)
class _Right:
    """A way to read the vector operand. `guarded`: zeros stand for products that are skipped."""

    kind: str
    cost: float = 0.0
    guarded: bool = False
    box: tuple[BoxAxis, ...] | None = None
    operand: int = 0
    group: int = 0


def _rights(
    view: View, base: Choice, columns: list[Columns], batch: Index, target: Target
) -> Iterator[_Right]:
    rows, depth, count = math.prod(view.m), math.prod(view.k), math.prod(view.batch)
    lane = Variable("probe_lane", max(base.lanes, 2))
    k = tuple(of(v) for v in _k_variables(view))
    flat = base.lane_axes == tuple(range(len(view.n)))
    vectors = sum(column.vectors for column in columns)
    if not columns or 0 in view.k:
        yield _Right("panel")
        return
    cases = [view.vector(batch, _any_place(column, lane), k) for column in columns]
    thin = _thin(view, base, cases[0], lane) if flat and rows == 1 else None
    if thin is not None:
        yield thin
        return
    if len(columns) == 1 and view.stride(cases[0], lane) == 1:
        if not (flat and _panel_pays(view, cases[0], rows, columns[0])):
            yield _Right("direct")
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
        yield _Right("panel", count * vectors * depth * each, guarded)
        return
    found = _box(view, base, columns, batch, target)
    if found is not None:
        yield found


def _thin(view: View, base: Choice, case: Case | None, lane: Variable) -> _Right | None:
    """One row of results, the other operand a matrix that is read once."""
    if len(view.k) != 1 or base.left != "direct" or base.lanes < 4 or view.k[0] < base.lanes:
        return None
    if view.stride(case, lane) == 1:
        return _Right("streamed")
    return _Right("turned") if view.stride(case, _k_variables(view)[0]) == 1 else None


def _any_place(columns: Columns, lane: Variable) -> Index:
    """The n coordinates of some vector, for probing."""
    number = Variable("probe_v", max(columns.vectors, 2))
    return columns.place(of(number), of(lane))[0]


def _panel_pays(view: View, case: Case | None, rows: int, columns: Columns) -> bool:
    """Whether columns that could be read where they lie are better copied first."""
    if case is None or len(view.k) != 1 or view.k[0] < 64 or columns.blocks < 2:
        return False
    linear = view.linear(case)
    step = linear.coefficient(_k_variables(view)[0]) if linear is not None else None
    aliased = step is not None and step * view.dtype.itemsize % ALIASING == 0
    return rows >= (PANEL_ROWS_ALIASED if aliased else PANEL_ROWS)


def _box(
    view: View, base: Choice, columns: list[Columns], batch: Index, target: Target
) -> _Right | None:
    """The vector operand through a box, where one does."""
    lane = Variable("probe_lane", max(base.lanes, 2))
    cases, inner = _window_cases(view, base, columns, batch, None)
    if not cases:
        return None
    n = _n_variables(columns[0])
    axes, step = _axes_of(cases[0], [n[axis] for axis in base.lane_axes])
    if axes is None or (len(axes) > 1 and step != 1):
        return None
    split = step if len(axes) == 1 else 1
    box = plan_box(view, cases, inner, axes, split)
    taps = itertools.product(*(range(dim) for dim in view.k[base.unrolled :]))
    probes = (view.vector(batch, _any_place(columns[0], lane), _at_tap(view, base, t)) for t in taps)
    probe = next((case for case in probes if case is not None), None)
    if box is None or probe is None or _box_stride(box, probe, lane) != 1:
        return None
    elements = math.prod(axis.extent for axis in box)
    source = _contiguous_axis(view, box, cases[0])
    each = COPIED if source == box[-1].axis and box[-1].split == 1 else TRANSPOSED
    each = GATHERED if source is None or box[-1].split > 1 else each
    cost = elements * math.prod(view.batch) / base.lanes * each
    guarded = any(case.guards for case in cases)
    group = 0
    if _scatter_cost(view, columns, batch) and base.unrolled > 0 and len(columns) == 1:
        group = _group(view, -(-elements // view.k[0]), target)
        cases, inner = _window_cases(view, base, columns, batch, group)
        box = plan_box(view, cases, inner, axes, split)
        if base.left != "direct" or box is None:
            return None
    return _Right("box", cost, guarded, box, cases[0].operand, group)


def _n_variables(columns: Columns) -> list[Variable]:
    return [Variable(f"probe_n{a}", extent) for a, extent in enumerate(columns.phase.extents)]


def _window_cases(
    view: View, base: Choice, columns: list[Columns], batch: Index, group: int | None,
    vector: bool = True,
) -> tuple[list[Case], frozenset[Variable]]:  # fmt: skip
    """What the vector operand (or the other) is asked for by all phases and kernel positions, with
    variables for all else; and those of them that run inside a box."""
    variables = list(_k_variables(view))
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


def _at_tap(view: View, base: Choice, tap: tuple[int, ...]) -> Index:
    variables = _k_variables(view)
    return (*(of(v) for v in variables[: base.unrolled]), *(of(t) for t in tap))


def _axes_of(case: Case, lanes: list[Variable]) -> tuple[tuple[int, ...] | None, int]:
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
        at: Expr = case.index[axis.axis] - axis.base - axis.low  # type: ignore[assignment,operator]
        if axis.split > 1:
            dims.append(axis.split)
            index.append(at % axis.split)
            at = at // axis.split
        dims.append(-(-axis.extent // axis.split))
        index.append(at)
    return flatten(index, dims).coefficient(lane)


def _contiguous_axis(view: View, box: tuple[BoxAxis, ...], case: Case) -> int | None:
    """The axis along which the operand lies contiguous in memory."""
    shape: Shape = view.body.type_of(view.node.operands[case.operand]).shape
    probes = [Variable(f"probe_x{axis}", max(dim, 2)) for axis, dim in enumerate(shape)]
    plain = Case(case.operand, tuple(of(v) for v in probes))
    order = [box[-1].axis, *(axis.axis for axis in box)]
    return next((axis for axis in order if view.stride(plain, probes[axis]) == 1), None)


def _scatter_cost(view: View, columns: list[Columns], batch: Index) -> float:
    """Cost of storing one vector of results."""
    if not columns:
        return 0.0
    lane = Variable("probe_lane", max(columns[0].lanes, 2))
    n = _any_place(columns[0], lane)
    m = unflatten(of(Variable("probe_m", max(math.prod(view.m), 2))), view.m)
    shape = view.node.types[0].shape
    stride = flatten(view.out(batch, m, n), shape).coefficient(lane)
    return 0.0 if stride == 1 else SCATTERED
