"""Pooling: a reduction over each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.nn.checks import expanded, fail, sizes
from frontend.nn.functional.padding import padded
from frontend.tensor import Tensor
from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.handle import broadcast_to
from graphc.ops import composite

IntOrInts = int | Sequence[int]

__all__ = ["avg_pool2d", "max_pool2d"]


def max_pool2d(
    input: Tensor,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The maximum of each window over the last two axes; `stride` defaults to the kernel's size.

    Padding counts as minus infinity. The first of equal maxima takes the gradient. With `ceil_mode`
    a last window may hang over the end. Raises ShapeError or AttributeValueError.
    """
    kernel, step, pad, hang = _pool_geometry(
        input, kernel_size, stride, padding, dilation, ceil_mode
    )
    spread = expanded(dilation, 2, "dilation")
    if any(hang):
        lowest = -math.inf if input.dtype.is_float else np.iinfo(input.dtype.numpy).min
        input = padded(input, [(p, p + h) for p, h in zip(pad, hang)], lowest)
        pad = (0, 0)
    return composite.max_pool(input, kernel=kernel, stride=step, padding=pad, dilation=spread)


def avg_pool2d(
    input: Tensor,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over the last two axes; `stride` defaults to the kernel's size.

    Padding counts as zeros, and in the mean's denominator unless `count_include_pad` is False;
    `divisor_override` replaces the denominator. Raises ShapeError or AttributeValueError.
    """
    kernel, step, pad, hang = _pool_geometry(input, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override == 0:
        raise fail(AttributeValueError, "divisor must be not zero")
    if not any(hang) and divisor_override is None:
        return composite.avg_pool(
            input, kernel=kernel, stride=step, padding=pad, count_include_pad=count_include_pad
        )
    wide = padded(input, [(p, p + h) for p, h in zip(pad, hang)], 0.0)
    mean = composite.avg_pool(wide, kernel=kernel, stride=step, padding=(0, 0))
    axes = zip(input.shape[-2:], kernel, step, pad, mean.shape[-2:])
    counts = [_tap_counts(size, k, s, p, n, count_include_pad) for size, k, s, p, n in axes]
    divisor = np.multiply.outer(*counts) if divisor_override is None else divisor_override
    factor = np.asarray(math.prod(kernel) / divisor, input.dtype.numpy)
    return mean * broadcast_to(input.context.constant(factor), mean.shape)


def _tap_counts(
    size: int, kernel: int, stride: int, pad: int, count: int, include_pad: bool
) -> np.ndarray:
    """How many taps of each window along one axis count in the mean."""
    start = np.arange(count) * stride - pad
    end = np.minimum(start + kernel, size + pad)
    if not include_pad:
        start, end = np.maximum(start, 0), np.minimum(end, size)
    return np.maximum(end - start, 0).astype(float)


def _pool_geometry(
    x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Kernel, stride, padding, and how far the last window hangs over the padded end."""
    if x.ndim not in (3, 4):
        raise fail(
            ShapeError,
            f"non-empty 3D or 4D (batch mode) tensor expected for input, got size {sizes(x)}",
        )
    kernel = expanded(kernel_size, 2, "kernel_size")
    step = kernel if stride is None or stride == () else expanded(stride, 2, "stride")
    pad, spread = expanded(padding, 2, "padding"), expanded(dilation, 2, "dilation")
    if min(kernel) < 1 or min(step) < 1 or min(spread) < 1:
        what = "kernel size" if min(kernel) < 1 else "stride" if min(step) < 1 else "dilation"
        raise fail(AttributeValueError, f"pooling: {what} should be greater than zero")
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, spread)]
    for p, k, d, span in zip(pad, kernel, spread, spans):
        if p < 0 or 2 * p > span:
            raise fail(
                AttributeValueError,
                "pad should be at most half of effective kernel size, "
                f"but got pad={p}, kernel_size={k} and dilation={d}",
            )
    space = [size + 2 * p - span for size, p, span in zip(x.shape[-2:], pad, spans)]
    extra = [s - 1 if ceil_mode else 0 for s in step]
    counts = [(room + e) // s + 1 for room, e, s in zip(space, extra, step)]
    # A window that would start beyond the input and its leading padding is left out.
    starts = zip(counts, step, x.shape[-2:], pad)
    counts = [n - 1 if ceil_mode and (n - 1) * s >= size + p else n for n, s, size, p in starts]
    if min(counts) < 1:
        lead = _sizes_by(x.shape[-3:])
        out = _sizes_by((x.shape[-3], *(max(n, 0) for n in counts)))
        raise fail(
            ShapeError,
            f"Given input size: ({lead}). Calculated output size: ({out}). "
            "Output size is too small",
        )
    hang = tuple(max((n - 1) * s - room, 0) for n, s, room in zip(counts, step, space))
    return kernel, step, pad, hang


def _sizes_by(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))
