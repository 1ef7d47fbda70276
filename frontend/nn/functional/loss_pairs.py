"""Losses of two tensors of one shape, element by element: regression, two classes, divergences."""

from __future__ import annotations

import math
import warnings
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.promotion import (
    HALVES,
    aligned,
    casted,
    common_shape,
    expanded,
    result_type,
)
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import pointwise, pointwise_composites
from frontend.functions.declarations import public
from frontend.nn.checks import fail, require_float, scalar_name
from frontend.nn.functional.activation import logsigmoid
from frontend.nn.functional.reduction import (
    legacy,
    reduced,
    reduction_of,
    require_floats,
    warn_of_sizes,
)
from frontend.overrides.protocol import stacklevel as asked_from
from graphc.errors import AttributeValueError, DTypeError
from graphc.ir.types import DType
from graphc.ops import indexing
from graphc.ops.nn import losses

# -- regression ----------------------------------------------------------------------------------


@public(at="nn.functional", node="MseLoss", autocast="float32")
def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The squared difference. `weight` of the input's shape scales elements, and the mean is over
    the weights. Warns where shapes differ and broadcast. Raises ShapeError where they do not."""
    reduction = reduction_of(size_average, reduce, reduction)
    warn_of_sizes(input, target)
    difference = _difference(input, target)
    require_float(difference, "mse_cpu")
    return _weighted(difference * difference, input, weight, reduction)


@public(at="nn.functional", autocast="float32")
def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The magnitude of the difference; the rest as `mse_loss`."""
    reduction = reduction_of(size_average, reduce, reduction)
    warn_of_sizes(input, target)
    first, second = _spread(input, target)
    return _weighted(pointwise.abs(first - second), input, weight, reduction)


