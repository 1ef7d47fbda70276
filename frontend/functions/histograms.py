"""How many elements lie in each of several intervals: `histogram`, `histogramdd`. NumPy computes
both, in compiled code too."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.host_ops import HostOp
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import return_types
from frontend.functions.arguments import need_tensors, not_implemented, stored
from frontend.functions.creation import ones
from frontend.functions.declarations import public
from frontend.functions.pointwise import where
from graphc.ops import indexing
from graphc.ops.scalar_functions import number_functions as ops


@public(method=True)
def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None,
    density: bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """Counts (or sums of `weight`; with `density` over their total and the widths) of the elements
    in each bin, and the bins' edges. `bins`: how many of equal width in `range` (by default that of
    the elements), or the edges. The last bin is closed."""
    need_tensors("histogram", input=input)
    points = input.reshape(-1, 1)
    edges = [_edges("histogram", points, 0, bins, range)]
    counts = _counted(input, points, edges, weight, density)
    return stored(return_types.histogram(counts, edges[0]), out)


@public()
def histogramdd(
    input: Tensor, bins: Any, *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> Any:  # fmt: skip
    """`histogram` of points, the rows of the last dimension, over a grid: `bins` has an entry per
    coordinate, `range` two."""
    need_tensors("histogramdd", input=input)
    if input.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    rank = input.shape[-1]
    entries = [bins] * rank if isinstance(bins, int) else list(bins)
    if len(entries) != rank:
        raise RuntimeError(
            f"torch.histogramdd: expected {rank} sequences of bin edges for a {rank}-dimensional "
            f"histogram but got {len(entries)}"
        )
    points = input.reshape(-1, rank)
    bounds = [None] * rank if range is None else [range[2 * i : 2 * i + 2] for i in _up_to(rank)]
    edges = [_edges("histogramdd", points, i, entries[i], bounds[i]) for i in _up_to(rank)]
    counts = _counted(input, points, edges, weight, density)
    return return_types.histogramdd(counts, tuple(edges))


def _up_to(count: int) -> list[int]:
    return list(itertools.islice(itertools.count(), count))


def _edges(name: str, points: Tensor, axis: int, bins: Any, bounds: Any) -> Tensor:
    kind = points.dtype
    if not kind.is_float or kind.is_storage:
        raise not_implemented(f"{name}_cpu", kind)
    if isinstance(bins, Tensor):
        if bins.dtype is not kind:
            raise RuntimeError(f"torch.{name}: input tensor and bins tensors should have the same "
                               "dtype")  # fmt: skip
        if bins.dim() != 1 or not bins.numel():
            raise RuntimeError(f"torch.{name}: bins tensor should have one dimension")
        return bins
    if bins <= 0:
        raise RuntimeError(f"torch.{name}(): bins must be > 0, but got {bins} for dimension {axis}")
    low, high = (None, None) if bounds is None else map(float, bounds)
    if low is not None and high is not None:
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"torch.{name}: range [{low}, {high}] is not finite")
        if low > high:
            raise RuntimeError(
                f"torch.{name}: min should not exceed max, but got min {low} max {high}"
            )
    column = points[:, axis].detach().contiguous()
    edges, finite = _EDGES(column, bins=bins, low=low, high=high)
    message = f"torch.{name}: range of the elements is not finite"
    if STATE.mode is not None:
        fits = CONTEXT.apply(indexing.check_all, (finite,), {"message": message})[0]
        return where(fits, edges, math.nan)
    if not bool(finite):
        raise RuntimeError(message)
    return edges


def _counted(
    input: Tensor, points: Tensor, edges: list[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    count = points.shape[0]
    weights = ones(count, dtype=points.dtype) if weight is None else weight.reshape(-1)
    if weights.shape[0] != count:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension"
        )
    operands = (points.detach(), weights.detach(), *edges)
    return _COUNTS(*operands, density=density)


def _no_rule(*_: Any, **__: Any) -> tuple[Any, ...]:
    raise RuntimeError("a histogram has no gradient")


_EDGES = HostOp("histogram_edges", ops.histogram_edges, _no_rule)
_COUNTS = HostOp("histogram", ops.histogram, _no_rule)
