"""torchvision's operators, written as loops over pixels in float64 NumPy, and inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST = float(np.finfo(np.float32).min)


# -- references ----------------------------------------------------------------------------------


def nms(boxes: Array, scores: Array, threshold: float) -> list[int]:
    """Positions that stay, the best first."""
    left = sorted(range(len(scores)), key=lambda i: -scores[i])
    kept = []
    while left:
        best, *left = left
        kept.append(best)
        left = [i for i in left if not overlap(boxes[best], boxes[i]) > threshold]
    return kept


def overlap(a: Array, b: Array) -> float:
    """Intersection over union."""
    width = max(min(a[2], b[2]) - max(a[0], b[0]), 0.0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]), 0.0)
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    with np.errstate(all="ignore"):
        return float(np.float64(width * height) / (sum(areas) - width * height))


def sampled(image: Array, y: float, x: float) -> Array:
    """Channels of an image [C, H, W] between pixels, as regions read it: to one pixel outside."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(len(image))
    return hat(image, min(max(y, 0), height - 1), min(max(x, 0), width - 1))


def hat(image: Array, y: float, x: float) -> Array:
    """Channels of an image by linear interpolation, 0 outside."""
    total = np.zeros(len(image))
    for row in (int(np.floor(y)), int(np.floor(y)) + 1):
        for column in (int(np.floor(x)), int(np.floor(x)) + 1):
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                total += image[:, row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def roi_align(
    images: Array, rois: Array, scale: float, rows: int, columns: int, ratio: int, aligned: bool
) -> Array:
    result = np.zeros((len(rois), images.shape[1], rows, columns))
    for k, (image, *box) in enumerate(rois):
        x1, y1, x2, y2 = (each * scale - 0.5 * aligned for each in box)
        height, width = (y2 - y1, x2 - x1) if aligned else (max(y2 - y1, 1.0), max(x2 - x1, 1.0))
        points_y = ratio if ratio > 0 else int(np.ceil(height / rows))
        points_x = ratio if ratio > 0 else int(np.ceil(width / columns))
        for p, q, i, j in np.ndindex(rows, columns, max(points_y, 0), max(points_x, 0)):
            y = y1 + (p + (i + 0.5) / points_y) * height / rows
            x = x1 + (q + (j + 0.5) / points_x) * width / columns
            result[k, :, p, q] += sampled(images[int(image)], y, x)
        result[k] /= max(points_y * points_x, 1)
    return result


def ps_roi_align(
    images: Array, rois: Array, scale: float, rows: int, columns: int, ratio: int
) -> Array:
    """Each bin of `roi_align`, aligned, from channels of its own."""
    whole = roi_align(images, rois, scale, rows, columns, ratio, True)
    return own_channels(whole)


def own_channels(bins: Array) -> Array:
    """[K, C · P · Q, P, Q] to [K, C, P, Q]: of bin (p, q) every channel that is for it."""
    count, channels, rows, columns = bins.shape
    apart = bins.reshape(count, channels // (rows * columns), rows, columns, rows, columns)
    p, q = np.indices((rows, columns))
    return np.asarray(np.moveaxis(apart, (0, 1), (-2, -1))[p, q, p, q].transpose(2, 3, 0, 1))


def away(x: float) -> int:
    return int(np.floor(abs(x) + 0.5) * np.sign(x))


def windows(start: int, size: int, bins: int, most: int) -> list[range]:
    """The pixels of each bin on an axis."""
    width = size / bins
    ends = [(int(np.floor(b * width)), int(np.ceil((b + 1) * width))) for b in range(bins)]
    held = [[min(max(each + start, 0), most) for each in pair] for pair in ends]
    return [range(first, end) for first, end in held]


def roi_pool(images: Array, rois: Array, scale: float, rows: int, columns: int) -> Array:
    result = np.zeros((len(rois), images.shape[1], rows, columns))
    for k, (image, *box) in enumerate(rois):
        x1, y1, x2, y2 = (away(each * scale) for each in box)
        down = windows(y1, max(y2 - y1 + 1, 1), rows, images.shape[2])
        across = windows(x1, max(x2 - x1 + 1, 1), columns, images.shape[3])
        for p, q in np.ndindex(rows, columns):
            if down[p] and across[q]:
                part = images[int(image)][:, down[p].start : down[p].stop]
                part = part[:, :, across[q].start : across[q].stop]
                result[k, :, p, q] = part.max(axis=(1, 2), initial=LEAST)
    return result


def ps_roi_pool(images: Array, rois: Array, scale: float, rows: int, columns: int) -> Array:
    result = np.zeros((len(rois), images.shape[1], rows, columns))
    for k, (image, *box) in enumerate(rois):
        x1, y1, x2, y2 = (away(each * scale) for each in box)
        down = windows(y1, max(y2 - y1, 1), rows, images.shape[2] - 1)
        across = windows(x1, max(x2 - x1, 1), columns, images.shape[3] - 1)
        for p, q in np.ndindex(rows, columns):
            if down[p] and across[q]:
                part = images[int(image)][:, down[p].start : down[p].stop]
                part = part[:, :, across[q].start : across[q].stop]
                result[k, :, p, q] = part.mean(axis=(1, 2))
    return own_channels(result)


def deform_conv2d(
    images: Array, weight: Array, offset: Array, mask: Array, bias: Array, *options: Any
) -> Array:
    down, across, pad_y, pad_x, apart_y, apart_x, groups, offset_groups, use_mask = options
    rows, columns = weight.shape[2:]
    height, width = offset.shape[2:]
    count, channels = images.shape[:2]
    moved = offset.reshape(count, offset_groups, rows, columns, 2, height, width)
    scale = mask.reshape(count, offset_groups, rows, columns, height, width) if use_mask else None
    taps = np.zeros((count, channels, rows, columns, height, width))
    each = channels // offset_groups
    for at in np.ndindex(count, offset_groups, rows, columns, height, width):
        n, group, i, j, y, x = at
        own_y, own_x = moved[n, group, i, j, :, y, x]
        part = images[n, group * each : (group + 1) * each]
        values = hat(part, y * down - pad_y + i * apart_y + own_y,
                     x * across - pad_x + j * apart_x + own_x)  # fmt: skip
        values = values if scale is None else values * scale[at]
        taps[n, group * each : (group + 1) * each, i, j, y, x] = values
    parts = [
        np.einsum("ocij,ncijyx->noyx", w, t)
        for w, t in zip(np.split(weight, groups), np.split(taps, groups, axis=1))
    ]
    return np.asarray(np.concatenate(parts, axis=1) + bias[:, None, None])


# -- inputs --------------------------------------------------------------------------------------

NAMES = ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")
Case = tuple[tuple[Array, ...], tuple[Any, ...]]
"""Tensors, and the numbers behind them."""


def boxes(random: np.random.Generator, count: int, side: float) -> Array:
    corner = random.uniform(-3, side, (count, 2))
    return np.concatenate([corner, corner + random.uniform(0.1, side / 2, (count, 2))], 1)


def rois(random: np.random.Generator, count: int, images: int) -> Array:
    """Regions in images of 20 x 24, some partly outside, one far outside, one without extent, one
    turned round."""
    drawn = boxes(random, count, 22)
    drawn[0], drawn[1], drawn[2] = [40, 50, 60, 70], [3.5, 4.5, 3.5, 4.5], [9, 8, 2, 4]
    return np.concatenate([random.integers(0, images, (count, 1)), drawn], 1)


def cases(name: str) -> dict[str, Case]:
    """By what is special about it."""
    random = np.random.default_rng(NAMES.index(name))
    if name == "deform_conv2d":
        return {
            label: _convolution(random, *options)
            for label, options in {
                "plain": (1, 1, False, 1, 1, 1),
                "mask": (1, 1, True, 1, 1, 1),
                "stride, padding, dilation": (1, 1, True, 2, 2, 2),
                "groups": (2, 3, True, 1, 1, 1),
            }.items()
        }
    own = name.startswith("ps_")
    images = random.standard_normal((2, 12 if own else 3, 10, 12))
    regions = rois(random, 9, 2)
    if name == "roi_pool":
        images[0, 0, :3, :4] = images[0, 0, 0, 0]  # equal ones: the first is the greatest
    ratios: dict[str, tuple[Any, ...]] = {"": ()}
    if name.endswith("align"):
        ratios = {"two samples": (2,), "samples by size": (0,)}
    if name == "roi_align":
        ratios = {
            f"{label}{', aligned' if aligned else ''}": (*each, aligned)
            for label, each in ratios.items()
            for aligned in (False, True)
        }
    result = {
        label or "regions": ((images, regions), (0.5, 2, 3, *rest))
        for label, rest in ratios.items()
    }
    last = next(reversed(result.values()))[1]
    return {**result, "no regions": ((images, regions[:0]), last)}


def _convolution(
    random: np.random.Generator, groups: int, offset_groups: int, use_mask: bool, stride: int,
    pad: int, dilation: int,
) -> Case:  # fmt: skip
    sides = [(size + 2 * pad - (dilation * (taps - 1) + 1)) // stride + 1
             for size, taps in ((6, 3), (7, 2))]  # fmt: skip
    images = random.standard_normal((2, 6, 6, 7))
    weight = random.standard_normal((4, 6 // groups, 3, 2))
    offset = random.uniform(-2.5, 2.5, (2, 2 * offset_groups * 6, *sides))
    mask = random.uniform(0, 1, (2, offset_groups * 6, *sides))
    tensors = (images, weight, offset, mask, random.standard_normal(4))
    numbers = (stride, stride, pad, pad, dilation, dilation, groups, offset_groups, use_mask)
    return tensors, numbers
