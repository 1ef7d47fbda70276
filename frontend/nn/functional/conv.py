"""Convolution.

x is [N, C, *size], or [C, *size] without a batch; weights are [O, C/groups, *kernel].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.nn.checks import c_name, expanded, fail, sizes
from frontend.nn.functional.padding import padded
from frontend.tensor import Tensor
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ops import contract, movement

IntOrInts = int | Sequence[int]
Pairs = list[tuple[int, int]]  # per axis: elements before, elements after

__all__ = ["conv1d", "conv2d"]


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts | str = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over one axis: see `conv2d`."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts | str = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation: input [N, C, H, W] or [C, H, W], weight [O, C/groups, KH, KW], bias [O].

    `padding` is a number per axis, 'valid' (none) or 'same' (the result has the input's size;
    stride 1 only). Raises ShapeError, DTypeError or AttributeValueError where they do not fit.
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def _conv(
    count: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Tensor:  # fmt: skip
    _check_conv_types(count, x, weight, bias)
    stride, dilation = expanded(stride, count, "stride"), expanded(dilation, count, "dilation")
    if min(stride) < 1 or min(dilation) < 1:
        name = "stride" if min(stride) < 1 else "dilation"
        raise fail(AttributeValueError, f"non-positive {name} is not supported")
    kernel = weight.shape[2:]
    pads = _conv_padding(padding, kernel, stride, dilation)
    batched = x.ndim == count + 2
    x = x if batched else _lead(x)
    _check_conv_shapes(x, weight, bias, pads, dilation, groups)
    if any(low != high for low, high in pads):
        # 'same' with an even span: one more element at the end.
        x, pads = padded(x, pads, 0.0), [(0, 0)] * count
    padding = tuple(low for low, _ in pads)
    out = contract.conv(x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if bias is not None:
        column = movement.reshape(bias, shape=(1, bias.shape[0], *(1,) * count))
        out = out + column
    return out if batched else _unlead(out)


def _conv_padding(padding: Any, kernel: Any, stride: Any, dilation: Any) -> Pairs:
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding == "same":
        if any(step != 1 for step in stride):
            raise fail(
                AttributeValueError, "padding='same' is not supported for strided convolutions"
            )
        totals = [d * (k - 1) for d, k in zip(dilation, kernel)]
        return [(total // 2, total - total // 2) for total in totals]
    if isinstance(padding, str):
        raise fail(AttributeValueError, f"Invalid padding string: '{padding}'")
    pads = expanded(padding, len(kernel), "padding")
    if min(pads) < 0:
        raise fail(AttributeValueError, "negative padding is not supported")
    return [(pad, pad) for pad in pads]


def _check_conv_types(count: int, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if x.ndim not in (count + 1, count + 2):
        raise fail(
            ShapeError,
            f"Expected {count + 1}D (unbatched) or {count + 2}D (batched) input to conv{count}d, "
            f"but got input of size: {sizes(x)}",
        )
    if weight.ndim != count + 2:
        raise fail(
            ShapeError, f"Expected a weight of {count + 2} dimensions, got size {sizes(weight)}"
        )
    if x.dtype != weight.dtype:
        raise fail(
            DTypeError,
            f"Input type ({c_name(x)}) and weight type ({c_name(weight)}) should be the same",
        )
    if bias is not None and x.dtype != bias.dtype:
        raise fail(
            DTypeError,
            f"Input type ({c_name(x)}) and bias type ({c_name(bias)}) should be the same",
        )


def _check_conv_shapes(
    x: Tensor, weight: Tensor, bias: Tensor | None, pads: Pairs, dilation: Any, groups: int
) -> None:
    outputs, channels, *kernel = weight.shape
    if groups < 1 or outputs % groups:
        raise fail(
            ShapeError,
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{sizes(weight)}] instead",
        )
    if x.shape[1] != channels * groups:
        raise fail(
            ShapeError,
            f"Given groups={groups}, weight of size {sizes(weight)}, expected input{sizes(x)} to "
            f"have {channels * groups} channels, but got {x.shape[1]} channels instead",
        )
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise fail(
            ShapeError,
            f"Given weight of size {sizes(weight)}, expected bias to be 1-dimensional with "
            f"{outputs} elements, but got bias of size {sizes(bias)} instead",
        )
    padded = [size + low + high for size, (low, high) in zip(x.shape[2:], pads)]
    if any(d * (k - 1) + 1 > size for d, k, size in zip(dilation, kernel, padded)):
        raise fail(
            ShapeError,
            f"Calculated padded input size per channel: ({_by(padded)}). Kernel size: "
            f"({_by(kernel)}). Kernel size can't be greater than actual input size",
        )


def _by(numbers: Sequence[int]) -> str:
    return " x ".join(map(str, numbers))


def _lead(x: Tensor) -> Tensor:
    return movement.reshape(x, shape=(1, *x.shape))


def _unlead(x: Tensor) -> Tensor:
    return movement.reshape(x, shape=tuple(x.shape[1:]))
