"""Normalisations. Statistics that a function updates (`running_mean`, `running_var`) are changed
in place; in a trace that is state of the compiled step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.fused import Fused
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.bounded import Bounded
from frontend.engine.tensors.dtypes import SCALAR_NAMES, Size, promote_types
from frontend.engine.tensors.limits import finfo
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import matrix, pointwise
from frontend.functions.declarations import public
from frontend.functions.norms import norm
from frontend.nn.checks import fail, require_float, scalar_name, sizes
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops import composite
from graphc.ops.nn import normalization as n


class SizeError(ShapeError, ValueError):
    """A tensor of a size that cannot be normalised: a ValueError in PyTorch."""


def _constant(part: Tensor | None, number: float, model: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`part`, or where there is none `number` everywhere."""
    return broadcast_to(lift(number, model), shape) if part is None else part


def _computed_in(input: Tensor, parts: dict[str, Tensor | None]) -> DType:
    """The dtype of the statistics: float32 where a half type comes with parts in float32, as under
    autocast, else the input's. Raises DTypeError where a part has another one."""
    dtypes = {name: part.dtype for name, part in parts.items() if part is not None}
    short = input.dtype.is_storage and set(dtypes.values()) == {DType.f32}
    kind = DType.f32 if short else input.dtype
    for name, dtype in dtypes.items():
        if dtype is not kind:
            fits = (
                "all inputs must share same datatype"
                if dtype is DType.f32
                else "expect parameter to have scalar type of Float"
            )
            raise fail(
                DTypeError,
                f"mixed dtype (CPU): {fits}, but the input has {scalar_name(input)} and {name} "
                f"{SCALAR_NAMES[dtype]}",
            )
    return kind


# -- over the last axes --------------------------------------------------------------------------


@public(at="nn.functional")
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """input over its last axes (`normalized_shape`) with mean 0 and variance 1, times `weight`,
    plus `bias`, both of that shape. Raises ShapeError, DTypeError."""
    require_float(input, "LayerNormKernelImpl")
    shape = _checked_shape(input, normalized_shape, weight=weight, bias=bias)
    x = casted(input, _computed_in(input, {"weight": weight, "bias": bias}))
    scale, shift = _constant(weight, 1, x, shape), _constant(bias, 0, x, shape)
    return casted(n.layer_norm(x, scale, shift, eps=eps), input.dtype)


@public(at="nn.functional")
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """input over the root mean square of its last axes (`normalized_shape`), times `weight` of
    that shape; of two dtypes in the wider. `eps` is by default that of the dtype, of float32 for
    half types. Raises ShapeError."""
    require_float(input, "RMSNormKernelImpl")
    shape = _checked_shape(input, normalized_shape, weight=weight)
    small = finfo(input.dtype.computes_as).eps if eps is None else eps
    kind = input.dtype if weight is None else promote_types(input.dtype, weight.dtype)
    x = casted(input, kind)
    scale = _constant(None, 1, x, shape) if weight is None else casted(weight, kind)
    return casted(n.rms_norm(x, scale, eps=small), input.dtype)


def _checked_shape(
    input: Tensor, normalized_shape: Sequence[int], **parts: Tensor | None
) -> tuple[int, ...]:
    shape = tuple(normalized_shape)
    if not shape:
        raise fail(
            ShapeError,
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []",
        )
    for name, part in parts.items():
        if part is not None and tuple(part.shape) != shape:
            raise fail(
                ShapeError,
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{sizes(part)} and normalized_shape = {list(shape)}",
            )
    if tuple(input.shape[-len(shape) :]) != shape:
        raise fail(
            ShapeError,
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{sizes(input)}",
        )
    return shape


# -- per channel (axis 1) ------------------------------------------------------------------------


