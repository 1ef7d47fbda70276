"""Layers under the names that PyTorch's own layers are built of: `native_layer_norm` and others
give what backward would save besides the result, `grid_sampler` takes numbers for its modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import norms, order, pointwise, reduce, scatter, statistics, unary
from frontend.functions.arguments import need_tensors
from frontend.functions.creation import empty, full, ones_like, zeros
from frontend.functions.declarations import public
from frontend.functions.network_draws import drawn_inside
from frontend.functions.ranges import arange
from frontend.functions.shape import padded
from frontend.nn import functional as F
from graphc.errors import ShapeError
from graphc.ir.builder import user_location
from graphc.system import IMPORTING


def _moments(x: Tensor, dims: Sequence[int], eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Means, and the inverses of the standard deviations."""
    variance, mean = statistics.var_mean(x, list(dims), correction=0, keepdim=keepdim)
    return mean, unary.rsqrt(variance + eps)


@public()
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`layer_norm`, with the means and inverse standard deviations."""
    result = F.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    dims = range(input.dim() - len(normalized_shape), input.dim())
    return (result, *_moments(input, dims, eps, True))


@public()
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`F.embedding_bag` with a number for its mode (0 "sum", 1 "mean", 2 "max"); the bag of each
    index, how many of each bag count, and of "max" the index of each maximum [bags, features] (of
    "mean" the counts again). As in PyTorch, "sum" does not find these out: none, and zeros."""
    if mode not in (0, 1, 2):
        raise ValueError(f"embedding_bag: mode has to be 0, 1 or 2, not {mode}")
    result = F.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode],
        sparse, per_sample_weights, include_last_offset, padding_idx,
    )  # fmt: skip
    bags, kind = result.shape[0], offsets.dtype
    if mode == 0:
        return result, zeros(0, dtype=kind), zeros(bags, dtype=kind), zeros(bags, dtype=kind)
    # An index is of the last bag that begins at or before it.
    count = indices.shape[0]
    begun = zeros(count + 1, dtype=kind).index_add(0, offsets[:bags], ones_like(offsets[:bags]))
    bag = order.cumsum(begun, 0)[:count] - 1
    kept = ones_like(indices) if padding_idx is None else (indices != padding_idx).to(kind)
    sizes = zeros(bags, dtype=kind).index_add(0, bag, kept.to(kind))
    if mode == 1:
        return result, bag, sizes, sizes
    with no_grad():
        rows, best = weight[indices], result[bag]
        here = pointwise.logical_and(rows == best, (kept != 0).unsqueeze(1))
        places = pointwise.where(here, arange(count).unsqueeze(1), count)
        none = full((bags, weight.shape[1]), count, dtype=places.dtype)
        first = scatter.index_reduce(none, 0, bag, places, "amin")
        padded = indices.new_zeros(count + 1).index_copy(0, arange(count), indices)
        return result, bag, sizes, padded[first]


@public()
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`group_norm`, with the means and inverse standard deviations [N, group]."""
    result = F.group_norm(input, group, weight, bias, eps)
    rows = input.reshape(N, group, C // group * HxW if group else 0)
    return (result, *_moments(rows, [2], eps, False))


@public()
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`batch_norm`, with the batch's means and inverse standard deviations [C], in training; two
    empty tensors otherwise."""
    running = (running_mean, running_var)
    result = F.batch_norm(input, *running, weight, bias, training, momentum, eps)
    if not training:
        return result, empty(0, dtype=input.dtype), empty(0, dtype=input.dtype)
    dims = [axis for axis in range(input.dim()) if axis != 1]
    return (result, *_moments(input, dims, eps, False))


@public()
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """`dropout`, with what was kept as bools."""
    kept = drawn_inside(input._sizes, input.dtype) >= (p if train is not False else -1)
    if train is False or p == 0:
        return input, kept
    return input * kept * (0.0 if p == 1 else 1 / (1 - p)), kept


@public()
def native_norm(
    input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """`norm`."""
    return norms.norm(input, p, dim, keepdim, dtype=dtype)


@public()
def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The rows of `weight` at `indices` whose norm exceeds `max_norm` scaled down to it, in
    place."""
    with no_grad():
        lengths = norms.norm(weight, norm_type, 1, keepdim=True)
        asked = reduce.any(
            unary.abs(indices.reshape(-1, 1) - _positions(weight)) == 0, 0
        ).unsqueeze(1)
        scale = max_norm / (lengths + 1e-7)
        weight.copy_(weight * scale.where(asked & (lengths > max_norm), 1.0))
    return weight


def _positions(weight: Tensor) -> Tensor:
    with IMPORTING:
        from frontend.functions.ranges import arange

    return arange(weight.shape[0])


# -- grids -----------------------------------------------------------------------------------------

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


@public()
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample`, with the modes as numbers: 0 bilinear, 1 nearest, 2 bicubic; outside 0 zeros,
    1 the border, 2 reflected."""
    mode, padding = MODES[interpolation_mode], PADDINGS[padding_mode]
    return F.grid_sample(input, grid, mode, padding, align_corners)


@public()
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of two spatial axes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@public()
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of three spatial axes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@public()
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`affine_grid`."""
    return F.affine_grid(theta, list(size), align_corners)


@public()
def constant_pad_nd(input: Tensor, pad: Any, value: float = 0) -> Tensor:
    """`value` around the elements: `pad` has the widths before and after, the last dimension
    first. Negative widths cut off."""
    need_tensors("constant_pad_nd", input=input)
    widths = list(pad)
    if len(widths) % 2 or len(widths) > 2 * input.dim():
        raise ShapeError(
            f"constant_pad_nd: {len(widths)} widths for {input.dim()} dimensions",
            hint="two for each of the last dimensions",
            location=user_location(),
        )
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)][::-1]
    return padded(input, [(0, 0)] * (input.dim() - len(pairs)) + pairs, fitting(value, input.dtype))
