"""Pooling layers: options, and what they compute, as loops over windows. `tests/frontend/nn` holds
each to the loops in float64, `tests/frontend/peers` to PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Options = dict[str, Any]

POOLS: list[Options] = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2, 1), "stride": (2, 1, 2)},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
]
"""Options of `MaxPool{1,2,3}d` and `AvgPool{1,2,3}d`; of a tuple the first numbers count."""
DILATIONS = (1, 2)
"""Those of `MaxPool{1,2,3}d`, with each of POOLS."""
POWERS = (1, 2, 3.0)
"""Those of `LPPool{1,2,3}d(power, 2, ceil_mode=True)`."""
ADAPTIVE_SIZES = (1, 2, 3, 4, 7)
"""Those of `Adaptive{Avg,Max}Pool{1,2,3}d(size)`."""
SIZES = (7, 8, 6)
"""Of the images that are pooled."""


def along(value: Any, axes: int) -> tuple[int, ...]:
    """A number for each axis."""
    return value[:axes] if isinstance(value, tuple) else (value,) * axes


def make_pool(nn: Any, kind: str, axes: int, options: Options, **more: Any) -> Any:
    """`MaxPool2d` and others, of either system's `nn`."""
    own = {k: along(v, axes) if isinstance(v, tuple) else v for k, v in options.items()}
    return getattr(nn, f"{kind}Pool{axes}d")(**own, **more)


def window_taps(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool,
                ) -> list[tuple[list[int], int]]:  # fmt: skip
    """For each window of an axis: the places that lie inside, and how many count with padding."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (math.ceil if ceil else math.floor)(room / stride) + 1
    if ceil and (count - 1) * stride >= size + padding:
        count -= 1
    windows = []
    for at in range(count):
        places = [at * stride - padding + tap * dilation for tap in range(kernel)]
        inside = [place for place in places if 0 <= place < size]
        windows.append((inside, sum(place < size + padding for place in places)))
    return windows


def reduced(x: Array, windows: list[list[tuple[list[int], int]]], reduce: Callable[..., Array]
            ) -> Array:  # fmt: skip
    """`reduce(elements, count)` of each window: elements [.., window], and how many count."""
    axes = len(windows)
    out = np.zeros((*x.shape[:-axes], *map(len, windows)))
    for at in np.ndindex(*out.shape[x.ndim - axes :]):
        part, count = x, 1
        for axis, place in enumerate(at):
            taps, span = windows[axis][place]
            part, count = np.take(part, taps, x.ndim - axes + axis), count * span
        out[(..., *at)] = reduce(part.reshape(*x.shape[:-axes], -1), count)
    return out


def windows_of(x: Array, axes: int, options: Options, dilation: int = 1) -> Any:
    kernel = along(options["kernel_size"], axes)
    stride = along(options.get("stride", kernel), axes)
    padding = along(options.get("padding", 0), axes)
    ceil = options.get("ceil_mode", False)
    sizes = x.shape[-axes:]
    return [
        window_taps(n, k, s, p, dilation, ceil)
        for n, k, s, p in zip(sizes, kernel, stride, padding)
    ]


def max_pool(x: Array, axes: int, options: Options, dilation: int = 1) -> tuple[Array, Array]:
    """The maxima, and where in its image each is, the first of equal ones."""
    windows = windows_of(x, axes, options, dilation)
    sizes = x.shape[-axes:]
    places = np.broadcast_to(np.arange(math.prod(sizes)).reshape(sizes), x.shape)
    both = np.stack([x, places])

    def place(part: Array, count: int) -> Array:
        values, at = part
        return np.take_along_axis(at, values.argmax(-1)[..., None], -1)[..., 0]

    maxima = reduced(x, windows, lambda part, count: part.max(-1))
    return maxima, reduced_pairs(both, windows, place).astype(np.int64)


def reduced_pairs(both: Array, windows: Any, reduce: Callable[..., Array]) -> Array:
    """`reduced` where the first axis stays with `reduce`."""
    return reduced(both, windows, lambda part, count: np.stack([reduce(part, count)] * 2))[0]


def avg_pool(x: Array, axes: int, options: Options, include: bool, divisor: int | None = None
             ) -> Array:  # fmt: skip
    def mean(part: Array, count: int) -> Array:
        total: Array = part.sum(-1)
        return total / (divisor or (count if include else part.shape[-1]))

    return reduced(x, windows_of(x, axes, options), mean)


def lp_pool(x: Array, axes: int, power: float) -> Array:
    """Windows of 2, those at the end weighted as if they were whole."""
    windows = windows_of(x, axes, {"kernel_size": 2, "ceil_mode": True})
    return reduced(
        x, windows, lambda part, count: ((part**power).mean(-1) * 2**axes) ** (1 / power)
    )


def adaptive_pool(x: Array, axes: int, size: int, reduce: Callable[..., Array]) -> Array:
    windows = [
        [(list(range(i * n // size, -(-(i + 1) * n // size))), 1) for i in range(size)]
        for n in x.shape[-axes:]
    ]
    return reduced(x, windows, lambda part, count: reduce(part, -1))
