"""Fractional max pooling: maxima over windows at pseudo-random distances (B. Graham, "Fractional
Max-Pooling", 2014)."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions import reduce
from frontend.functions.declarations import public
from frontend.functions.network_draws import drawn_inside
from frontend.functions.ranges import arange
from frontend.functions.scatter import gather
from frontend.functions.shape import cat
from frontend.nn.checks import fail, require_float, sizes
from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.types import DType


def _per_axis(op: str, value: Any, count: int, kind: type = int) -> tuple[Any, ...]:
    values = (value,) * count if isinstance(value, int | float) else tuple(value)
    if len(values) != count:
        raise fail(AttributeValueError, f"{op}: expected {count} numbers, got {values}")
    return tuple(kind(each) for each in values)


def _starts(sample: Tensor, extent: int, window: int, count: int) -> Tensor:
    """[rows, count]: where the windows begin, for one draw per row; the last ends at the border."""
    last = arange(1) + (extent - window)
    if count == 1:
        return last.expand(sample.shape[0], 1)
    distance = (extent - window) / (count - 1)
    draw = sample.unsqueeze(1)
    steps = ((arange(count - 1) + draw) * distance).to(DType.i64) - (draw * distance).to(DType.i64)
    return cat([steps, last.expand(sample.shape[0], 1)], 1)


def _fractional(count: int) -> Any:
    """`fractional_max_pool{count}d_with_indices`."""
    op = f"fractional_max_pool{count}d"

    def function(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        extents = _extents(op, count, input)
        kernel = _per_axis(op, kernel_size, count)
        size = _output(op, count, extents, output_size, output_ratio)
        for extent, window, wanted in zip(extents, kernel, size):
            if wanted < 1 or wanted + window - 1 > extent:
                raise fail(
                    ShapeError,
                    f"{op}(): pool sizes {kernel} and output sizes {size} do not fit an input of "
                    f"size {extents}",
                )
        images = input if input.ndim == count + 2 else input.unsqueeze(0)
        batch, channels = images.shape[:2]
        samples = _random_samples
        if samples is None:
            samples = drawn_inside((batch, channels, count), input.dtype)
        rows = samples.reshape(batch * channels, count)
        # Of two axes PyTorch draws the last one's first, of three the first one's.
        order = (1, 0) if count == 2 else (0, 1, 2)
        starts = [_starts(rows[:, i], *axis) for i, axis in zip(order, zip(extents, kernel, size))]
        places = _places(starts, kernel, extents)
        flat = images.reshape(batch * channels, math.prod(extents))
        line = places.reshape(batch * channels, math.prod(places.shape[1:]))
        taps = gather(flat, 1, line).reshape(places.shape)
        chosen = reduce.argmax(taps, -1, True)
        shape = (*input.shape[: input.ndim - count], *size)
        greatest = gather(taps, -1, chosen).reshape(shape)
        return greatest, gather(places, -1, chosen).reshape(shape)

    function.__name__ = function.__qualname__ = f"{op}_with_indices"
    function.__doc__ = f"`{op}` with `return_indices`, whatever that is set to."
    return function


def _places(starts: list[Tensor], kernel: tuple[int, ...], extents: tuple[int, ...]) -> Tensor:
    """[rows, windows, taps]: positions in the flattened image."""
    count, rows = len(starts), starts[0].shape[0]
    total: Any = 0
    for axis, (start, window, extent) in enumerate(zip(starts, kernel, extents)):
        before, behind = (1,) * axis, (1,) * (count - 1 - axis)
        windows = start.reshape(rows, *before, start.shape[1], *behind, *(1,) * count)
        taps = arange(window).reshape(*before, window, *behind)
        total = total * extent + (windows + taps)
    windows = math.prod(start.shape[1] for start in starts)
    return total.reshape(rows, windows, math.prod(kernel))


def _extents(op: str, count: int, x: Tensor) -> tuple[int, ...]:
    require_float(x, op)
    if x.ndim not in (count + 1, count + 2):
        raise fail(
            ShapeError, f"{op}(): Expected {count + 1}D or {count + 2}D tensor, but got {sizes(x)}"
        )
    if 0 in x.shape[x.ndim - count - 1 :]:
        raise fail(
            ShapeError,
            f"{op}(): Expected input to have non-zero size for non-batch dimensions, but input has "
            f"sizes {sizes(x)}",
        )
    return tuple(x.shape[x.ndim - count :])


def _output(
    op: str, count: int, extents: tuple[int, ...], size: Any, ratio: Any
) -> tuple[int, ...]:
    if size is None and ratio is None:
        raise fail(
            AttributeValueError, f"{op} requires specifying either an output_size or output_ratio"
        )
    if size is not None:
        return _per_axis(op, size, count)
    shares = _per_axis(op, ratio, count, float)
    return tuple(int(extent * share) for extent, share in zip(extents, shares))


fractional_max_pool2d_with_indices = public(at="nn.functional")(_fractional(2))
fractional_max_pool3d_with_indices = public(at="nn.functional")(_fractional(3))


@public(at="nn.functional", autocast="float32")
def fractional_max_pool2d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Maxima [N, C, h, w] over windows of input [N, C, H, W] (or without N) whose places are drawn:
    `_random_samples` [N, C, 2] from 0 to 1, one per axis. The result's size is given, or its share
    of the input's. With `return_indices` also where each maximum stands, counted row by row."""
    options = (output_size, output_ratio, return_indices, _random_samples)
    pair = fractional_max_pool2d_with_indices(input, kernel_size, *options)
    return pair if return_indices else pair[0]


@public(at="nn.functional", autocast="float32")
def fractional_max_pool3d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """`fractional_max_pool2d` over the last three axes."""
    options = (output_size, output_ratio, return_indices, _random_samples)
    pair = fractional_max_pool3d_with_indices(input, kernel_size, *options)
    return pair if return_indices else pair[0]
