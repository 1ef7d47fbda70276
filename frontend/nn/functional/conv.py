"""Convolution and transposed convolution over one, two or three axes.

x is [N, C, *size], or [C, *size] without a batch. Weights are [O, C/groups, *kernel]; those of the
transposed form, the gradient of a convolution by its input, [C, O/groups, *kernel].
"""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.nn.checks import c_name, fail, sizes
from frontend.nn.functional.padding import padded
from frontend.nn.geometry import IntOrInts, Pairs, batched, by, ints, known, unbatched
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ops import contract, movement


@public(at="nn.functional torch", autocast="lower_precision")
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


@public(at="nn.functional torch", autocast="lower_precision")
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


@public(at="nn.functional torch", autocast="lower_precision")
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts | str = 0,
    dilation: IntOrInts = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over three axes: see `conv2d`."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


@public(at="nn.functional torch")
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` with time first: input [T, N, C], weight [K, C, O], bias [O] to [T', N, O]."""
    if input.ndim != 3 or weight.ndim != 3:
        raise fail(ShapeError, "Input and weight must have 3 dims: time, batch, in_channel")
    first = movement.transpose(input, permutation=(1, 2, 0))
    taps = movement.transpose(weight, permutation=(2, 1, 0))
    return movement.transpose(conv1d(first, taps, bias, padding=pad), permutation=(2, 0, 1))


@public(at="nn.functional torch", autocast="lower_precision")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: int = 1,
    dilation: IntOrInts = 1,
) -> Tensor:
    """Transposed convolution over one axis: see `conv_transpose2d`."""
    return _transposed(
        1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )  # fmt: skip


@public(at="nn.functional torch", autocast="lower_precision")
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: int = 1,
    dilation: IntOrInts = 1,
) -> Tensor:
    """The gradient of a convolution by its input: input [N, C, H, W] or [C, H, W], weight
    [C, O/groups, KH, KW], bias [O]. An axis of n elements becomes one of
    (n - 1)·stride - 2·padding + dilation·(kernel - 1) + output_padding + 1.

    Raises ShapeError, DTypeError or AttributeValueError where they do not fit.
    """
    return _transposed(
        2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )  # fmt: skip


@public(at="nn.functional torch", autocast="lower_precision")
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntOrInts = 1,
    padding: IntOrInts = 0,
    output_padding: IntOrInts = 0,
    groups: int = 1,
    dilation: IntOrInts = 1,
) -> Tensor:
    """Transposed convolution over three axes: see `conv_transpose2d`."""
    return _transposed(
        3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )  # fmt: skip


# -- the two forms -------------------------------------------------------------------------------


def _conv(
    count: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Tensor:  # fmt: skip
    op = f"conv{count}d"
    x, had_batch = batched(x, count, op)
    around, geometry = known(
        _conv_geometry, (x, weight, bias), count, stride, padding, dilation, groups
    )
    if around:
        x = padded(x, around, 0.0)
    return unbatched(_biased(contract.conv(x, weight, **geometry), bias), had_batch)


def _conv_geometry(
    x: Tensor, weight: Tensor, bias: Tensor | None, count: int, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> tuple[Pairs, dict[str, Any]]:  # fmt: skip
    """What is padded ahead, and the attributes of the op. Raises as `conv2d` does."""
    op = f"conv{count}d"
    _check_operands(count, x, weight, bias)
    stride, dilation = _steps(count, stride, dilation, op)
    pads = _conv_padding(padding, weight.shape[2:], stride, dilation, op)
    _check_groups(weight, groups)
    outputs, channels = weight.shape[:2]
    if x.shape[1] != channels * groups:
        raise fail(
            ShapeError,
            f"Given groups={groups}, weight of size {sizes(weight)}, expected input{sizes(x)} to "
            f"have {channels * groups} channels, but got {x.shape[1]} channels instead",
        )
    _check_bias(bias, outputs, f"weight of size {sizes(weight)}")
    _check_spans(x, weight, pads, dilation)
    around: Pairs = []
    if any(low != high for low, high in pads):
        # 'same' with an even span: one more element at the end.
        around, pads = pads, [(0, 0)] * count
    padding = tuple(low for low, _ in pads)
    return around, {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def _transposed(
    count: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    output_padding: Any, groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    op = f"conv_transpose{count}d"
    x, had_batch = batched(x, count, op)
    _check_operands(count, x, weight, bias)
    stride, dilation = _steps(count, stride, dilation, op)
    pads = _not_negative(padding, count, "padding", op)
    more = _not_negative(output_padding, count, "output_padding", op)
    _check_groups(weight, groups)
    if x.shape[1] != weight.shape[0]:
        raise fail(
            ShapeError,
            f"Given transposed=1, weight of size {sizes(weight)}, expected input{sizes(x)} to "
            f"have {weight.shape[0]} channels, but got {x.shape[1]} channels instead",
        )
    _check_bias(bias, weight.shape[1] * groups, f"transposed=1, weight of size {sizes(weight)}")
    size = _transposed_size(x, weight, stride, pads, more, dilation)
    geometry = {"stride": stride, "dilation": dilation, "groups": groups}
    if all(m < s for m, s in zip(more, stride)):
        out = contract.conv_input_grad(x, weight, size=size, padding=pads, **geometry)
    else:
        # More behind the end than a stride: no convolution leaves so much over, so all of the
        # result is made, then cut to size; what lies behind its end is 0.
        zip_axes = zip(x.shape[2:], weight.shape[2:], stride, dilation)
        whole = tuple((n - 1) * s + d * (k - 1) + 1 for n, k, s, d in zip_axes)
        out = contract.conv_input_grad(x, weight, size=whole, padding=(0,) * count, **geometry)
        cuts = [(-p, want + p - have) for p, want, have in zip(pads, size, whole)]
        out = padded(out, cuts, 0.0)
    return unbatched(_biased(out, bias), had_batch)


def _biased(out: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return out
    return out + movement.reshape(bias, shape=(1, bias.shape[0], *(1,) * (out.ndim - 2)))


# -- geometry ------------------------------------------------------------------------------------


def _steps(count: int, stride: Any, dilation: Any, op: str) -> tuple[Any, Any]:
    stride, dilation = ints(stride, count, "stride", op), ints(dilation, count, "dilation", op)
    if min(stride) < 1 or min(dilation) < 1:
        name = "stride" if min(stride) < 1 else "dilation"
        raise fail(AttributeValueError, f"non-positive {name} is not supported")
    return stride, dilation


def _not_negative(value: Any, count: int, name: str, op: str) -> tuple[int, ...]:
    numbers = ints(value, count, name, op)
    if min(numbers) < 0:
        raise fail(AttributeValueError, f"negative {name} is not supported")
    return numbers


def _conv_padding(padding: Any, kernel: Any, stride: Any, dilation: Any, op: str) -> Pairs:
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding == "same":
        if any(step != 1 for step in stride):
            raise fail(
                AttributeValueError, "padding='same' is not supported for strided convolutions"
            )
        return same_padding(kernel, dilation)
    if isinstance(padding, str):
        raise fail(AttributeValueError, f"Invalid padding string: '{padding}'")
    return [(pad, pad) for pad in _not_negative(padding, len(kernel), "padding", op)]


def same_padding(kernel: Any, dilation: Any) -> Pairs:
    """What keeps the size at stride 1; where it is odd, one more at the end."""
    totals = [d * (k - 1) for d, k in zip(dilation, kernel)]
    return [(total // 2, total - total // 2) for total in totals]


def _transposed_size(
    x: Tensor, weight: Tensor, stride: Any, pads: Any, more: Any, dilation: Any
) -> tuple[int, ...]:
    if any(m >= s and m >= d for m, s, d in zip(more, stride, dilation)):
        raise fail(
            AttributeValueError,
            "output padding must be smaller than either stride or dilation, but got "
            f"output_padding: {more}, stride: {stride}, dilation: {dilation}",
        )
    axes = zip(x.shape[2:], weight.shape[2:], stride, pads, more, dilation)
    size = tuple((n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, m, d in axes)
    if any(n < 1 for n in size) or 0 in x.shape[2:]:
        raise fail(
            ShapeError,
            f"Given input size per channel: ({by(x.shape[2:])}). Calculated output size per "
            f"channel: ({by(size)}). Output size is too small",
        )
    return size


# -- checks --------------------------------------------------------------------------------------


def _check_operands(count: int, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if weight.ndim != count + 2:
        raise fail(
            ShapeError, f"Expected a weight of {count + 2} dimensions, got size {sizes(weight)}"
        )
    if 0 in weight.shape[2:]:
        raise fail(
            ShapeError, f"kernel size should be greater than zero, but got {by(weight.shape[2:])}"
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


def _check_groups(weight: Tensor, groups: int) -> None:
    if groups < 1:
        raise fail(AttributeValueError, "non-positive groups is not supported")
    if weight.shape[0] < groups:
        raise fail(
            ShapeError,
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {sizes(weight)} instead",
        )
    if weight.shape[0] % groups:
        raise fail(
            ShapeError,
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{sizes(weight)}] instead",
        )


def _check_bias(bias: Tensor | None, outputs: int, origin: str) -> None:
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise fail(
            ShapeError,
            f"Given {origin}, expected bias to be 1-dimensional with {outputs} elements, but got "
            f"bias of size {sizes(bias)} instead",
        )


def _check_spans(x: Tensor, weight: Tensor, pads: Pairs, dilation: Any) -> None:
    kernel = weight.shape[2:]
    size = [n + low + high for n, (low, high) in zip(x.shape[2:], pads)]
    if any(d * (k - 1) + 1 > n for d, k, n in zip(dilation, kernel, size)):
        spans = "" if max(dilation) == 1 else f" (dilation {by(dilation)})"
        raise fail(
            ShapeError,
            f"Calculated padded input size per channel: ({by(size)}). Kernel size: "
            f"({by(kernel)}){spans}. Kernel size can't be greater than actual input size",
        )
    if 0 in x.shape[2:]:
        raise fail(
            ShapeError,
            "Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{sizes(x)}",
        )
