"""How many elements lie in each of several intervals: `histogram`, `histogramdd`. The bounds may
depend on the data, and points are sorted into any edges, so both run eagerly only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.eager.host_ops import eager_only, from_host
from frontend.functions import return_types
from frontend.functions.arguments import need_tensors, not_implemented, stored
from frontend.tensors.tensor import Tensor

__all__ = ["histogram", "histogramdd"]
METHODS = "histogram"


def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None,
    density: bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """Counts (or sums of `weight`; with `density` over their total and the widths) of the elements
    in each bin, and the bins' edges. `bins`: how many of equal width in `range` (by default that of
    the elements), or the edges. The last bin is closed."""
    need_tensors("histogram", input=input)
    eager_only("histogram")
    points = input.reshape(-1, 1)
    edges = [_edges("histogram", points, 0, bins, range)]
    counts = _counted(input, points, edges, weight, density)
    return stored(return_types.histogram(counts, from_host(edges[0])), out)


def histogramdd(
    input: Tensor, bins: Any, *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> Any:  # fmt: skip
    """`histogram` of points, the rows of the last dimension, over a grid: `bins` has an entry per
    coordinate, `range` two."""
    need_tensors("histogramdd", input=input)
    eager_only("histogramdd")
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
    return return_types.histogramdd(counts, tuple(map(from_host, edges)))


def _up_to(count: int) -> list[int]:
    return list(itertools.islice(itertools.count(), count))


def _edges(name: str, points: Tensor, axis: int, bins: Any, bounds: Any) -> np.ndarray[Any, Any]:
    kind = points.dtype
    if not kind.is_float or kind.is_storage:
        raise not_implemented(f"{name}_cpu", kind)
    if isinstance(bins, Tensor):
        if bins.dtype is not kind:
            raise RuntimeError(f"torch.{name}: input tensor and bins tensors should have the same "
                               "dtype")  # fmt: skip
        if bins.dim() != 1 or not bins.numel():
            raise RuntimeError(f"torch.{name}: bins tensor should have one dimension")
        return bins._array(name)
    if bins <= 0:
        raise RuntimeError(f"torch.{name}(): bins must be > 0, but got {bins} for dimension {axis}")
    column = points._array(name)[:, axis]
    low, high = (column.min(), column.max()) if column.size else (0.0, 1.0)
    if bounds is not None:
        low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.{name}: range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.{name}: min should not exceed max, but got min {low} max {high}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1, dtype=kind.numpy)


def _counted(
    input: Tensor, points: Tensor, edges: Any, weight: Tensor | None, density: bool
) -> Tensor:
    array = points._array("histogram")
    weights = np.ones(len(array)) if weight is None else weight.reshape(-1)._array("histogram")
    if len(weights) != len(array):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension"
        )
    sizes = [len(edge) - 1 for edge in edges]
    places = np.zeros(len(array), np.int64)
    inside = np.ones(len(array), bool)
    for column, edge, size in zip(array.T, edges, sizes):
        inside &= (column >= edge[0]) & (column <= edge[-1])
        index = np.searchsorted(edge, column, side="right") - 1
        places = places * size + np.clip(index, 0, size - 1)
    total = math.prod(sizes)
    counts = np.bincount(places[inside], weights[inside].astype(np.float64), minlength=total)
    counts = counts.reshape(sizes)
    if density:
        counts = counts / counts.sum()
        for axis, edge in enumerate(edges):
            shape = [-1 if i == axis else 1 for i in _up_to(len(sizes))]
            counts = counts / np.diff(edge).reshape(shape)
    return from_host(counts.astype(input.dtype.numpy))
