"""How a contraction is cut: roles of its operands, register tile, copies. By a stated cost model.

In: a kernel's body around one contraction, lanes, target. Out: a `Choice`, with its reason as text.

The unit of the model is the time of one vector FMA. A candidate is a choice of the coordinates that
run along vectors, and of which operand is broadcast. Its cost is

    products / (lanes used · tile's efficiency) + copies + scattered results

and the cheapest one wins; ties go to the one listed first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from graphc.codegen.recipes.contraction.choice import Choice
from graphc.codegen.recipes.contraction.halo import BoxAxis, plan_box
from graphc.codegen.recipes.contraction.k_blocks import CHAIN
from graphc.codegen.recipes.contraction.lines import lines_of
from graphc.codegen.recipes.contraction.operands import (
    PANEL_ROWS,
    TRANSPOSED,
    axes_of,
    first_unrolled,
    group_size,
    k_variables,
    left_operand,
    right_operands,
    scatter_cost,
    window_cases,
)
from graphc.codegen.recipes.contraction.tiles import Columns, Tile, choose_tile, vector_registers
from graphc.codegen.recipes.contraction.view import (
    ContractionView,
    Phase,
    batch_variables,
    channel_variable,
)
from graphc.codegen.recipes.contraction.windows import copied_elements, windows_of
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph
from graphc.ops.kinds.index_expr import Variable, of
from graphc.ops.kinds.movement import Case

MOST_LISTED = 1 << 16
"""Pairs of position and tap up to which listing them is considered: on larger planes few are off
the edge."""
LISTED, LINES = 0.97, 0.93
"""Efficiency of loops over listed taps beside those that are written out."""
FAR = 3.0
"""Times as long as a vector of elements takes to be transposed, where all of them exceed L2."""

ROWS_OF_L2, COLUMNS_OF_L2 = 0.3, 0.4
"""Parts of L2 for the copies of a block of rows and of a block of columns (with its sums)."""


Family = Callable[[float], Iterator[Choice]]
"""Candidates that may cost less than a limit; others may be among them."""


def choose(body: Graph, lanes: int, target: Target) -> Choice:
    """The cheapest candidate, of several the first."""
    best: Choice | None = None
    for family in _families(body, lanes, target):
        for found in family(math.inf if best is None else best.cost):
            if best is None or found.cost < best.cost:
                best = found
    assert best is not None
    return best


def _families(body: Graph, lanes: int, target: Target) -> Iterator[Family]:
    for swapped in (False, True):
        view = ContractionView(body, swapped)
        if not swapped:
            yield lambda limit, view=view: _along_batch(view, lanes, target)  # type: ignore[misc]
            yield lambda limit, view=view: _listed(view, lanes, target)  # type: ignore[misc]
        yield lambda limit, view=view: by_lines(view, lanes, target)  # type: ignore[misc]
        rank = len(view.n)
        if swapped and rank == len(view.m) == 1:
            return
        flat = tuple(range(rank))
        for axes in (flat, flat[-1:], flat[:1], (flat[-1], flat[0])) if rank > 1 else (flat,):
            yield functools.partial(_with, view, axes, lanes, target)


def _along_batch(view: ContractionView, lanes: int, target: Target) -> Iterator[Choice]:
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
    unrolled = first_unrolled(view, False)
    phase = view.phases()[0]
    base = Choice(
        view, lanes, (), 0, Tile(1, columns), "box", 0, "box", None, 0, unrolled, False, 0, 0,
        None, 0, 0.0, "", [phase],
    )  # fmt: skip
    whole = Columns(phase, (), 1, 0)

    def boxes(group: int | None) -> list[tuple[tuple[BoxAxis, ...], Case, bool]]:
        """For each operand its box, a case, and whether there are guards; less where none fits."""
        found = []
        for vector in (False, True):
            cases, inner = window_cases(view, base, [whole], batch, group, vector)
            inner |= {lane}
            axes, step = axes_of(cases[0], [lane]) if cases else (None, 1)
            box = plan_box(view, cases, inner, axes, 1) if axes and step == 1 else None
            if box is not None:
                found.append((box, cases[0], any(case.guards for case in cases)))
        return found

    probes = boxes(None)
    if len(probes) < 2 or probes[0][2]:
        return
    elements = sum(math.prod(axis.extent for axis in box) for box, _, _ in probes)
    group = group_size(view, -(-elements // view.k[0]), target)
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


def _listed(view: ContractionView, lanes: int, target: Target) -> Iterator[Choice]:
    """The candidates whose taps are listed: vectors along images, or along the channels of a
    weight gradient."""
    for by_column in (False, True):
        extents = view.n if by_column else view.batch
        if not extents or extents[0] < lanes or math.prod(view.k[1:]) > CHAIN or 0 in view.k:
            continue
        listed = math.prod(view.n[by_column:]) * math.prod(view.k[1:])
        if listed > MOST_LISTED:
            continue
        windows = windows_of(view, by_column)
        if windows is None or not windows.products:
            continue
        rows, vectors = math.prod(view.m), -(-windows.extent // lanes)
        positions = math.prod(windows.positions)
        # Whole tiles of whole vectors, or one tile for all.
        parts = {vectors} if windows.extent % lanes else _divisors(vectors)
        tile, efficiency = choose_tile(
            max(rows, 1), vectors, vector_registers(target), functools.partial(_takes, parts)
        )
        if efficiency <= 0:
            continue
        groups = math.prod(view.batch if by_column else view.batch[1:])
        count = groups * vectors * rows * view.k[0] * windows.products
        products = count / (LISTED * efficiency)
        elements = copied_elements(view, windows)
        far = elements * tile.vectors * lanes * view.dtype.itemsize > target.l2_bytes
        moved = elements * (FAR if far else 1.0) + rows * positions
        copies = groups * vectors * moved * TRANSPOSED
        what = "channels" if by_column else "images"
        reason = (
            f"{view.op.name}: lanes along {what}, tile {tile.rows}x{tile.vectors}x{lanes}, taps "
            f"listed, cost {products + copies:.3g} (products {products:.3g}, copies {copies:.3g})"
        )
        yield Choice(
            view, lanes, (0,) if by_column else (), 0, tile, "direct", 0, "listed", None,
            windows.operand, len(view.k), False, 0, 0, None, 0, products + copies, reason,
            view.phases()[:1],
        )  # fmt: skip


def by_lines(view: ContractionView, lanes: int, target: Target) -> Iterator[Choice]:
    """The candidate whose rows are positions, which leaves out what falls on padding. Vectors run
    along output channels, which must lie side by side."""
    if len(view.n) != 1 or 0 in (*view.n, *view.k) or math.prod(view.k[1:]) > CHAIN:
        return
    while lanes > 1 and lanes // 2 >= view.n[0]:
        lanes //= 2
    lane = Variable("probe_lane", max(lanes, 2))
    phase = Phase(view.n, (1,), (0,))
    columns = Columns(phase, (0,), lanes, 0)
    batch = tuple(of(variable) for variable in batch_variables(view))
    k = tuple(of(variable) for variable in k_variables(view))
    if view.stride(view.vector(batch, (of(lane),), k), lane) != 1:
        return
    line = view.m[-1] if view.m else 1
    tile, efficiency = choose_tile(line, columns.vectors, vector_registers(target))
    lines = lines_of(view, tile.rows)
    if lines is None or not lines.products or efficiency <= 0:
        return
    sums = math.prod(view.m) * tile.vectors * lanes * view.dtype.itemsize
    if sums > target.l2_bytes // 2:
        return
    vectors = math.prod(view.batch) * columns.vectors
    products = vectors * view.k[0] * lines.products / (LINES * efficiency)
    out = vectors * math.prod(view.m) * scatter_cost(view, [columns], batch)
    reason = (
        f"{view.op.name}{' swapped' if view.swapped else ''}: lanes along n[0], tile "
        f"{tile.rows}x{tile.vectors}x{lanes}, by lines, cost {products + out:.3g} "
        f"(products {products:.3g}, scattered {out:.3g})"
    )
    yield Choice(
        view, lanes, (0,), 0, tile, "direct", 0, "lines", None, 0, len(view.k), False, 0, 0, None,
        0, products + out, reason, [phase],
    )  # fmt: skip


def _divisors(count: int) -> set[int]:
    return {part for part in range(1, count + 1) if count % part == 0}


def _takes(vectors: set[int], tile: Tile) -> bool:
    """Whether a tile has one of these numbers of vectors."""
    return tile.vectors in vectors


def _with(
    view: ContractionView, lane_axes: tuple[int, ...], lanes: int, target: Target, limit: float
) -> Iterator[Choice]:
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
    registers = vector_registers(target)
    tile, efficiency = choose_tile(
        max(rows, 1), max(widest, 1), registers, lambda tile: flat or _apart(columns, tile)
    )
    down = 0 if flat else _down(columns, tile)
    columns = [replace(column, down=down) for column in columns]
    products = count * rows * vectors * depth / _phase_share(view, phases) / max(efficiency, 1e-6)
    unrolled = first_unrolled(view, len(phases) > 1)
    batch = tuple(of(variable) for variable in batch_variables(view))
    left, left_width, left_cost = left_operand(view, batch, tile, vectors, lanes, len(phases))
    if products + left_cost >= limit:
        return
    base = Choice(
        view, lanes, lane_axes, down, tile, left, left_width,
        "panel", None, 0, unrolled, False, 0, 0, None, 0, 0.0, "", phases,
    )  # fmt: skip
    scattered = scatter_cost(view, columns, batch) * count * rows * vectors
    if base.interleaved:
        scattered /= 8
    for right in right_operands(view, base, columns, batch, target):
        out = scattered / 8 if right.group else scattered
        cost = products + left_cost + right.cost + out
        copies = right.cost + left_cost
        reason = (
            f"{view.op.name}{' swapped' if view.swapped else ''}: lanes along n{list(lane_axes)}, "
            f"tile {tile.rows}x{tile.vectors}x{lanes}, left {left}, right {right.kind}, "
            f"cost {cost:.3g} (products {products:.3g}, copies {copies:.3g}, scattered {out:.3g})"
        )
        if right.vectors:
            base = replace(base, tile=Tile(1, min(right.vectors, max(widest, 1))))
        row_block, column_block, by_block = 0, 1, False
        if right.kind in ("panel", "direct") and len(view.k) == 1 == len(view.n):
            left_copy = left_width if left == "panel" else 0
            row_block, column_block, by_block = _blocks(view, tile, lanes, left_copy, target)
        yield replace(
            base, down=0 if right.group else down, row_block=row_block, column_block=column_block,
            left_by_block=by_block,
            right=right.kind, box=right.box, right_operand=right.operand, group=right.group,
            zeros_stand_in=right.guarded, cost=cost, reason=reason,
        )  # fmt: skip


def _apart(columns: list[Columns], tile: Tile) -> bool:
    """Whether the windows of a tile's vectors share no loads. LLVM would hold what is shared in
    registers, of which a tile of several rows has none to spare."""
    if tile.rows == 1 or tile.vectors == 1:
        return True
    if any(column.row_count > 1 and 1 < column.blocks < tile.vectors for column in columns):
        return False
    single = any(column.row_count > 1 and column.blocks == 1 for column in columns)
    return not single or (len(columns) == 1 and columns[0].row_count % tile.vectors == 0)


def _down(columns: list[Columns], tile: Tile) -> int:
    """How far apart the rows of a tile's vectors are: neighbours in a tile of one row, whose
    windows share loads; else as far as can be."""
    if len(columns) != 1 or columns[0].row_count % tile.vectors or tile.vectors == 1:
        return 0
    if tile.rows == 1:
        return 1
    return columns[0].row_count // tile.vectors if columns[0].blocks == 1 else 0


def _blocks(
    view: ContractionView, tile: Tile, lanes: int, left_width: int, target: Target
) -> tuple[int, int, bool]:
    """Tiles of rows, and tiles of columns, to take at a time; whether each block of rows is copied
    by itself. Rows: as many as fill a part of L2 with one chain, or all (0) where all fit. As few
    as can be where the body reads more matrices than it multiplies and the packed columns fit: then
    all of them are read along their rows. Columns: as many as keep their sums and their copy in
    another part; with few rows, which are soon done with it, as many as keep their copy in L1.
    `left_width`: columns of the copy of the broadcast operand, 0 where there is none."""
    rows, depth, size = math.prod(view.m), math.prod(view.k), view.dtype.itemsize
    group = left_width // tile.rows if left_width and left_width % tile.rows == 0 else 1
    width = tile.vectors * lanes
    columns = max(-(-view.n[0] // width), 1)
    chain = max(min(depth, CHAIN), 1) * size
    row_tiles = -(-rows // tile.rows)
    of_tile = chain * (left_width / group or tile.rows)
    blocks = -(-row_tiles // max(int(ROWS_OF_L2 * target.l2_bytes / of_tile), 1))
    packed = view.n[0] * depth * size
    if depth <= CHAIN and packed <= COLUMNS_OF_L2 * target.l2_bytes:
        if _matrices_beside(view) >= 2 and rows >= 2 * tile.rows * group:
            return group if blocks > 1 else 1, columns, blocks > 1
    row_block = -(-row_tiles // blocks // group) * group if blocks > 1 else 0
    sums = (row_block or row_tiles) * tile.rows * width * size if depth > CHAIN else 0
    copy = 0 if row_block else width * chain
    fit = COLUMNS_OF_L2 * target.l2_bytes / max(copy + sums, 1)
    if rows < PANEL_ROWS:
        fit = 0.75 * target.l1_bytes / max(copy, 1)
    return row_block, -(-columns // -(-columns // max(int(fit), 1))), blocks > 1


def _matrices_beside(view: ContractionView) -> int:
    """Inputs of the body of the results' size that are no operands of the contraction."""
    node = view.body.nodes[view.anchor.node]
    size = view.body.type_of(view.anchor).numel
    operands = {operand.node for operand in node.operands}
    return sum(
        type.numel == size and position not in operands
        for position, type in enumerate(view.body.input_types)
    )


def _phase_share(view: ContractionView, phases: list[Phase]) -> float:
    """How many times fewer products a phase has, its kernel positions being those that fit."""
    return float(math.prod(phases[0].steps)) if len(phases) > 1 else 1.0
