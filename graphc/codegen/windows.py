"""What a convolution's vector operand is asked for: windows that move over images.

In: a `View`. Out: `Windows`, which of the operand's axes are images, channels and places, and how
many products there are but for those that hang over the edge; None where it is no convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from graphc.codegen.contraction_choice import batch_variables
from graphc.codegen.contraction_view import View
from graphc.ir.types import Shape
from graphc.ops.index import Expr, Variable, of
from graphc.ops.kinds import guards_hold
from graphc.schedule.access import Index, as_index


@dataclass(frozen=True)
class Windows:
    """Axes of operand `operand`. `products`: of all positions, those of one pair of channels in one
    image."""

    operand: int
    image: int
    channels: tuple[int, ...]
    places: tuple[int, ...]
    shape: Shape
    products: int

    @property
    def size(self) -> Shape:
        """The extents of the places."""
        return tuple(self.shape[axis] for axis in self.places)


def windows_of(view: View) -> Windows | None:
    """The windows of a view whose first axis of the batch counts images and whose first axis of k
    counts channels."""
    if view.swapped or not view.batch or len(view.k) < 2:
        return None
    batch = batch_variables(view)
    n = [Variable(f"probe_n{axis}", dim) for axis, dim in enumerate(view.n)]
    k = [Variable(f"probe_k{axis}", dim) for axis, dim in enumerate(view.k)]
    m = Variable("probe_m", view.m[0]) if len(view.m) == 1 else None
    if m is None or view.batch[0] < 2:
        return None
    at = tuple(of(v) for v in batch)
    left = view.broadcast(at, (of(m),), tuple(of(v) for v in k))
    case = view.vector(at, tuple(of(v) for v in n), tuple(of(v) for v in k))
    if left is None or case is None or left.guards:
        return None
    if any(batch[0] in item.variables() for item in left.index) or view.linear(left) is None:
        return None
    by_place, by_channel = {*n, *k[1:]}, {*batch[1:], k[0]}
    if any(not guard[0].variables() <= by_place for guard in case.guards):
        return None
    axes = range(len(case.index))
    image = [axis for axis in axes if case.index[axis] == of(batch[0])]
    places = [axis for axis in axes if _depends(case.index[axis], by_place)]
    channels = [axis for axis in axes if _depends(case.index[axis], by_channel)]
    if len(image) != 1 or len(places) + len(channels) != len(case.index) - 1:
        return None
    shape = view.body.type_of(view.node.operands[case.operand]).shape
    return Windows(
        case.operand, image[0], tuple(channels), tuple(places), shape, _products(view)
    )


def _depends(item: Expr, variables: set[Variable]) -> bool:
    """Whether an index depends on these variables, and on no others."""
    return bool(item.variables()) and item.variables() <= variables


def _products(view: View) -> int:
    """The products of one pair of channels in one image that are not skipped."""
    grid = np.indices(view.n + view.k[1:], sparse=True)
    n, k = tuple(grid[: len(view.n)]), (0, *grid[len(view.n) :])
    batch: Index = (0,) * len(view.batch)  # type: ignore[assignment]
    rule = view.op.right
    case = rule(batch, n, k, view.types, **view.attributes)
    return int(guards_hold(case.guards, view.n + view.k[1:]).sum())


def index_of(view: View, batch: Index, channel: Expr) -> Index:
    """The operand's index for a channel; its places are any."""
    n, taps = (of(0),) * len(view.n), (of(0),) * (len(view.k) - 1)
    case = view.op.right(batch, n, (channel, *taps), view.types, **view.attributes)
    return as_index(case.index)


def places_of(windows: Windows, index: Index) -> Index:
    """Of an index of the operand, the coordinates of the place."""
    return tuple(index[axis] for axis in windows.places)


def copied_elements(view: View, windows: Windows) -> int:
    """Elements per image of what one group of channels is read from."""
    return int(view.k[0]) * math.prod(windows.size)
