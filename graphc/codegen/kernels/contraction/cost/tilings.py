"""Register tiles for a problem: which coordinates run along vectors, how the other operand is read.

In: a problem and a target. Out: `tilings`, from which the strategies around a register tile start,
each with what it costs whatever the vector operand's copies are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from graphc.codegen.kernels.contraction.cost.broadcast_packing import BroadcastPacking
from graphc.codegen.kernels.contraction.cost.costs import (
    COPIED,
    GATHERED,
    TRANSPOSED,
    any_place,
    scatter_cost,
)
from graphc.codegen.kernels.contraction.cost.halo_plan import HaloPlan, plan_halo
from graphc.codegen.kernels.contraction.cost.tiles import (
    MOST_COLUMNS,
    Columns,
    Tile,
    choose_tile,
    most_columns,
    vector_registers,
)
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.kernels.contraction.problem.view import (
    ContractionView,
    ResidueClass,
    batch_variables,
)
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, Symbol, at_least, is_single, known_number, symbols_in
from graphc.ir.types import row_major_strides
from graphc.ops.kinds.index_expr import Variable, of
from graphc.ops.kinds.movement import Case
from graphc.records import record, replace

TAPS, TAP_AXIS = 32, 7
"""Kernel positions written out, not looped over: so many at most, along axes no longer than this.
"""
PACKED_COLUMNS = 64
"""Columns from which copying an ill-placed broadcast operand pays."""
PACKED_VECTORS = 8
"""Vectors that its copy is wide at most, where tiles of rows lie side by side."""
OPEN_ROWS = 4
"""Rows to choose a tile for at the least where their number is known only at run time: there may be
far more of them than is typical."""
WIDENED_BROADCAST = 0.25
"""Cost of widening an element of it where it is multiplied, beside reading one that is wide."""


@record
class Tiling:
    """Vectors of `lanes` along the axes `lane_axes` of n, in a register tile. `unrolled`: the first
    axis of k that is written out. `packing`: how the broadcast operand is copied, if it is."""

    problem: ContractionProblem
    lanes: int
    lane_axes: tuple[int, ...]
    columns: tuple[Columns, ...]
    """Those of each residue class of the results."""
    tile: Tile
    unrolled: int
    packing: BroadcastPacking | None
    packing_cost: float
    products: float
    scattered: float
    halo: HaloPlan | None = None
    """A halo buffer of the broadcast operand, whose rows are positions of an open plane."""
    skips: bool = False
    """Whether zeros in a copy of the broadcast operand stand for products that are skipped."""

    @property
    def bound(self) -> float:
        """The cost of all but the vector operand's copy and the results."""
        return self.products + self.packing_cost

    @property
    def is_flat(self) -> bool:
        """Whether vectors run over all columns."""
        return self.lane_axes == tuple(range(len(self.problem.view.n)))

    @property
    def is_interleaved(self) -> bool:
        """Whether every second result along the vectors belongs to another residue class."""
        last = len(self.problem.view.n) - 1
        if last < 0 or self.lane_axes != (last,):
            return False
        classes = [column.residues for column in self.columns]
        return len({each.offsets[-1] for each in classes}) == 2 and classes[0].steps[-1] == 2

    @property
    def description(self) -> str:
        tile = f"{self.tile.rows}x{self.tile.vectors}x{self.lanes}"
        how = "in place" if self.packing is None else "packed"
        how = how if self.halo is None else "from a halo buffer"
        return f"lanes along n{list(self.lane_axes)}, tile {tile}, broadcast operand {how}"


def tilings(problem: ContractionProblem, target: Target, limit: float) -> Iterator[Tiling]:
    """The tilings that cost less than `limit`, the same ones to each strategy that asks, whose
    columns are numbers. A product of matrices has its operands in one role: the other is the same
    transposed. It is asked too of a convolution over a plane of any size: its weights, if they are
    frozen, are packed for it."""
    view = problem.view
    rank, over_open_plane = len(view.n), view.has_windows and problem.open & Coordinates.ROWS
    if view.swapped and rank == len(view.m) == 1 and not over_open_plane:
        return
    flat = tuple(range(rank))
    for axes in (flat, flat[-1:], flat[:1], (flat[-1], flat[0])) if rank > 1 else (flat,):
        if (axes, target) not in problem.tilings:
            problem.tilings[axes, target] = _tiling(problem, axes, axes == flat, target)
        tiling = problem.tilings[axes, target]
        if tiling is not None and tiling.bound < limit:
            yield tiling


