"""Layers under the names that PyTorch's own layers are built of: `native_layer_norm` and others
give what backward would save besides the result, `grid_sampler` takes numbers for its modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.functions import norms, random, reduce, statistics, unary
from frontend.functions.creation import empty
from frontend.nn import functional as F
from frontend.tensors.state import no_grad
from frontend.tensors.tensor import Tensor

__all__ = [
    "affine_grid_generator", "embedding_renorm_", "grid_sampler", "grid_sampler_2d",
    "grid_sampler_3d", "native_batch_norm", "native_dropout", "native_group_norm",
    "native_layer_norm", "native_norm",
]  # fmt: skip


def _moments(x: Tensor, dims: Sequence[int], eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Means, and the inverses of the standard deviations."""
    variance, mean = statistics.var_mean(x, list(dims), correction=0, keepdim=keepdim)
    return mean, unary.rsqrt(variance + eps)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`layer_norm`, with the means and inverse standard deviations."""
    result = F.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    dims = range(input.dim() - len(normalized_shape), input.dim())
    return (result, *_moments(input, dims, eps, True))


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`group_norm`, with the means and inverse standard deviations [N, group]."""
    result = F.group_norm(input, group, weight, bias, eps)
    rows = input.reshape(N, group, C // group * HxW if group else 0)
    return (result, *_moments(rows, [2], eps, False))


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


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """`dropout`, with what was kept as bools."""
    kept = random.rand_like(input.detach()) >= (p if train is not False else -1)
    if train is False or p == 0:
        return input, kept
    return input * kept * (0.0 if p == 1 else 1 / (1 - p)), kept


def native_norm(
    input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """`norm`."""
    return norms.norm(input, p, dim, keepdim, dtype=dtype)


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
    from frontend.functions.ranges import arange

    return arange(weight.shape[0])


# -- grids -----------------------------------------------------------------------------------------

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample`, with the modes as numbers: 0 bilinear, 1 nearest, 2 bicubic; outside 0 zeros,
    1 the border, 2 reflected."""
    mode, padding = MODES[interpolation_mode], PADDINGS[padding_mode]
    return F.grid_sample(input, grid, mode, padding, align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of two spatial axes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of three spatial axes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`affine_grid`."""
    return F.affine_grid(theta, list(size), align_corners)
