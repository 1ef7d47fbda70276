"""Losses with a margin: rankings, embeddings, several labels, triplets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.symbolic_numbers import as_float
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import pointwise, ranges
from frontend.functions.declarations import public
from frontend.nn.checks import fail, sizes
from frontend.nn.functional.activation import logsigmoid
from frontend.nn.functional.distance import pairwise_distance
from frontend.nn.functional.reduction import reduced, reduction_of
from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.types import DType
from graphc.ops import indexing


def _above(x: Tensor) -> Tensor:
    """max(x, 0), the gradient passed on at 0, as PyTorch's clamp_min does."""
    return pointwise.clamp(x, min=0)


# -- labels 1 and -1 -----------------------------------------------------------------------------


@public(at="nn.functional", autocast="float32")
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """input where the target is 1, max(0, margin - input) where it is -1 (the sum of both
    elsewhere). Raises RuntimeError for a margin that the input's dtype does not hold."""
    reduction = reduction_of(size_average, reduce, reduction)
    margin = fitting(margin, input.dtype) if input.dtype.is_float else margin
    far = pointwise.where(target != 1, _above(as_float(margin) - input), 0.0)
    near = pointwise.where(target != -1, input, 0.0)
    return reduced(far + near, reduction)


@public(at="nn.functional", autocast="float32")
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, -target · (input1 - input2) + margin). Raises RuntimeError where ranks differ."""
    reduction = reduction_of(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise fail(
            ShapeError,
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape!r}, input2: {input2.shape!r}, target: {target.shape!r}",
        )
    return reduced(_above(-target * (input1 - input2) + as_float(margin)), reduction)


@public(at="nn.functional", node="SoftMarginLoss", autocast="float32")
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """log(1 + exp(-target · input)), without overflow, in the dtype of the input. The target
    broadcasts to the input; raises RuntimeError where the input would have to."""
    reduction = reduction_of(size_average, reduce, reduction)
    agreed = (-input if input.dtype is DType.bool else input) * target  # raises: bools have no sign
    if agreed.shape != input.shape:
        raise fail(
            ShapeError,
            f"output with shape {sizes(input)} doesn't match the broadcast shape {sizes(agreed)}",
        )
    loss = reduced(-logsigmoid(agreed), reduction)
    return loss.to(input.dtype) if input.is_floating_point() else loss


@public(at="nn.functional", autocast="float32")
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos(input1, input2) where the target is 1, max(0, cos - margin) where it is -1: rows
    [N, D] with a target [N], or vectors [D] with one []. Raises RuntimeError for other ranks."""
    reduction = reduction_of(size_average, reduce, reduction)
    if target.ndim not in (0, 1) or {input1.ndim, input2.ndim} != {target.ndim + 1}:
        raise fail(
            ShapeError,
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
            f"inputs with sizes {sizes(input1)} and {sizes(input2)}."
            if target.ndim < 2
            else "0D or 1D target tensor expected, multi-target not supported",
        )
    # Squares are kept above 0 by a constant, not by a bound: so it is in PyTorch.
    squares = [(x * x).sum(-1) + 1e-12 for x in (input1, input2)]
    cosine = (input1 * input2).sum(-1) / pointwise.sqrt(squares[0] * squares[1])
    near = pointwise.where(target == 1, 1 - cosine, 0.0)
    far = pointwise.where(target == -1, _above(cosine - margin), 0.0)
    return reduced(near + far, reduction)


# -- classes -------------------------------------------------------------------------------------