@public(at="nn.functional")
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """input [N, C, *] with mean 0 and variance 1 in each channel, times `weight` [C], plus `bias`
    [C] (Ioffe, Szegedy, 2015).

    In training the statistics are the batch's, and `running_mean` and `running_var` [C], where
    given, move towards them by `momentum` (a number or a 0-d tensor), the variance without bias.
    Otherwise the running ones are used. Raises RuntimeError for wrong sizes and dtypes, ValueError
    for one value per channel in training.
    """
    parts = (running_mean, running_var, weight, bias)
    key = (training, input.tensor_type, *[None if x is None else x.tensor_type for x in parts])
    known = None if STATE.watched else _KNOWN.get(key)
    if known is None:
        known = _checked_batch(input, parts, training)
        if not STATE.watched:
            _KNOWN[key] = known
    kind, channels, count = known
    if channels is None:
        return input.clone()  # as PyTorch's does, which asks nothing of an empty input's rank
    x = casted(input, kind)
    scale, shift = _constant(weight, 1, x, channels), _constant(bias, 0, x, channels)
    if not training:
        assert running_mean is not None and running_var is not None
        operands = (x, running_mean.detach(), running_var.detach(), scale, shift)
        return casted(CONTEXT.apply(n.batch_norm_by, operands, {"eps": eps})[0], input.dtype)
    out, level, variance = CONTEXT.apply(n.batch_norm, (x, scale, shift), {"eps": eps})
    if count and (running_mean is not None or running_var is not None):
        unbiased = count / max(count - 1, 1)
        _move(running_mean, running_var, level.detach(), variance.detach(), momentum, unbiased)
    return casted(out, input.dtype)


_KNOWN: Bounded[Any, tuple[DType, Any, int]] = Bounded(4096)
"""By the types of all tensors, what `_checked_batch` gives."""
_PARTS = ("running_mean", "running_var", "weight", "bias")


def _checked_batch(
    input: Tensor, parts: tuple[Tensor | None, ...], training: bool
) -> tuple[DType, Any, int]:
    """The dtype of the statistics, the shape of one value per channel (None: nothing is done with
    such an input), and how many elements a channel has. Raises as `batch_norm` does."""
    shape = input._sizes
    if training:
        _require_several(input, math.prod(shape[:1] + shape[2:]), "value per channel")
    elif parts[0] is None or parts[1] is None:
        missing = "running_mean" if parts[0] is None else "running_var"
        raise fail(ShapeError, f"{missing} must be defined in evaluation mode")
    require_float(input, "batch_norm")
    if len(shape) == 1 and not shape[0]:
        return input.dtype, None, 0
    named = dict(zip(_PARTS, parts))
    _check_channels(input, named)
    channels = shape[1:2]
    count = input.numel() // channels[0] if channels[0] else 0
    return _computed_in(input, named), channels, count


def _move(
    mean: Tensor | None, variance: Tensor | None, level: Tensor, spread: Tensor, momentum: Any,
    unbiased: Any,
) -> None:  # fmt: skip
    """The running statistics become (1 - momentum) · what they are + momentum · what they are now,
    in place: `level`, and `spread` · `unbiased`."""
    kept = 1 - momentum
    with no_grad():
        if mean is not None and variance is not None:
            _both_moved((mean, variance, level, spread), (kept, momentum, unbiased))
        elif mean is not None:
            _moved((mean, level), (kept, momentum))
        elif variance is not None:
            _moved((variance, spread * unbiased), (kept, momentum))


@Fused
def _moved(running: Any, now: Any, kept: Any, momentum: Any) -> tuple[Any]:
    return (running * kept + now * momentum,)


@Fused
def _both_moved(
    mean: Any, variance: Any, level: Any, spread: Any, kept: Any, momentum: Any, unbiased: Any
) -> tuple[Any, Any]:
    return mean * kept + level * momentum, variance * kept + spread * unbiased * momentum


def _require_several(input: Tensor, count: int, what: str) -> None:
    if input.ndim >= 2 and count == 1:
        raise fail(
            SizeError,
            f"Expected more than 1 {what} when training, got input size {Size(input.shape)!r}",
        )


def _check_channels(input: Tensor, parts: dict[str, Tensor | None]) -> None:
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, part in parts.items():
        if part is not None and part.numel() != channels:
            raise fail(ShapeError, f"{name} should contain {channels} elements not {part.numel()}")
    if input.ndim < 2:
        raise fail(
            ShapeError, f"Expected at least 2 dimensions for input tensor but received {input.ndim}"
        )


