"""Regions of images as grids of bins: by interpolated samples (`roi_align`), by their greatest
pixel (`roi_pool`), and the forms in which each bin has channels of its own (`ps_roi_…`).

Regions are rows [K, 5]: which image, then x1, y1, x2, y2, which `spatial_scale` makes pixels.
(R. Girshick, "Fast R-CNN", 2015; K. He et al., "Mask R-CNN", 2017; J. Dai et al., "R-FCN", 2016.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import where
from frontend.functions.ranges import arange
from frontend.vision.operators.taps import (
    AxisTaps,
    away_from_zero,
    linear_taps,
    pairs,
    pixels,
    window_taps,
)
from graphc.ir.types import DType
from graphc.ops.nn.sampling import greatest_row, weighted_rows

LEAST = float(np.finfo(np.float32).min)


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """`input` [N, C, H, W] and `rois` [K, 5] of one float dtype, to [K, C, pooled_height,
    pooled_width]: each bin the mean of sampling_ratio² samples, interpolated between pixels. With
    sampling_ratio <= 0 there are as many as the bin has pixels, which depends on data: not in a
    trace. `aligned` puts the centre of a pixel at its half. Gradients are those of `input`.

    Under autocast it is computed in float32. Raises RuntimeError, IndexRangeError for an image that
    is not there."""
    result: Tensor = _align(
        input, rois, spatial_scale, (pooled_height, pooled_width), sampling_ratio, aligned
    )
    return result.to(input.dtype)


@full_precision
def _align(
    input: Tensor, rois: Tensor, scale: float, bins: tuple[int, int], ratio: int, aligned: bool
) -> Tensor:
    _check(input, rois)
    x1, y1, x2, y2 = (rois.detach()[:, 1:] * scale - (0.5 if aligned else 0.0)).unbind(1)
    sizes = [y2 - y1, x2 - x1]
    if not aligned:
        sizes = [size.clamp(min=1.0) for size in sizes]
    height, width = input.shape[2:]
    rows, by_rows = _samples(y1, sizes[0], bins[0], ratio, height)
    columns, by_columns = _samples(x1, sizes[1], bins[1], ratio, width)
    index, weights = _crossed(rows, columns, width)
    (sums,) = CONTEXT.apply(
        weighted_rows, (pixels(input), _of_images(rois, index, height * width), weights), {}
    )
    count: Any = by_rows * by_columns
    count = max(count, 1) if isinstance(count, int) else count.clamp(min=1)
    return _mean(sums, count)


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `roi_align`, aligned, where bin (p, q) has channels of its own: `input` has C ·
    pooled_height · pooled_width channels, results [K, C, pooled_height, pooled_width], and i32 of
    the same shape, which channel each was read from."""
    _check(input, rois)
    bins = _bins(input, pooled_height, pooled_width)
    x1, y1, x2, y2 = (rois.detach()[:, 1:] * spatial_scale - 0.5).unbind(1)
    height, width = input.shape[2:]
    rows, by_rows = _samples(y1, y2 - y1, pooled_height, sampling_ratio, height)
    columns, by_columns = _samples(x1, x2 - x1, pooled_width, sampling_ratio, width)
    index, weights = _crossed(rows, columns, width)
    sums = _of_own_channels(input, rois, index, weights, bins)
    return _mean(sums, by_rows * by_columns), _channels(rois, input.shape[1], bins)


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """`input` [N, C, H, W] and `rois` [K, 5] of one float dtype, to [K, C, pooled_height,
    pooled_width]: the greatest pixel of each bin, whose edges are rounded to pixels, 0 where it has
    none; and i32 of the same shape, where in its image that pixel is, or -1."""
    _check(input, rois)
    x1, y1, x2, y2 = away_from_zero(rois.detach()[:, 1:] * spatial_scale).unbind(1)
    height, width = input.shape[2:]
    rows = _edges(y1, (y2 - y1 + 1).clamp(min=1), pooled_height, height)
    columns = _edges(x1, (x2 - x1 + 1).clamp(min=1), pooled_width, width)
    (y, counts_y), (x, counts_x) = window_taps(*rows, height), window_taps(*columns, width)
    (y, x), (counts_y, counts_x) = pairs(y, x), pairs(counts_y, counts_x)
    table = pixels(input)
    index = _of_images(rois, (y * width + x).flatten(3), height * width)
    counts = (counts_y & counts_x).flatten(3)
    (best,) = CONTEXT.apply(greatest_row, (table.detach(), index, counts), {})
    place, counted = index.gather(-1, best), counts.gather(-1, best)
    values = table.gather(0, place.reshape(-1, table.shape[1])).reshape(place.shape)
    is_maximum = counted & (values.detach() > LEAST)
    # What holds nothing but NaN or the lowest number is no maximum of torchvision's.
    otherwise = where(counts.any(-1, keepdim=True), LEAST, 0.0).to(values.dtype)
    argmax = where(is_maximum, place % (height * width), -1).to(DType.i32)
    return _images(where(is_maximum, values, otherwise)), _images(argmax)


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """As `ps_roi_align`, but each bin the mean of its pixels, with edges rounded to pixels; 0 where
    it has none. The last row and column of an image are in no bin, as in torchvision, and get no
    gradient (in torchvision they do)."""
    _check(input, rois)
    bins = _bins(input, pooled_height, pooled_width)
    x1, y1, x2, y2 = away_from_zero(rois.detach()[:, 1:] * spatial_scale).unbind(1)
    height, width = input.shape[2:]
    rows = _edges(y1, (y2 - y1).clamp(min=1), pooled_height, height, height - 1)
    columns = _edges(x1, (x2 - x1).clamp(min=1), pooled_width, width, width - 1)
    (y, counts_y), (x, counts_x) = window_taps(*rows, height), window_taps(*columns, width)
    index, weights = _crossed(
        AxisTaps(y, counts_y.to(input.dtype)), AxisTaps(x, counts_x.to(input.dtype)), width
    )
    sums = _of_own_channels(input, rois, index, weights, bins)
    area = weights.sum(-1, keepdim=True).clamp(min=1)
    return _images(sums / area), _channels(rois, input.shape[1], bins)


