"""What the strategies' cost models share. The unit is the time of one vector FMA.

A plan's cost is

    products / (lanes used · tile's efficiency) + copies + scattered results
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.codegen.kernels.contraction.cost.tiles import Columns, TileColumns
from graphc.codegen.kernels.contraction.problem.k_blocks import cut
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, at_least, known_number
from graphc.ops.kinds.index_expr import Variable, flatten, of
from graphc.schedule.access import Index

COPIED, TRANSPOSED, GATHERED = 4.0, 10.0, 24.0
"""Cost of one vector of elements, by how it gets into scratch."""
SCATTERED = 24.0
"""Cost of one vector of results whose elements lie apart."""
PAGE, CACHE_LINE = 4096, 64


def scatter_cost(problem: ContractionProblem, columns: Sequence[Columns]) -> float:
    """Cost of storing one vector of results."""
    if not columns:
        return 0.0
    view = problem.view
    lane = Variable("probe_lane", max(columns[0].lanes, 2))
    row = Variable("probe_m", at_least(problem.rows, 2))
    index = view.out(problem.batch, problem.m(of(row)), any_place(columns[0], lane))
    linear = flatten(index, view.node.types[0].shape)
    if linear.coefficient(lane) == 1:
        return 0.0
    return TRANSPOSED if linear.coefficient(row) == 1 else SCATTERED


def any_place(columns: TileColumns, lane: Variable) -> Index:
    """The n coordinates of some vector, for asking where its elements lie."""
    number = Variable("probe_v", max(columns.vectors, 2))
    return columns.place(of(number), of(lane))[0]


def first_copied(depth: Extent) -> tuple[int | None, int]:
    """For how many indices of the first axis of k a copy is laid out to see what one index takes,
    None being all, and how many these are: of a depth known only at run time for one."""
    count = known_number(depth)
    return (1, 1) if count is None else (None, count)


def group_tail(depth: Extent) -> Tail:
    """How groups of indices of k's first axis end: those of a number are all whole."""
    return Tail.by(depth, Tail.EXACT, Tail.BOUNDED)


def group_size(problem: ContractionProblem, elements: Extent, target: Target) -> int:
    """How many indices of the first axis of k to add at a time: whole K blocks, as many as keep the
    copy in half of L2; a divisor of the extent, where no group ends before others.
    `elements`: those of the copy for one index."""
    view = problem.view
    axis, step = cut(view.k)
    step = step if axis == 0 else 1
    bytes_each = problem.typical(elements) * view.dtype.itemsize
    fit = max(target.l2_bytes // 2 // bytes_each, 1)
    if group_tail(view.k[0]) is Tail.BOUNDED:
        return max(min(fit, problem.typical(view.k[0])) // step, 1) * step
    sizes = [g for g in range(1, view.k[0] + 1) if view.k[0] % g == 0 and g % step == 0]
    sizes = sizes or [view.k[0]]
    return max((g for g in sizes if g <= fit), default=sizes[0])


def note(problem: ContractionProblem, strategy: str, details: str, **parts: float) -> str:
    """The first line of a kernel: what was chosen, its cost, and what that is made of."""
    listed = ", ".join(f"{name} {cost:.3g}" for name, cost in parts.items())
    total = math.fsum(parts.values())
    return f"{problem.name}, {strategy}: {details}, cost {total:.3g} ({listed})"
