"""Convolution and its two adjoints in NumPy: what eager mode runs.

x: [N, C, *size], w: [O, C/groups, *kernel], g: [N, O, *positions], any number of axes. Padding is
skipped, also where a factor is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError
from graphc.ir.types import Shape
from graphc.ops.windows import window_count


def position_counts(size: Shape, kernel: Shape, geometry: dict[str, Any]) -> Shape:
    """Windows along each axis."""
    rank = len(size)
    parts = [geometry[name] for name in ("stride", "padding", "dilation")]
    if len(kernel) != rank or any(len(part) != rank for part in parts):
        raise AttributeValueError(f"convolution over {rank} axes with {geometry}")
    return tuple(map(window_count, size, kernel, *parts))


def im2col(x: Any, kernel: Shape, geometry: dict[str, Any], groups: int) -> Any:
    """[N, groups, C/groups · taps, positions]."""
    rank = len(kernel)
    widths = [(0, 0), (0, 0)] + [(p, p) for p in geometry["padding"]]
    x = np.pad(x, widths) if any(geometry["padding"]) else x
    spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, geometry["dilation"], strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, 2 + rank)))
    steps = tuple(slice(None, None, s) for s in geometry["stride"])
    taps = tuple(slice(None, None, d) for d in geometry["dilation"])
    view = view[(slice(None), slice(None), *steps, *taps)]
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    n, channels = x.shape[:2]
    positions = int(np.prod(view.shape[2 : 2 + rank]))
    depth = channels // groups * int(np.prod(kernel))
    return view.transpose(order).reshape(n, groups, depth, positions)


def taps(
    kernel: Shape, size: Shape, counts: Shape, geometry: dict[str, Any]
) -> Iterator[tuple[Shape, tuple[slice, ...], tuple[slice, ...]]]:
    """For each kernel position: the windows that read an element there, and those elements."""
    for tap in np.ndindex(*kernel):
        windows, elements = [], []
        for t, dim, count, s, d, pad in zip(
            tap, size, counts, geometry["stride"], geometry["dilation"], geometry["padding"],
            strict=True,
        ):  # fmt: skip
            offset = t * d - pad
            first = max(-(offset // s), 0)
            last = min((dim - 1 - offset) // s + 1, count)
            windows.append(slice(first, max(last, first)))
            start = first * s + offset
            elements.append(slice(start, start + max(last - first, 0) * s, s))
        yield tap, tuple(windows), tuple(elements)


def skips(factor: Any, geometry: dict[str, Any]) -> bool:
    """Whether padding must be skipped, not multiplied as zeros: 0·inf is NaN."""
    return any(geometry["padding"]) and not np.isfinite(factor).all()


def conv_by_taps(x: Any, w: Any, counts: Shape, groups: int, geometry: dict[str, Any]) -> Any:
    """A convolution position by position of its kernel, padding skipped."""
    n, outputs, depth = x.shape[0], w.shape[0], w.shape[1]
    out = np.zeros((n, groups, outputs // groups, *counts), x.dtype)
    grouped = x.reshape(n, groups, depth, *x.shape[2:])
    weights = w.reshape(groups, outputs // groups, *w.shape[1:])
    for tap, windows, elements in taps(w.shape[2:], x.shape[2:], counts, geometry):
        part = grouped[(slice(None), slice(None), slice(None), *elements)]
        factor = weights[(..., *tap)]
        out[(slice(None), slice(None), slice(None), *windows)] += np.einsum(
            "ngc...,goc->ngo...", part, factor
        )
    return out.reshape(n, outputs, *counts)


def conv_compute(x: Any, w: Any, *, groups: int, **geometry: Any) -> Any:
    kernel = w.shape[2:]
    counts = position_counts(x.shape[2:], kernel, geometry)
    if skips(w, geometry):
        return conv_by_taps(x, w, counts, groups, geometry)
    depth = w.shape[1] * int(np.prod(kernel))
    flat = w.reshape(groups, w.shape[0] // groups, depth)
    return (flat @ im2col(x, kernel, geometry, groups)).reshape(x.shape[0], w.shape[0], *counts)


def input_grad_compute(g: Any, w: Any, *, size: Shape, groups: int, **geometry: Any) -> Any:
    n, kernel, counts = g.shape[0], w.shape[2:], g.shape[2:]
    depth = w.shape[1] * int(np.prod(kernel))
    flat = w.reshape(groups, w.shape[0] // groups, depth)
    rows = g.reshape(n, groups, w.shape[0] // groups, int(np.prod(counts)))
    columns = (flat.transpose(0, 2, 1) @ rows).reshape(n, w.shape[1] * groups, *kernel, *counts)
    padding, stride, dilation = (geometry[name] for name in ("padding", "stride", "dilation"))
    padded = tuple(s + 2 * p for s, p in zip(size, padding, strict=True))
    out = np.zeros((n, w.shape[1] * groups, *padded), g.dtype)
    for taps in np.ndindex(*kernel):
        places = tuple(
            slice(t * d, t * d + (c - 1) * s + 1, s)
            for t, d, c, s in zip(taps, dilation, counts, stride, strict=True)
        )
        out[(slice(None), slice(None), *places)] += columns[(slice(None), slice(None), *taps)]
    inside = tuple(slice(p, p + s) for p, s in zip(padding, size, strict=True))
    return out[(slice(None), slice(None), *inside)]


def weight_grad_by_taps(
    x: Any, g: Any, kernel: Shape, groups: int, geometry: dict[str, Any]
) -> Any:
    """The weight's gradient position by position of the kernel, padding skipped."""
    n, outputs, depth = x.shape[0], g.shape[1], x.shape[1] // groups
    out = np.zeros((groups, outputs // groups, depth, *kernel), x.dtype)
    inputs = x.reshape(n, groups, depth, *x.shape[2:])
    grads = g.reshape(n, groups, outputs // groups, *g.shape[2:])
    for tap, windows, elements in taps(kernel, x.shape[2:], g.shape[2:], geometry):
        part = inputs[(slice(None), slice(None), slice(None), *elements)]
        factor = grads[(slice(None), slice(None), slice(None), *windows)]
        axes = "xyz"[: len(kernel)]
        place: tuple[Any, ...] = (slice(None), slice(None), slice(None), *tap)
        out[place] = np.einsum(f"ngc{axes},ngo{axes}->goc", part, factor)
    return out.reshape(outputs, depth, *kernel)


def weight_grad_compute(x: Any, g: Any, *, kernel: Shape, groups: int, **geometry: Any) -> Any:
    n, outputs = g.shape[:2]
    if skips(g, geometry):
        return weight_grad_by_taps(x, g, kernel, groups, geometry)
    rows = g.reshape(n, groups, outputs // groups, int(np.prod(g.shape[2:])))
    columns = im2col(x, kernel, geometry, groups)
    total = (rows @ columns.transpose(0, 1, 3, 2)).sum(axis=0)
    return total.reshape(outputs, x.shape[1] // groups, *kernel)