@public(at="nn.functional")
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """input [N, C, *] with mean 0 and variance 1 in each channel of each instance, times `weight`
    [C], plus `bias` [C] (Ulyanov, Vedaldi, Lempitsky, 2016).

    Running statistics, where given, move towards the mean over the instances; without
    `use_input_stats` they are used in place of the input's. Raises as `batch_norm` does.
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise fail(
                ShapeError,
                "Expected running_mean and running_var to be defined when use_input_stats is false",
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _require_several(input, math.prod(input.shape[2:]), "spatial element")
    require_float(input, "batch_norm")
    parts = {
        "running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias,
    }  # fmt: skip
    _check_channels(input, parts)
    channels = tuple(input.shape[1:2])
    x = casted(input, _computed_in(input, parts))
    scale, shift = _constant(weight, 1, x, channels), _constant(bias, 0, x, channels)
    if running_mean is not None or running_var is not None:
        _track_instances(x, running_mean, running_var, momentum)
    normalized = n.group_norm(x, scale, shift, groups=max(channels[0], 1), eps=eps)
    return casted(normalized, input.dtype)


def _track_instances(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> None:
    axes = tuple(range(2, input.ndim))
    with no_grad():
        level = CONTEXT.apply(composite.mean, (input,), {"axes": axes})[0]
        spread = CONTEXT.apply(composite.var, (input,), {"axes": axes, "correction": 1})[0]
        _move(running_mean, running_var, level.mean(0), spread.mean(0), momentum, 1.0)


@public(at="nn.functional")
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """input [N, C, *] with mean 0 and variance 1 in each of `num_groups` groups of channels of each
    instance, times `weight` [C], plus `bias` [C] (Wu, He, 2018). Raises RuntimeError where sizes do
    not fit, ValueError for one value per group."""
    if input.ndim < 2:
        raise fail(
            ShapeError, f"Expected at least 2 dimensions for input tensor but received {input.ndim}"
        )
    if num_groups < 1:
        raise fail(
            AttributeValueError, f"Expected num groups to be greater than 0, got {num_groups}"
        )
    channels = input.shape[1]
    if channels % num_groups:
        raise fail(
            ShapeError,
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {sizes(input)} and num_groups={num_groups}",
        )
    values = input.shape[0] * channels // num_groups * math.prod(input.shape[2:])
    _require_several(input, values, "value per channel")
    require_float(input, "GroupNormKernelImpl")
    for name, part in (("weight", weight), ("bias", bias)):
        if part is not None and tuple(part.shape) != (channels,):
            raise fail(
                ShapeError,
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {sizes(part)} and input of shape {sizes(input)}",
            )
    x = casted(input, _computed_in(input, {"weight": weight, "bias": bias}))
    scale, shift = (
        _constant(part, number, x, (channels,)) for part, number in ((weight, 1), (bias, 0))
    )
    return casted(n.group_norm(x, scale, shift, groups=num_groups, eps=eps), input.dtype)


@public(at="nn.functional")
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """input [N, C, *] over (k + alpha · the mean square of `size` neighbouring channels)^beta
    (Krizhevsky, Sutskever, Hinton, 2012); channels beyond the ends count as 0. The mean of integers
    is one, towards 0. Raises ValueError for fewer than three dimensions."""
    if input.ndim < 3:
        raise fail(
            SizeError,
            f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)",
        )
    if not input.numel():
        return input
    # The channels a channel sees, as a matrix of 0 and 1: one product instead of a window.
    own, other = np.indices((input.shape[1],) * 2)
    first = own - size // 2
    seen = ((other >= first) & (other < first + size)).astype(input.dtype.numpy)
    total = _summed(CONTEXT.constant(seen), (input * input).flatten(2)).reshape(input.shape)
    if not input.dtype.is_float:
        total, alpha = pointwise.div(total, size, rounding_mode="trunc"), alpha * size
    return input / pointwise.pow(total * (alpha / size) + k, beta)


_summed = full_precision(matrix.matmul)


@public(at="nn.functional")
def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """input over its p-norm along `dim`, which counts as `eps` at least. With `out` the result is
    written there."""
    if not input.dtype.is_float:
        raise fail(
            DTypeError,
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{scalar_name(input)}",
        )
    length = norm(input, p, dim, keepdim=True)
    normalized = input / pointwise.clamp(length, min=eps)
    return normalized if out is None else out.copy_(normalized)
