"""Patches of images: `unfold` lays the windows of a sliding kernel out as columns, `fold` adds
columns up to an image. Each is the gradient of the other."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.nn.checks import fail, sizes
from frontend.nn.geometry import IntOrInts, by, ints, unbatched
from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.handle import lift
from graphc.ops import movement, reduce, windows
from graphc.ops.nn import pooling


@public(at="nn.functional", node="Unfold")
def unfold(
    input: Tensor,
    kernel_size: IntOrInts,
    dilation: IntOrInts = 1,
    padding: IntOrInts = 0,
    stride: IntOrInts = 1,
) -> Tensor:
    """[N, C, H, W] to [N, C·KH·KW, L] (also without N): column l is what the kernel sees at
    position l, counted row by row; padding is zeros. Raises ShapeError, AttributeValueError."""
    geometry = _geometry(kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4) or 0 in input.shape[input.ndim - 3 :]:
        raise fail(
            ShapeError,
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {sizes(input)}",
        )
    x = input if input.ndim == 4 else movement.reshape(input, shape=(1, *input.shape))
    counts = _counts(x.shape[2:], geometry)
    if min(counts) < 1:
        raise fail(
            ShapeError,
            f"Given input with spatial size {tuple(x.shape[2:])}, {_text(geometry)}, calculated "
            f"shape of the array of sliding blocks as {counts}, but its components must be at "
            "least one.",
        )
    seen = windows.windows(pooling.tapped(x, geometry["kernel"]), lift(0, x), **geometry)
    columns = movement.transpose(seen, permutation=(0, 1, 4, 5, 2, 3))
    taps = x.shape[1] * math.prod(geometry["kernel"])
    flat = movement.reshape(columns, shape=(x.shape[0], taps, math.prod(counts)))
    return unbatched(flat, input.ndim == 4)


@public(at="nn.functional", node="Col2Im")
def fold(
    input: Tensor,
    output_size: IntOrInts,
    kernel_size: IntOrInts,
    dilation: IntOrInts = 1,
    padding: IntOrInts = 0,
    stride: IntOrInts = 1,
) -> Tensor:
    """[N, C·KH·KW, L] to [N, C, *output_size] (also without N): each element is added where
    `unfold` would have read it. Raises ShapeError, AttributeValueError."""
    size = ints(output_size, 2, "output_size", "fold")
    geometry = _geometry(kernel_size, dilation, padding, stride)
    taps = math.prod(geometry["kernel"])
    if input.ndim not in (2, 3) or 0 in input.shape[input.ndim - 2 :]:
        raise fail(
            ShapeError,
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {sizes(input)}",
        )
    x = input if input.ndim == 3 else movement.reshape(input, shape=(1, *input.shape))
    if x.shape[1] % taps:
        raise fail(
            ShapeError,
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={x.shape[1]} and kernel_size={geometry['kernel']}.",
        )
    counts = _counts(size, geometry)
    if min(counts) < 1 or math.prod(counts) != x.shape[2]:
        raise fail(
            ShapeError,
            f"Given output_size={size}, {_text(geometry)}, expected size of input's dimension 2 to "
            f"match the calculated number of sliding blocks {by(counts, ' * ')} = "
            f"{math.prod(counts)}, but got input.size(2)={x.shape[2]}.",
        )
    channels = x.shape[1] // taps
    apart = movement.reshape(x, shape=(x.shape[0], channels, *geometry["kernel"], *counts))
    seen = movement.transpose(apart, permutation=(0, 1, 4, 5, 2, 3))
    spread = windows.unwindows(seen, lift(0, x), size=size, **geometry)
    return unbatched(reduce.sum(spread, axes=(4, 5)), input.ndim == 3)


def _geometry(kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> dict[str, Any]:
    arguments = {"kernel": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    geometry = {name: ints(value, 2, name) for name, value in arguments.items()}
    for name, numbers in geometry.items():
        if min(numbers) < (0 if name == "padding" else 1):
            rule = "non-negative" if name == "padding" else "greater than zero"
            what = "kernel size" if name == "kernel" else name
            raise fail(AttributeValueError, f"{what} should be {rule}, but got {numbers}")
    return geometry


def _counts(size: Any, geometry: dict[str, Any]) -> tuple[int, ...]:
    parts = (geometry[name] for name in ("kernel", "stride", "padding", "dilation"))
    axes = zip(size, *parts)
    return tuple(max((n + 2 * p - d * (k - 1) - 1) // s + 1, 0) for n, k, s, p, d in axes)


def _text(geometry: dict[str, Any]) -> str:
    return (
        f"kernel_size={geometry['kernel']}, dilation={geometry['dilation']}, "
        f"padding={geometry['padding']}, stride={geometry['stride']}"
    )
