"""Images rearranged: pixels from channels and back, channels interleaved."""

from __future__ import annotations

import math

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.functions.layout import contiguous
from frontend.nn.checks import fail, sizes
from graphc.errors import AttributeValueError, ShapeError
from graphc.ops import movement


@public(at="nn.functional torch", node="PixelShuffle")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """[*, C·r², H, W] to [*, C, H·r, W·r]: r² channels become the pixels of an r × r square
    (Shi et al., 2016). Raises ShapeError or AttributeValueError where that does not come out."""
    r = _factor("pixel_shuffle", input, upscale_factor, "upscale_factor")
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise fail(
            ShapeError,
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}",
        )
    apart = movement.reshape(input, shape=(*lead, channels // (r * r), r, r, height, width))
    n = len(lead)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    mixed = movement.transpose(apart, permutation=order)
    return _own(
        movement.reshape(mixed, shape=(*lead, channels // (r * r), height * r, width * r)), r
    )


@public(at="nn.functional torch")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """[*, C, H·r, W·r] to [*, C·r², H, W]: what undoes `pixel_shuffle`."""
    r = _factor("pixel_unshuffle", input, downscale_factor, "downscale_factor")
    *lead, channels, height, width = input.shape
    for name, axis, extent in (("height", -2, height), ("width", -1, width)):
        if extent % r:
            raise fail(
                ShapeError,
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({axis})={extent} is not divisible by {r}",
            )
    apart = movement.reshape(input, shape=(*lead, channels, height // r, r, width // r, r))
    n = len(lead)
    mixed = movement.transpose(apart, permutation=(*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return _own(
        movement.reshape(mixed, shape=(*lead, channels * r * r, height // r, width // r)), r
    )


def _own(pixels: Tensor, factor: int) -> Tensor:
    """Pixels in memory of their own, row by row: a reshape may show that of what it is given."""
    return contiguous(pixels) if factor > 1 else pixels.clone()


def _factor(op: str, x: Tensor, factor: int, name: str) -> int:
    if x.ndim < 3:
        raise fail(
            ShapeError,
            f"{op} expects input to have at least 3 dimensions, but got input with {x.ndim} "
            "dimension(s)",
        )
    if factor <= 0:
        raise fail(AttributeValueError, f"{op} expects a positive {name}, but got {factor}")
    return factor.__index__()


@public(at="nn.functional torch")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """[N, C, *] with the channels of `groups` groups interleaved: the first of each group, then
    the second of each, … (Zhang et al., 2018). Raises ShapeError or AttributeValueError."""
    if input.ndim < 3:
        raise fail(
            ShapeError,
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {sizes(input)}",
        )
    if groups <= 0:
        raise fail(
            AttributeValueError,
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}",
        )
    batch, channels, *size = input.shape
    if channels % groups:
        raise fail(
            ShapeError,
            f"Number of channels must be divisible by groups. Got {channels} channels and "
            f"{groups} groups.",
        )
    apart = (batch, groups, channels // groups, math.prod(size))
    mixed = movement.transpose(movement.reshape(input, shape=apart), permutation=(0, 2, 1, 3))
    return movement.reshape(mixed, shape=(batch, channels, *size))


native_channel_shuffle = channel_shuffle
