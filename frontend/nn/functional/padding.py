"""Padding: elements put around, or cut off."""

from __future__ import annotations

from collections.abc import Sequence

from frontend.nn.checks import fail, sizes
from frontend.tensor import Tensor
from graphc.errors import ShapeError
from graphc.ir.handle import lift
from graphc.ops import movement

Pairs = list[tuple[int, int]]  # per axis: elements before, elements after

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
        ) -> Tensor:  # fmt: skip
    """`input` with `value` (0 by default) around its last axes: `pad` is (before, after) of the
    last axis, then of the one before it, and so on. Negative numbers cut off.

    Raises ShapeError for a wrong number of items, NotImplementedError for other modes.
    """
    if mode != "constant":
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) % 2:
        raise fail(ShapeError, "Padding length must be divisible by 2")
    if len(pad) > 2 * input.ndim:
        raise fail(
            ShapeError,
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {input.ndim}",
        )
    given = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return padded(input, given[::-1], 0 if value is None else value)


def padded(x: Tensor, last: Pairs, fill: float) -> Tensor:
    """x padded (or cut) by these numbers along its last axes."""
    pairs = [(0, 0)] * (x.ndim - len(last)) + last
    cut = [(min(low, 0), min(high, 0)) for low, high in pairs]
    if any(low or high for low, high in cut):
        size = tuple(d + low + high for d, (low, high) in zip(x.shape, cut))
        if min(size) < 0:
            raise fail(ShapeError, f"pad: {pairs} cuts more than there is of size {sizes(x)}")
        start = tuple(-low for low, _ in cut)
        x = movement.slice_(x, start=start, size=size, step=(1,) * x.ndim)
    low, high = (tuple(max(pair[side], 0) for pair in pairs) for side in (0, 1))
    if not any(low) and not any(high):
        return x
    number = lift(fill if x.dtype.is_float else int(fill), x)
    return movement.pad(x, number, low=low, high=high, interior=(0,) * x.ndim)
