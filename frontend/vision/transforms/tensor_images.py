"""Images that are tensors [..., C, H, W]: what `functional` does with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import as_dtype, float32, uint8
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.functions.rearrange import stack
from frontend.functions.shape import padded
from frontend.nn import functional as F

LUMINANCE = (0.2989, 0.587, 0.114)
"""Weights of red, green and blue in grey (ITU-R 601-2)."""


def _in_floats(img: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """What `compute` makes of the images as floats [N, C, H, W], in their own shape and dtype:
    integers are rounded."""
    height, width = img.shape[-2:]
    channels = img.shape[-3] if img.dim() > 2 else 1
    batch = img.reshape(-1, channels, height, width)
    result = compute(batch if img.is_floating_point() else batch.to(float32))
    if not img.is_floating_point():
        result = result.round().to(img.dtype)
    return result.reshape(*img.shape[:-2], *result.shape[-2:])


# -- geometry ------------------------------------------------------------------------------------


def resize(img: Tensor, size: Sequence[int], mode: str, antialias: bool) -> Tensor:
    """Height and width `size`."""
    smooth = mode in ("bilinear", "bicubic")

    def compute(x: Tensor) -> Tensor:
        corners = False if smooth else None
        y = F.interpolate(
            x, size=tuple(size), mode=mode, align_corners=corners, antialias=smooth and antialias
        )
        return y.clamp(0, 255) if mode == "bicubic" and img.dtype is uint8 else y

    return _in_floats(img, compute)


def pad(img: Tensor, sides: Sequence[int], fill: Any, mode: str) -> Tensor:
    """A frame: left, top, right, bottom."""
    left, top, right, bottom = sides
    if mode == "constant":
        value = fill[0] if isinstance(fill, Sequence) else fill or 0
        around = [(0, 0)] * (img.dim() - 2) + [(top, bottom), (left, right)]
        return padded(img, around, value)
    height, width = img.shape[-2:]
    rows = np.pad(np.arange(height), (top, bottom), mode=mode)  # type: ignore[call-overload]
    columns = np.pad(np.arange(width), (left, right), mode=mode)  # type: ignore[call-overload]
    return img[..., from_data(rows), :][..., from_data(columns)]


def _transformed_corners(matrix: np.ndarray, height: int, width: int) -> tuple[int, int]:
    """Height and width of what holds the whole image after the transformation."""
    y, x = height / 2, width / 2
    corners = matrix @ np.array([[-x, -x, x, x], [-y, y, y, -y], [1, 1, 1, 1]])
    exact = np.round(corners + [[x], [y]], 4)  # so that rounding errors add no pixel
    span = np.ceil(exact.max(1)) - np.floor(exact.min(1))
    return int(span[1]), int(span[0])


def transform(
    img: Tensor, matrix: np.ndarray, mode: str, expand: bool, fill: Sequence[float] | None
) -> Tensor:
    """Each pixel of the result is that of `img` at `matrix` [2, 3] of its place, both counted from
    the middle of their images. Outside is `fill`, a number for each channel."""
    height, width = img.shape[-2:]
    rows, columns = _transformed_corners(matrix, height, width) if expand else (height, width)
    y, x = np.mgrid[:rows, :columns] + 0.5
    places = np.stack([x - columns / 2, y - rows / 2, np.ones_like(x)], -1)
    grid = places @ (matrix.T / [width / 2, height / 2])

    def compute(batch: Tensor) -> Tensor:
        at = from_data(grid[None], batch.dtype).expand(len(batch), -1, -1, -1)
        result = F.grid_sample(batch, at, mode=mode, padding_mode="zeros", align_corners=False)
        if fill is None:
            return result
        ones = batch.new_ones((len(batch), 1, height, width))
        inside = F.grid_sample(ones, at, mode=mode, padding_mode="zeros", align_corners=False)
        around = from_data(list(fill), batch.dtype).reshape(1, -1, 1, 1)
        return result + (1 - inside) * around  # zeros outside

    return _in_floats(img, compute)


# -- colour --------------------------------------------------------------------------------------


def greatest(img: Tensor) -> float:
    """The number that means full brightness."""
    return 1.0 if img.is_floating_point() else float(np.iinfo(img.dtype.numpy).max)


def blended(img: Tensor, other: Tensor, share: float) -> Tensor:
    """`share` of `img` and the rest of `other`, which may lie outside of both."""
    return (share * img + (1.0 - share) * other).clamp(0, greatest(img)).to(img.dtype)


def grey(img: Tensor, channels: int = 1) -> Tensor:
    """Luminance in one or three channels."""
    if img.shape[-3] == 3:
        parts = [weight * img[..., i, :, :] for i, weight in enumerate(LUMINANCE)]
        img = (parts[0] + parts[1] + parts[2]).to(img.dtype).unsqueeze(-3)
    elif img.shape[-3] != 1:
        raise TypeError(f"Input image tensor permitted channel values are 1 or 3, not {img.shape}")
    return img.expand(*img.shape[:-3], channels, *img.shape[-2:]) if channels > 1 else img


def mean_of_grey(img: Tensor) -> Tensor:
    shades = grey(img) if img.shape[-3] == 3 else img
    shades = shades if img.is_floating_point() else shades.to(float32)
    return shades.mean(dim=(-3, -2, -1), keepdim=True)


def _hue_saturation_value(rgb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each [..., H, W] in [0, 1]; hue is 0 where red, green and blue are equal."""
    red, green, blue = rgb.unbind(-3)
    value, least = rgb.amax(-3), rgb.amin(-3)
    spread = value - least
    flat = spread == 0
    safe = spread.masked_fill(flat, 1.0)
    by_blue = 4.0 + (red - green) / safe
    by_green = (2.0 + (blue - red) / safe).where(value == green, by_blue)
    hue = ((green - blue) / safe).where(value == red, by_green)
    hue = ((hue / 6.0 + 1.0) % 1.0).masked_fill(flat, 0.0)
    return hue, spread / value.masked_fill(flat, 1.0), value


