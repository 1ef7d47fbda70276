"""The convolution of bytes, exact in i32: products of matrices of bytes, of copied windows, or
where channels are few a convolution in f32 of whole numbers that it holds exactly. Which one hangs
on shapes alone, and the numbers are the same."""

from __future__ import annotations

from math import prod
from typing import Any

from graphc.errors import DTypeError, ShapeError
from graphc.ir.handle import broadcast_to
from graphc.ir.types import DType, Shape
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.contract import conv, int_matmul
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer
from graphc.ops.movement import reshape, transpose
from graphc.ops.nn.pooling import tapped
from graphc.ops.windows import windows

EXACT = 2**24 // (255 * 128)
"""So many products of u8 or i8, less a zero point, with i8 are whole numbers that f32 holds, and so
is each sum of some of them."""
FEW = 16
"""Channels of a group from which on copies of windows pay, for products of bytes."""


def _int_conv(
    x: Any, w: Any, zero: Any, *, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Any:
    if x.dtype not in (DType.i8, DType.u8) or w.dtype is not DType.i8:
        raise DTypeError(
            f"int_conv takes i8 or u8 with i8, got {x.tensor_type} with {w.tensor_type}"
        )
    if zero.shape != () or zero.dtype is not x.dtype:
        raise DTypeError(f"int_conv: the zero point is {x.dtype}[], got {zero.tensor_type}")
    geometry = {"stride": stride, "padding": padding, "dilation": dilation}
    channels, *taps = w.shape[1:]
    if channels < FEW and channels * prod(taps) <= EXACT:
        wide = e.cast(x, dtype=DType.f32) - e.cast(zero, dtype=DType.f32)
        summed = conv(wide, e.cast(w, dtype=DType.f32), groups=groups, **geometry)
        return e.cast(summed, dtype=DType.i32)
    return _by_windows(x, w, zero, groups, geometry)


def _by_windows(x: Any, w: Any, zero: Any, groups: int, geometry: dict[str, Shape]) -> Any:
    """The sums as products of matrices: each position's window is a row, of taps and then of
    channels, so that four neighbours along k are four channels of a tap."""
    channels, *taps = w.shape[1:]
    kernel, axes = tuple(taps), len(taps)
    seen = windows(tapped(x, kernel), zero, kernel=kernel, **geometry)
    batch, positions = seen.shape[0], tuple(seen.shape[2 : 2 + axes])
    if seen.shape[1] != channels * groups or w.shape[0] % groups:
        raise ShapeError(
            f"int_conv of {x.tensor_type} with {w.tensor_type}: no {groups} groups of channels"
        )
    places = tuple(range(3, 3 + 2 * axes))
    seen = reshape(seen, shape=(batch, groups, channels, *positions, *kernel))
    seen = transpose(seen, permutation=(1, 0, *places, 2))
    rows = reshape(seen, shape=(groups, batch * prod(positions), prod(kernel) * channels))
    outputs = w.shape[0] // groups
    weight = reshape(w, shape=(groups, outputs, channels, *kernel))
    weight = transpose(weight, permutation=(0, *range(3, 3 + axes), 2, 1))
    summed = int_matmul(rows, reshape(weight, shape=(groups, prod(kernel) * channels, outputs)))
    summed = reshape(summed, shape=(groups, batch, *positions, outputs))
    summed = transpose(summed, permutation=(1, 0, 2 + axes, *range(2, 2 + axes)))
    summed = reshape(summed, shape=(batch, groups * outputs, *positions))
    of_zero = e.cast(zero, dtype=DType.i32) * r.sum(
        e.cast(w, dtype=DType.i32), axes=tuple(range(1, 2 + axes))
    )
    apart = reshape(of_zero, shape=(1, groups * outputs, *(1,) * axes))
    return summed - broadcast_to(apart, summed.shape)


def _samples(m: SampleDrawer) -> list[Any]:
    samples = []
    for x, w, stride, padding, dilation, groups in (
        ((1, 16, 5, 4), (5, 16, 3, 2), 1, 1, 1, 1),
        ((2, 3, 6, 5), (4, 3, 3, 3), 2, 1, 1, 1),
        ((2, 32, 7), (6, 16, 3), 1, 0, 2, 2),
        ((1, 17, 4, 4), (8, 17, 1, 1), 1, 0, 1, 1),
        ((2, 6, 4, 3), (6, 1, 3, 3), 1, 1, 1, 6),
        ((0, 16, 4), (3, 16, 2), 1, 1, 1, 1),
    ):
        steps, pads, gaps = ((each,) * (len(x) - 2) for each in (stride, padding, dilation))
        operands = m.bytes(*x), m.bytes(*w), m.bytes()
        samples.append(m(*operands, stride=steps, padding=pads, dilation=gaps, groups=groups))
    return samples


# Convolutions of x, i8 or u8 [N, C, *size], less a zero point of its dtype, with w, i8
# [O, C/groups, *kernel]: i32 [N, O, *positions], modulo 2^32. What falls on padding adds nothing.
int_conv = Composite(
    "int_conv", _int_conv, differentiable=False, samples=_samples,
    dtypes=(DType.i8, DType.u8),
)  # fmt: skip
