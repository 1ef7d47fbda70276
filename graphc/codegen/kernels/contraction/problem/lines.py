"""Rows of a contraction that are positions, as lines of a plane: which taps exist where.

In: a view whose broadcast operand has windows. Out: for all positions of a line, in tiles, the taps
of the kernel's last axis that exist, which is known ahead; those of its other axes depend on the
line alone, and are listed when the kernel runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.codegen.kernels.contraction.problem.view import ContractionView, batch_variables
from graphc.ops.kinds.index_expr import Variable, of
from graphc.ops.kinds.movement import guards_hold
from graphc.records import record

Array = np.ndarray[Any, Any]


@record
class Segment:
    """`count` tiles of `rows` positions each, one behind the other, the first at `first`. They have
    the same taps: `exists[r][t]` says whether tap t of the last kernel axis exists at row r."""

    first: int
    rows: int
    count: int
    exists: tuple[tuple[bool, ...], ...]


@record
class Lines:
    """A plane of `count` lines, each cut into `segments`. `products`: those of all its positions,
    for one index of k's first axis."""

    count: int
    segments: tuple[Segment, ...]
    products: int

    @property
    def tiles(self) -> int:
        """Tiles of a line."""
        return sum(segment.count for segment in self.segments)


def lines_of(view: ContractionView, rows: int) -> Lines | None:
    """The lines of a view in tiles of at most so many positions. None where no product is skipped,
    or where what is depends on more than a line and its taps, or a place in it and its."""
    if not view.m or len(view.k) < 2 or 0 in (*view.m, *view.k):
        return None
    exists = _existing(view)
    if exists is None or exists.all():
        return None
    by_line: Array = np.any(exists, axis=(1, 3))
    in_line: Array = np.any(exists, axis=(0, 2))
    if (exists != (by_line[:, None, :, None] & in_line[None, :, None, :])).any():
        return None
    segments: list[Segment] = []
    for first in range(0, view.m[-1], rows):
        part = tuple(tuple(map(bool, taps)) for taps in in_line[first : first + rows])
        last = segments[-1] if segments else None
        if last is not None and last.exists == part:
            segments[-1] = Segment(last.first, last.rows, last.count + 1, part)
        else:
            segments.append(Segment(first, len(part), 1, part))
    return Lines(math.prod(view.m[:-1]), tuple(segments), int(exists.sum()))


def _existing(view: ContractionView) -> Array | None:
    """Which taps exist: [lines, positions of a line, taps of outer kernel axes, of the last]."""
    batch = tuple(of(variable) for variable in batch_variables(view))
    m = tuple(of(Variable(f"probe_m{axis}", dim)) for axis, dim in enumerate(view.m))
    k = tuple(of(Variable(f"probe_k{axis}", dim)) for axis, dim in enumerate(view.k))
    case = view.broadcast(batch, m, k)
    moving = {variable for item in (*m, *k[1:]) for variable in item.variables()}
    if case is None or any(not guard[0].variables() <= moving for guard in case.guards):
        return None
    shape = view.m + view.k[1:]
    grid = np.indices(shape, sparse=True)
    at, taps = tuple(grid[: len(view.m)]), (0, *grid[len(view.m) :])
    rule = view.op.right if view.swapped else view.op.left
    concrete = rule((0,) * len(view.batch), at, taps, view.types, **view.attributes)
    held: Array = guards_hold(concrete.guards, shape)
    return held.reshape(-1, view.m[-1], math.prod(view.k[1:-1]), view.k[-1])