@public(at="nn.functional", node="SmoothL1Loss", autocast="float32")
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """Half the squared difference over `beta` where it is smaller than `beta`, beyond that the
    magnitude less beta/2. Raises RuntimeError for a negative `beta`."""
    reduction = reduction_of(size_average, reduce, reduction)
    warn_of_sizes(input, target)
    if beta < 0:
        raise fail(AttributeValueError, "smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    difference = _difference(input, target)
    lost = _huber(difference, beta) / beta
    return reduced(
        casted(lost, difference.dtype) if difference.dtype in HALVES else lost, reduction
    )


@public(at="nn.functional", node="HuberLoss", autocast="float32")
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Half the squared difference where it is smaller than `delta`, beyond that delta times the
    magnitude less delta/2 (Huber, 1964), in the input's dtype. `weight` of its shape scales
    elements. Raises RuntimeError unless `delta` is positive."""
    reduction = reduction_of(None, None, reduction)
    warn_of_sizes(input, target)
    if delta <= 0:
        raise fail(
            AttributeValueError, "huber_loss does not support non-positive values for delta."
        )
    lost = _huber(_difference(input, target), delta)
    lost = casted(lost, input.dtype) if input.dtype.is_float else lost
    # With weights the mean is over the elements here, as in PyTorch.
    scaled = _weighted(lost, input, weight, "none" if reduction == "mean" else reduction)
    return scaled.mean() if reduction == "mean" else scaled


def _spread(input: Tensor, target: Tensor) -> list[Tensor]:
    """Both in their common shape: then one without dimensions counts for the dtype as well."""
    shape = common_shape(input, target)
    return [expanded(x, shape) for x in (input, target)]


def _difference(input: Tensor, target: Tensor) -> Tensor:
    """input - target in the dtype of both, of which one may be bool."""
    input, target = _spread(input, target)
    if DType.bool in (input.dtype, target.dtype):
        kind = result_type(input, target)
        input, target = casted(input, kind), casted(target, kind)
    return input - target


def _huber(difference: Tensor, bound: float) -> Tensor:
    """In float32 for half types: what is divided by the bound again may be beyond them."""
    # One formula for both sides, so that no branch that is not taken gives NaN gradients.
    kind = difference.dtype
    size = pointwise.abs(casted(difference, kind.computes_as) if kind in HALVES else difference)
    inner = pointwise.clamp(size, max=bound)
    return inner * (size - inner * 0.5)


def _weighted(lost: Tensor, input: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    if weight is None:
        return reduced(lost, reduction)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    scaled = lost * weight
    return scaled.sum() / weight.sum() if reduction == "mean" else reduced(scaled, reduction)


# -- two classes ---------------------------------------------------------------------------------


@public(at="nn.functional", node="BinaryCrossEntropy", autocast="float32")
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-(target · log(input) + (1 - target) · log(1 - input)) for probabilities `input`; each
    logarithm counts as -100 at least. `weight` broadcasts to the target's shape, and scales
    elements.

    Raises ValueError where shapes differ, RuntimeError where dtypes do and where an element of
    `input` is not in [0, 1].
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({target.shape!r}) that is different to the input size "
            f"({input.shape!r}) is deprecated. Please ensure they have the same size."
        )
    require_float(input, "binary_cross_entropy")
    if target.dtype is not input.dtype:
        raise fail(
            DTypeError, f"Found dtype {scalar_name(target)} but expected {scalar_name(input)}"
        )
    lost = CONTEXT.apply(losses.binary_cross_entropy, (input, target), {})[0]
    if weight is not None:
        lost = lost * expanded(weight, tuple(target.shape))
    return reduced(lost, reduction)


@public(at="nn.functional", node="BinaryCrossEntropyWithLogits", autocast="float32")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`binary_cross_entropy` of sigmoid(input), exact where sigmoid is rounded to 0 or 1.
    `pos_weight` scales the part of the positive class. Losses have the dtype of `target`. Raises
    ValueError where shapes differ."""
    reduction = reduction_of(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(
            f"Target size ({target.shape!r}) must be the same as input size ({input.shape!r})"
        )
    require_floats("binary_cross_entropy_with_logits", input, target)
    positive = target if pos_weight is None else target * pos_weight
    lost = (target - 1) * logsigmoid(-input) - positive * logsigmoid(input)
    lost = lost if weight is None else lost * weight
    return reduced(lost.to(target.dtype), reduction)


# -- divergences and likelihoods -----------------------------------------------------------------


@public(at="nn.functional", autocast="float32")
def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """target · (log(target) - input) for log-probabilities `input`; the target is given as its
    logarithm with `log_target`. `reduction="batchmean"` is the sum over the size of axis 0."""
    if size_average is not None or reduce is not None:
        reduction = legacy(size_average, reduce, stacklevel=asked_from(3))
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
            stacklevel=asked_from(2),
        )
    name = "sum" if reduction == "batchmean" else reduction_of(None, None, reduction)
    if log_target:
        lost = pointwise.exp(target) * (target - input)
    else:
        lost = pointwise_composites.xlogy(target, target) - target * input
    loss = reduced(lost, name)
    return loss / input.shape[0] if reduction == "batchmean" and input.ndim else loss


@public(at="nn.functional", autocast="float32")
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """exp(input) - target · input, or without `log_input` input - target · log(input + eps). `full`
    adds Stirling's approximation of log(target!) where the target is above 1."""
    reduction = reduction_of(size_average, reduce, reduction)
    if log_input:
        lost = pointwise.exp(input) - target * input
    else:
        lost = input - target * pointwise.log(input + eps)
    if full:
        counted = pointwise.where(target <= 1, 1.0, target)
        term = counted * pointwise.log(counted) - counted
        term = term + pointwise.log(counted * (2 * math.pi)) * 0.5
        lost = lost + pointwise.where(target <= 1, 0.0, term)
    return reduced(lost, reduction)


@public(at="nn.functional")
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """(log(var) + (input - target)² / var) / 2 with `var` (a tensor of the input's shape, one with
    a last axis less or of size 1, or a number) at least `eps`; `full` adds log(2π) / 2.

    Raises ValueError for a `var` that is negative or does not fit.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    spread = _variance(input, var)
    # The bound moves the value, not the gradient.
    kept = pointwise.where(spread < eps, (spread - spread.detach()) + eps, spread)
    difference = input - target
    lost = (pointwise.log(kept) + difference * difference / kept) * 0.5
    return reduced(lost + 0.5 * math.log(2 * math.pi) if full else lost, reduction)


def _variance(input: Tensor, var: Any) -> Tensor:
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        return filled(var, input.dtype, tuple(input.shape))
    if var.shape != input.shape:
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif var.shape[:-1] != input.shape[:-1] or not var.ndim or var.shape[-1] != 1:
            raise ValueError("var is of incorrect size")
    (valid,) = CONTEXT.apply(
        indexing.check_all,
        (pointwise.logical_or(var >= 0, var != var),),
        {"message": "var has negative entry/entries"},
    )
    return pointwise.where(valid, *aligned((var, 0.0), var.dtype))
