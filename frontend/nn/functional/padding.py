"""Padding: elements put around, or cut off.

By a constant it is one index map. Reflected, repeated and wrapped elements are slices of the
tensor, joined to it along one axis after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.symbolic_numbers import as_float, is_open
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.functions.layout import contiguous
from frontend.nn.checks import fail, scalar_name, sizes
from frontend.nn.geometry import Pairs
from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops import movement


@public(at="nn.functional")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
        ) -> Tensor:  # fmt: skip
    """`input` with more elements around its last axes: `pad` is (before, after) of the last axis,
    then of the one before it, and so on. Negative numbers cut off.

    `mode` is "constant" (`value`, 0 by default), "reflect" (mirrored at the outermost element),
    "replicate" (the outermost element again) or "circular" (from the other end). All but the first
    pad the last one, two or three axes of a tensor that has one or two more. Raises TypeError,
    ShapeError, AttributeValueError or NotImplementedError for what does not fit.
    """
    pairs = _pairs(input, pad)
    if mode == "constant":
        # A float, as in PyTorch: of an unsigned type -1 is no number then.
        return padded(input, pairs, 0 if value is None else fitting(as_float(value), input.dtype))
    if mode not in _SIDES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise fail(AttributeValueError, f'Padding mode "{mode}" doesn\'t take in value argument')
    pairs = [(int(low), int(high)) for low, high in pairs]
    count = len(pairs)
    if count not in (1, 2, 3) or input.ndim not in (count + 1, count + 2):
        raise NotImplementedError(
            f"Padding size {2 * count} is not supported for {input.ndim}D input tensor."
        )
    if mode == "circular":
        return _own(_wrapped(input, pairs), pairs)
    # PyTorch's list has all of them but this one.
    short = mode == "reflect" and count == 3
    return _own((_bordered if short else full_precision(_bordered))(input, pairs, mode), pairs)


def _own(padded: Tensor, pairs: Pairs) -> Tensor:
    """In memory of its own, row by row, also where something, or all, was only cut off."""
    joined = any(number > 0 for pair in pairs for number in pair)
    return contiguous(padded) if joined else _copy(padded)


def _copy(x: Tensor) -> Tensor:
    return contiguous(x.clone())


def _pairs(x: Tensor, pad: Any) -> Pairs:
    if isinstance(pad, str) or not hasattr(pad, "__iter__"):
        raise TypeError(
            f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type(pad).__name__}"
        )
    numbers = [number if is_open(number) else number.__index__() for number in pad]
    if len(numbers) % 2:
        raise fail(ShapeError, "Padding length must be divisible by 2")
    if len(numbers) > 2 * x.ndim:
        raise fail(
            ShapeError,
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(numbers)} and input of dimension {x.ndim}",
        )
    return [(numbers[i], numbers[i + 1]) for i in range(0, len(numbers), 2)][::-1]


# -- a constant ----------------------------------------------------------------------------------


def padded(x: Tensor, last: Pairs, fill: float) -> Tensor:
    """x padded (or cut) by these numbers along its last axes; never x itself or a view of it."""
    x = _cut(x, last)
    pairs = [(0, 0)] * (x.ndim - len(last)) + last
    # An open number is not asked whether it is 0: that is for all of them.
    low, high = (tuple(0 if pair[side] < 0 else pair[side] for pair in pairs) for side in (0, 1))
    if not any(is_open(number) or number for number in (*low, *high)):
        return _copy(x)
    number = lift(int(fill) if x.dtype.is_integer else fill, x)
    return movement.pad(x, number, low=low, high=high, interior=(0,) * x.ndim)


def _cut(x: Tensor, last: Pairs) -> Tensor:
    """x without what negative numbers cut off."""
    pairs = [(0, 0)] * (x.ndim - len(last)) + last
    cut = [(low if low < 0 else 0, high if high < 0 else 0) for low, high in pairs]
    if not any(low or high for low, high in cut):
        return x
    size = tuple(d + low + high for d, (low, high) in zip(x.shape, cut))
    if any(n < 0 for n in size):
        raise fail(ShapeError, f"pad: {pairs} cuts more than there is of size {sizes(x)}")
    start = tuple(-low if n else 0 for n, (low, _) in zip(size, cut))
    return movement.slice_(x, start=start, size=size, step=(1,) * x.ndim)


# -- the tensor's own elements -------------------------------------------------------------------


def _part(x: Tensor, axis: int, start: int, size: int, step: int = 1) -> Tensor:
    starts, counts, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], counts[axis], steps[axis] = start, size, step
    return movement.slice_(x, start=tuple(starts), size=tuple(counts), step=tuple(steps))


def _repeated(x: Tensor, axis: int, place: int, times: int) -> Tensor:
    shape = (*x.shape[:axis], times, *x.shape[axis + 1 :])
    return broadcast_to(_part(x, axis, place, 1), shape)


# What stands before, and behind, an axis.
_SIDES: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "reflect": (
        lambda x, axis, n: _part(x, axis, n, n, -1),
        lambda x, axis, n: _part(x, axis, x.shape[axis] - 2, n, -1),
    ),
    "replicate": (
        lambda x, axis, n: _repeated(x, axis, 0, n),
        lambda x, axis, n: _repeated(x, axis, x.shape[axis] - 1, n),
    ),
    "circular": (
        lambda x, axis, n: _part(x, axis, x.shape[axis] - n, n),
        lambda x, axis, n: _part(x, axis, 0, n),
    ),
}


def _joined(x: Tensor, pairs: Pairs, mode: str) -> Tensor:
    """x with `pairs` (none negative) more elements along its last axes."""
    before, after = _SIDES[mode]
    for axis, (low, high) in enumerate(pairs, x.ndim - len(pairs)):
        parts = [before(x, axis, low)] if low > 0 else []
        parts.append(x)
        parts += [after(x, axis, high)] if high > 0 else []
        x = parts[0] if len(parts) == 1 else movement.concat(*parts, axis=axis)
    return x


def _wrapped(x: Tensor, pairs: Pairs) -> Tensor:
    """Circular padding: what is left after cutting, wrapped around."""
    for size, (low, high) in zip(x.shape[x.ndim - len(pairs) :], pairs):
        if size + min(low, 0) + min(high, 0) < 0:
            raise fail(ShapeError, "Negative padding value is resulting in an empty dimension")
    x = _cut(x, pairs)
    for size, (low, high) in zip(x.shape[x.ndim - len(pairs) :], pairs):
        if low > size or high > size:
            raise fail(ShapeError, "Padding value causes wrapping around more than once.")
    return _joined(x, [(max(low, 0), max(high, 0)) for low, high in pairs], "circular")


def _bordered(x: Tensor, pairs: Pairs, mode: str) -> Tensor:
    """Reflected or replicated elements around the whole tensor, then cut."""
    if x.dtype is DType.bool:
        name = "reflection" if mode == "reflect" else "replication"
        raise NotImplementedError(
            f"\"{name}_pad{len(pairs)}d\" not implemented for '{scalar_name(x)}'"
        )
    count = len(pairs)
    if 0 in x.shape[x.ndim - count - 1 :]:
        raise fail(
            ShapeError,
            f"Expected {count + 1}D or {count + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {sizes(x)}",
        )
    for axis, (low, high) in enumerate(pairs, x.ndim - count):
        if mode == "reflect" and max(low, high) >= x.shape[axis]:
            raise fail(
                ShapeError,
                "Padding size should be less than the corresponding input dimension, but got: "
                f"padding ({low}, {high}) at dimension {axis} of input {sizes(x)}",
            )
        if x.shape[axis] + low + high < 1:
            raise fail(
                ShapeError,
                f"input of size {sizes(x)} is too small for padding ({low}, {high}) at dimension "
                f"{axis}. Calculated output size: {x.shape[axis] + low + high}",
            )
    whole = _joined(x, [(max(low, 0), max(high, 0)) for low, high in pairs], mode)
    return _cut(whole, pairs)
