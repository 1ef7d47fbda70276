"""Which pixels a region reads, and with what weights, along one axis of an image; and the table
that both axes together read from.

Two axes make the taps of `weighted_rows`: an index into the pixels of all images, and the product
of both weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from frontend.engine.tensors.state import tracing
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import where
from frontend.functions.ranges import arange
from frontend.functions.shape import stack


class AxisTaps(NamedTuple):
    """Along one axis, for each of K regions and B bins in it: the places that are read, i64
    [K, B, T], which of them count, and with what weights (None: with 1 where they count)."""

    places: Tensor
    weights: Tensor


def linear_taps(samples: Tensor, counts: Tensor | None, extent: Any) -> AxisTaps:
    """Two taps for each of the `samples` [K, B, S], places in pixels, by linear interpolation:
    places up to one pixel outside are those of the border, farther ones read nothing. Nor do those
    that do not count."""
    inside = (samples >= -1) & (samples <= extent)
    if counts is not None:
        inside = inside & counts
    samples = where(inside, samples, 0.0).clamp(0, extent - 1)
    low = samples.floor()
    part = samples - low
    first = low.long()
    held = inside.to(samples.dtype)
    places = stack([first, (first + 1).clamp(max=extent - 1)], -1)
    weights = stack([(1 - part) * held, part * held], -1)
    return AxisTaps(places.flatten(2), weights.flatten(2))


def window_taps(start: Tensor, end: Tensor, extent: Any) -> tuple[Tensor, Tensor]:
    """The places of windows from `start` to `end`, i64 [K, B], all in [0, extent]: i64 [K, B, T],
    and which of them lie inside. T is the longest window; in a trace, which does not know it,
    `extent`."""
    longest = extent if tracing() or not start.numel() else max(int((end - start).max()), 1)
    places = start.unsqueeze(-1) + arange(longest)
    inside = places < end.unsqueeze(-1)
    return where(inside, places, 0), inside


def pairs(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """What two axes [K, P, T] and [K, Q, U] have, spread to be put together: [K, P, Q, T, U]."""
    return rows[:, :, None, :, None], columns[:, None, :, None, :]


def pixels(input: Tensor) -> Tensor:
    """Images [N, C, H, W] as a table of pixels [N · H · W, C]."""
    table: Tensor = input.permute(0, 2, 3, 1).reshape(-1, input.shape[1])
    return table


def away_from_zero(x: Tensor) -> Tensor:
    """Rounded to whole numbers, halves away from zero, as C does."""
    whole = x.trunc()
    result: Tensor = whole + ((x - whole).abs() >= 0.5) * x.sign()
    return result