def _tiling(
    problem: ContractionProblem, lane_axes: tuple[int, ...], flat: bool, target: Target
) -> Tiling | None:
    """None where the broadcast operand has to be copied, for its products that are skipped, and
    the copy would grow with a size known only at run time."""
    view = problem.view
    classes = view.residue_classes()
    split = len(classes) > 1 and not flat
    if flat and len(classes) > 1:
        classes = [ResidueClass(view.n, (1,) * len(view.n), (0,) * len(view.n))]
    used = max(math.prod(each.extents[axis] for axis in lane_axes) for each in classes)
    lanes = problem.lanes_for(used)
    columns = [Columns(each, lane_axes, lanes, 0) for each in classes]
    vectors = sum(column.vectors for column in columns)
    unrolled = first_unrolled(view, split)
    most = _most_columns(problem, columns, target)
    rows = problem.typical(problem.rows, at_least=OPEN_ROWS)
    for spare in (0, 1):
        tile, efficiency = choose_tile(
            rows, max(column.vectors for column in columns),
            vector_registers(target) - spare,
            lambda tile: tile.vectors <= most and (flat or _apart(columns, tile)),
        )  # fmt: skip
        taps_first = unrolled if split else 0
        packing, packing_cost = _packing(problem, tile, vectors, lanes, taps_first)
        if packing is not None or tile.rows == 1 or not view.widens(broadcast=True):
            break  # what is widened where it is multiplied takes one register more
    down = 0 if flat else _down(columns, tile)
    columns = [replace(column, down=down) for column in columns]
    # A residue class has the kernel positions that fit.
    share = float(math.prod(classes[0].steps)) if split else 1.0
    results = problem.typical(problem.batch_count * problem.rows) * vectors
    halo, skips = None, False
    if packing is not None:
        case = _broadcast_case(problem)
        skips = case is None or bool(case.guards)
        if _sizes_of_copy(problem, case):
            packing = None
            if skips:
                halo = broadcast_halo(problem) if problem.open & Coordinates.ROWS else None
                if halo is None:
                    return None
                fills = problem.typical(problem.batch_count * halo.elements)
                packing_cost = COPIED * fills / lanes
    if known_number(math.prod(view.m[1:])) is None:
        # Lines of the plane are no number of elements apart: an address each, were they written
        # out, of which there are too few registers.
        unrolled = max(unrolled, len(view.k) - 1)
    return Tiling(
        problem, lanes, lane_axes, tuple(columns), tile, unrolled, packing, packing_cost,
        products=results * problem.typical(problem.depth) / share / max(efficiency, 1e-6),
        scattered=scatter_cost(problem, columns) * results, halo=halo, skips=skips,
    )  # fmt: skip


def broadcast_halo(problem: ContractionProblem) -> HaloPlan | None:
    """The halo buffer of the broadcast operand, of one element of the batch, its axes in the
    operand's order; None where none does."""
    view = problem.view
    m = [Variable(f"probe_m{axis}", extent) for axis, extent in enumerate(view.m)]
    k = k_variables(view)
    case = view.broadcast(problem.batch, tuple(map(of, m)), tuple(map(of, k)))
    if case is None:
        return None
    return plan_halo(view, [case], frozenset((*m, *k)), (), 1, grows=True)


def _most_columns(problem: ContractionProblem, columns: Sequence[Columns], target: Target) -> int:
    """Vectors of a tile at most."""
    if problem.rows != 1:
        return MOST_COLUMNS
    view, lane = problem.view, Variable("probe_lane", max(problem.lanes, 2))
    k = tuple(of(variable) for variable in k_variables(view))
    case = view.vector(problem.batch, any_place(columns[0], lane), k)
    return most_columns(target, len(view.dequantized_from(case)))


def first_unrolled(view: ContractionView, needed: bool) -> int:
    """The first axis of k that is written out: kernel positions are few."""
    axis, count = len(view.k), 1
    while axis > 1:
        extent = known_number(view.k[axis - 1])
        if extent is None or not (needed or (extent <= TAP_AXIS and count * extent <= TAPS)):
            break
        axis -= 1
        count *= extent
    return axis