@public(at="nn.functional", node="MultiMarginLoss", autocast="float32")
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over the classes c other than the target y of max(0, margin - x[y] + x[c])^p, times
    weight[y]: input [N, C] and target [N], or [C] and []. Raises ValueError for a `p` other than 1
    and 2, RuntimeError where shapes do not fit or a target is no class."""
    reduction = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    alone = input.ndim < 2
    rows = input.reshape(1, -1) if alone else input
    count, classes = rows.shape[0], rows.shape[1] if rows.ndim == 2 else 0
    if rows.ndim != 2 or target.ndim > 1 or target.numel() != count:
        raise fail(
            ShapeError,
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{count}], but got {sizes(target)}. Input "
            f"has shape {sizes(input)}.",
        )
    if weight is not None and tuple(weight.shape) != (classes,):
        raise fail(
            ShapeError,
            f"inconsistent weight size, expected {classes} but got {sizes(weight)}",
        )
    label = _labels(target.reshape(count, 1), classes, "target out of range")
    over = pointwise.relu(rows - rows.gather(1, label) + margin)
    lost = over if p == 1 else over * over
    if weight is not None:
        lost = lost * CONTEXT.apply(indexing.take, (weight, label), {"axis": 0})[0]
    others = label != ranges.arange(classes)
    lost = pointwise.where(others, lost, 0.0).sum(1) / max(classes, 1)
    return reduced(lost.reshape(target.shape if alone else (count,)), reduction)


def _labels(target: Tensor, classes: int, message: str) -> Tensor:
    attributes = {"bound": classes, "message": message}
    labels: Tensor = CONTEXT.apply(indexing.check_index, (target,), attributes)[0]
    return labels


@public(at="nn.functional", node="MultilabelMarginLoss", autocast="float32")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The sum over labels y and other classes c of max(0, 1 - x[y] + x[c]), over the number of
    classes: input and target [N, C] or [C]. The labels of a row are its targets before the first
    -1. Raises RuntimeError where shapes differ or a target is no class."""
    reduction = reduction_of(size_average, reduce, reduction)
    if input.shape != target.shape or input.ndim > 2:
        raise fail(
            ShapeError,
            f"inconsistent target size: {sizes(target)} for input of size: {sizes(input)}",
        )
    classes = input.shape[-1] if input.ndim else 1
    if not classes:
        raise fail(
            ShapeError, f"Expected non-empty vector or matrix, got input of size: {sizes(input)}"
        )
    count = math.prod(input.shape[:-1])
    rows, listed = input.reshape(count, classes), target.reshape(count, classes)
    place = ranges.arange(classes)
    if not count:
        return reduced(input.sum(-1), reduction)
    first = pointwise.where(listed < 0, place, classes).amin(1, keepdim=True)
    valid = place < first
    wanted = pointwise.where(valid, listed, 0)
    label = _labels(wanted, classes, "argument #2 'target' is out of range")
    hits = (label.unsqueeze(2) == place) & valid.unsqueeze(2)
    pairs = valid.unsqueeze(2) & ~hits.any(1).unsqueeze(1)
    over = pointwise.relu(rows.unsqueeze(1) - rows.gather(1, label).unsqueeze(2) + 1)
    lost = pointwise.where(pairs, over, 0.0).sum((1, 2)) / classes
    return reduced(lost.reshape(tuple(input.shape[:-1])), reduction)


@public(at="nn.functional")
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`binary_cross_entropy_with_logits` times `weight`, its mean over the last axis, the
    classes."""
    reduction = reduction_of(size_average, reduce, reduction)
    lost = (target - 1) * logsigmoid(-input) - target * logsigmoid(input)
    if weight is not None:
        lost = lost * weight
    return reduced(lost.sum(-1) / input.shape[-1], reduction)


# -- triplets ------------------------------------------------------------------------------------


@public(at="nn.functional", autocast="float32")
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + d(anchor, positive) - d(anchor, negative)) with `pairwise_distance`. With
    `swap` the negative's distance is the smaller of those to anchor and positive (Balntas et al.,
    2016). Raises ValueError unless `margin` is positive, RuntimeError where ranks differ."""
    reduction = reduction_of(size_average, reduce, reduction)
    return _triplet(
        anchor, positive, negative, lambda x, y: pairwise_distance(x, y, p, eps), margin, swap,
        reduction,
    )  # fmt: skip


@public(at="nn.functional")
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with a distance of your own (`pairwise_distance` by default)."""
    reduction = reduction_of(None, None, reduction)
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, distance: Callable[..., Tensor],
    margin: Any, swap: bool, reduction: str,
) -> Tensor:  # fmt: skip
    if margin <= 0:
        raise fail(AttributeValueError, f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise fail(
            ShapeError,
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs",
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = pointwise.minimum(far, distance(positive, negative))
    return reduced(_above(near - far + margin), reduction)