def _check(input: Tensor, rois: Tensor) -> None:
    if input.dim() != 4:
        raise RuntimeError(f"input must have shape Tensor[N, C, H, W], got {input.dim()}D")
    if rois.dim() != 2 or rois.shape[1] != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if input.dtype is not rois.dtype:
        names = [SCALAR_NAMES[x.dtype] for x in (input, rois)]
        raise RuntimeError(
            "Expected tensor for input to have the same type as tensor for rois; but type "
            f"{names[0]} does not equal {names[1]}"
        )


def _bins(input: Tensor, height: int, width: int) -> tuple[int, int]:
    if input.shape[1] % (height * width):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    return height, width


def _samples(
    start: Tensor, size: Tensor, bins: int, ratio: int, extent: Any
) -> tuple[AxisTaps, Any]:
    """The taps of regions [K] from `start` on an axis, and how many samples a bin has: a number, or
    i64 [K], of a region turned round less than 0."""
    width = size / bins
    count: Any = ratio
    counts = None
    longest = ratio
    if ratio <= 0:
        count = width.ceil().long()
        longest = max(int(count.max()), 0) if count.numel() else 0
    steps = arange(longest)
    if ratio <= 0:
        counts = (steps < count[:, None])[:, None, :]
    first = start[:, None] + arange(bins).to(start.dtype) * width[:, None]
    part = (steps.to(start.dtype) + 0.5) * width[:, None]
    part = part / (count if ratio > 0 else count[:, None].to(start.dtype))
    return linear_taps(first[:, :, None] + part[:, None, :], counts, extent), count


def _edges(
    start: Tensor, size: Tensor, bins: int, extent: Any, most: Any = None
) -> tuple[Tensor, Tensor]:
    """First pixel and end of each bin of regions [K] on an axis, i64 [K, bins], in the image."""
    width = (size / bins)[:, None]
    at = arange(bins).to(size.dtype)
    edges = [(at * width).floor(), ((at + 1) * width).ceil()]
    limit = extent if most is None else most
    first, end = [(edge + start[:, None]).clamp(0, limit).long() for edge in edges]
    return first, end


def _crossed(rows: AxisTaps, columns: AxisTaps, width: Any) -> tuple[Tensor, Tensor]:
    """The taps of both axes together: positions in an image, and weights, [K, P, Q, T · U]."""
    y, x = pairs(rows.places, columns.places)
    by_rows, by_columns = pairs(rows.weights, columns.weights)
    return (y * width + x).flatten(3), (by_rows * by_columns).flatten(3)


def _of_images(rois: Tensor, index: Tensor, size: Any) -> Tensor:
    """Positions in each region's image as positions among the pixels of all."""
    return index + (rois.detach()[:, 0].long() * size)[:, None, None, None]


def _of_own_channels(
    input: Tensor, rois: Tensor, index: Tensor, weights: Tensor, bins: tuple[int, int]
) -> Tensor:
    """Weighted sums where each bin reads channels of its own, [K, P, Q, C]."""
    images, channels, height, width = input.shape
    count, size = bins[0] * bins[1], height * width
    apart = input.reshape(images, channels // count, count, size)
    table = apart.permute(0, 2, 3, 1).reshape(-1, channels // count)
    own = arange(count).reshape(1, *bins, 1) * size
    (sums,) = CONTEXT.apply(
        weighted_rows, (table, _of_images(rois, index + own, count * size), weights), {}
    )
    return sums


def _channels(rois: Tensor, channels: int, bins: tuple[int, int]) -> Tensor:
    own = arange(channels, dtype=DType.i32).reshape(1, -1, *bins)
    return own.expand(rois.shape[0], -1, -1, -1).clone()


def _mean(sums: Tensor, count: Any) -> Tensor:
    """[K, P, Q, C] over a count, a number or one for each region, as [K, C, P, Q]."""
    by = count.to(sums.dtype)[:, None, None, None] if isinstance(count, Tensor) else count
    return _images(sums / by)


def _images(bins: Tensor) -> Tensor:
    """[K, P, Q, C] as [K, C, P, Q]."""
    return bins.permute(0, 3, 1, 2).contiguous()