def _packing(
    problem: ContractionProblem, tile: Tile, vectors: int, lanes: int, taps_first: int
) -> tuple[BroadcastPacking | None, float]:
    """How the broadcast operand is copied, and the cost of that; None where it is read in place."""
    view = problem.view
    rows, depth, count = map(problem.typical, (problem.rows, problem.depth, problem.batch_count))
    m = Variable("probe_m", at_least(problem.rows, 2))
    variables = k_variables(view)
    case = view.broadcast(problem.batch, problem.m(of(m)), tuple(of(v) for v in variables))
    width = -(-tile.rows // lanes) * lanes
    packing = BroadcastPacking(width, tile.rows, taps_first)
    copies = count * -(-rows // tile.rows) * depth * max(width // lanes, 1)
    linear = None if case is None or case.guards else view.linear(case)
    if linear is None:
        return packing, copies * GATHERED
    if taps_first:
        # Each class reads few kernel positions: little of a cache line, if they lie side by side.
        return packing, copies / count * GATHERED
    along_rows = linear.coefficient(m)
    along_k = [linear.coefficient(v) for v in variables if not is_single(v.extent)]
    widened = _is_widened_often(problem, tile, vectors)
    if None in along_k or (vectors * lanes < PACKED_COLUMNS and not (widened and len(view.k) > 1)):
        each = TRANSPOSED if along_k and along_k[-1] == 1 else GATHERED
        return (packing, copies * each) if None in along_k else (None, 0.0)
    # Transposed: each k of a tile lies on another line, each line holds several tiles. Else a
    # tile's rows are a few runs of memory, also where these lie a power of two apart.
    transposed = along_rows == 1 and bool(along_k)
    transposed = (
        transposed
        and abs(problem.typical(0 if along_k[-1] is None else along_k[-1])) * view.dtype.itemsize
        >= 64
    )
    large = depth >= 64 and max(depth, vectors * lanes) >= 256
    each = COPIED if transposed and large and rows > tile.rows and len(view.k) == 1 else 0.0
    if not each and widened:
        packing = replace(packing, channels_first=_lies_by_channels(view, along_k))
        in_runs = along_k == [1] or packing.channels_first
        each = COPIED if along_rows == 1 else TRANSPOSED if in_runs else GATHERED
    if not each:
        return None, 0.0
    batched = any(v in linear.variables() for i in problem.batch for v in i.variables())
    together = math.lcm(tile.rows, lanes)
    if together <= PACKED_VECTORS * lanes:
        packing = replace(packing, width=together)
        copies = count * -(-rows // lanes) * depth
    cost = copies / (1 if batched else count) * each
    in_place = count * rows * depth * -(-vectors // tile.vectors) * WIDENED_BROADCAST
    return (packing, cost) if len(view.k) == 1 or cost < in_place else (None, 0.0)


def _lies_by_channels(view: ContractionView, along_k: Sequence[Extent | None]) -> bool:
    """Whether k, whose last coordinate is the place in a pair of channels, lies in memory channel
    by channel, each with its taps: a convolution's weight."""
    if len(view.k) == 1 or view.op.pairing is None:
        return False
    pair, *taps, place = view.k
    strides = row_major_strides((pair, place, *taps))
    in_memory = (strides[0], *strides[2:], -strides[1])
    there = [step for step, extent in zip(in_memory, view.k, strict=True) if extent != 1]
    return along_k == there


def _is_widened_often(problem: ContractionProblem, tile: Tile, vectors: int) -> bool:
    """Whether elements that are no floats of the sums' dtype would become so for several tiles."""
    return problem.rows != 1 and vectors > tile.vectors and problem.view.widens(broadcast=True)


def _broadcast_case(problem: ContractionProblem) -> Case | None:
    """The broadcast operand's element at any row and k."""
    m = Variable("probe_m", at_least(problem.rows, 2))
    k = tuple(of(variable) for variable in k_variables(problem.view))
    return problem.view.broadcast(problem.batch, problem.m(of(m)), k)


def _sizes_of_copy(problem: ContractionProblem, case: Case | None) -> frozenset[Symbol]:
    """The sizes known only at run time that a copy of the broadcast operand grows with. Where there
    are some, it is read in place, at the cost of a copy."""
    view = problem.view
    used = {v for item in case.index for v in item.variables()} if case is not None else set()
    batch = [v.extent for v in batch_variables(view) if case is None or v in used]
    return symbols_in(problem.rows, *view.k, *batch)


def _apart(columns: Sequence[Columns], tile: Tile) -> bool:
    """Whether the windows of a tile's vectors share no loads. LLVM would hold what is shared in
    registers, of which a tile of several rows has none to spare."""
    if tile.rows == 1 or tile.vectors == 1:
        return True
    if any(column.row_count > 1 and 1 < column.blocks < tile.vectors for column in columns):
        return False
    single = any(column.row_count > 1 and column.blocks == 1 for column in columns)
    return not single or (len(columns) == 1 and columns[0].row_count % tile.vectors == 0)


def _down(columns: Sequence[Columns], tile: Tile) -> int:
    """How far apart the rows of a tile's vectors are: neighbours in a tile of one row, whose
    windows share loads; else as far as can be."""
    if len(columns) != 1 or columns[0].row_count % tile.vectors or tile.vectors == 1:
        return 0
    if tile.rows == 1:
        return 1
    return columns[0].row_count // tile.vectors if columns[0].blocks == 1 else 0
