"""Functional forms over windows: convolution, pooling, padding.

x is [N, C, *size], or [C, *size] without a batch; weights are [O, C/groups, *kernel].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.nn.checks import c_name, expanded, fail, sizes
from frontend.tensor import Tensor
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ops import composite, contract, movement

IntOrInts = int | Sequence[int]
Pairs = list[tuple[int, int]]  # per axis: elements before, elements after

# -- convolution ---------------------------------------------------------------------------------


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
        x, pads = _padded(x, pads, 0.0), [(0, 0)] * count
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


# -- pooling -------------------------------------------------------------------------------------


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
        input = _padded(input, [(p, p + h) for p, h in zip(pad, hang)], lowest)
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
    padded = _padded(input, [(p, p + h) for p, h in zip(pad, hang)], 0.0)
    mean = composite.avg_pool(padded, kernel=kernel, stride=step, padding=(0, 0))
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


# -- padding -------------------------------------------------------------------------------------


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
    return _padded(input, given[::-1], 0 if value is None else value)


def _padded(x: Tensor, last: Pairs, fill: float) -> Tensor:
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