def shift_hue(rgb: Tensor, by: float) -> Tensor:
    """A float image [..., 3, H, W] whose hue is turned `by` of a circle."""
    hue, saturation, value = _hue_saturation_value(rgb)
    sector = ((hue + by) % 1.0) * 6.0
    channels = []
    for offset in (5.0, 3.0, 1.0):  # of red, green and blue around the circle
        k = (sector + offset) % 6.0
        fall = k.minimum(4.0 - k).clamp(0.0, 1.0)
        channels.append(value - value * saturation * fall)
    return stack(channels, dim=-3)


# -- neighbourhoods ------------------------------------------------------------------------------


def _bell(size: int, sigma: float) -> np.ndarray:
    """Weights of a Gaussian at the middles of `size` pixels, of sum 1."""
    weights = np.exp(-0.5 * ((np.arange(size) - (size - 1) / 2) / sigma) ** 2)
    result: np.ndarray = weights / weights.sum()
    return result


def gaussian_blur(img: Tensor, sizes: Sequence[int], sigmas: Sequence[float]) -> Tensor:
    """Each pixel is a weighted mean of those around it: width first, then height, in both
    sequences. Beyond the edge the image is mirrored."""
    weights = np.outer(_bell(sizes[1], sigmas[1]), _bell(sizes[0], sigmas[0]))
    across, down = sizes[0] // 2, sizes[1] // 2

    def compute(batch: Tensor) -> Tensor:
        channels = batch.shape[1]
        kernel = from_data(weights, batch.dtype).expand(channels, 1, *weights.shape)
        framed = F.pad(batch, (across, across, down, down), mode="reflect")
        return F.conv2d(framed, kernel, groups=channels)

    return _in_floats(img, compute)


def convert_dtype(image: Tensor, dtype: Any) -> Tensor:
    """Numbers in [0, 1] of floats, in [0, greatest] of integers."""
    kind = as_dtype(dtype)
    if image.dtype is kind:
        return image
    if image.dtype.is_float:
        top = 1.0 if kind.is_float else float(np.iinfo(kind.numpy).max)
        return image.to(kind) if kind.is_float else (image * (top + 1.0 - 1e-3)).to(kind)
    top = greatest(image)
    if kind.is_float:
        return image.to(kind) / top
    return _between_integers(image, kind, math.log2(top + 1))


def _between_integers(image: Tensor, kind: Any, bits: float) -> Tensor:
    """Integers in integers of more or fewer bits."""
    more = math.log2(float(np.iinfo(kind.numpy).max) + 1) - bits
    if more >= 0:
        return image.to(kind) * int(2**more)
    return (image // int(2**-more)).to(kind)
