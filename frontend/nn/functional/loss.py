"""Functional forms of losses. Class scores are [N, C], [C], or [N, C, d1, …], and targets have the
same shape without the class axis."""

from __future__ import annotations

import math
import warnings
from typing import Any

from frontend.dtypes import Size
from frontend.nn.checks import fail, require_float, scalar_name, sizes
from frontend.tensor import Tensor
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops import composite, elementwise, indexing, movement

__all__ = ["cross_entropy", "mse_loss", "nll_loss"]


class LengthError(ShapeError, ValueError):
    """Input and target of different batch sizes: a ValueError in PyTorch."""


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross-entropy of softmax(input) against class indices, or against class probabilities
    where `target` is float and has the input's shape.

    `weight` [C] scales classes; rows whose target is `ignore_index` do not count; the mean is over
    the weights of the rows that count. `label_smoothing` mixes in the uniform distribution.
    Raises ValueError, ShapeError, DTypeError; IndexRangeError for a class out of range.
    """
    require_float(input, "log_softmax_lastdim_kernel_impl")
    _check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise fail(
            AttributeValueError,
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}",
        )
    if target.dtype.is_float and target.shape == input.shape and input.ndim:
        rows, _ = _rows(input)
        probabilities, _ = _rows(target)
        lost = _soft_losses(rows, probabilities, weight, label_smoothing)
        return _reduced(lost, reduction, rows.shape[0], _target_shape(input))
    _check_target(input, target)
    rows, classes = _rows(input)
    labels = movement.reshape(target, shape=(rows.shape[0],))
    if weight is None and not label_smoothing:
        out = composite.cross_entropy(rows, labels, ignore_index=ignore_index, reduction=reduction)
        return out if reduction != "none" else movement.reshape(out, shape=tuple(target.shape))
    _check_weight(weight, classes)
    scores = composite.log_softmax(rows, axis=1)
    kept, safe, counted = _counted(scores, labels, weight, ignore_index)
    lost = _picked(scores, safe) * -counted
    if label_smoothing:
        spread = scores if weight is None else scores * weight
        none = broadcast_to(lift(0, scores), kept.shape)
        smooth = elementwise.where(kept, -spread.sum(1), none)
        lost = lost * (1 - label_smoothing) + smooth * (label_smoothing / classes)
    return _reduced(lost, reduction, counted.sum(), tuple(target.shape))


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability `input` gives to the class in `target`: the second half of
    `cross_entropy`, with the same shapes, options and errors."""
    _check_reduction(reduction)
    _check_target(input, target)
    scores, classes = _rows(input)
    _check_weight(weight, classes)
    labels = movement.reshape(target, shape=(scores.shape[0],))
    _, safe, counted = _counted(scores, labels, weight, ignore_index)
    lost = _picked(scores, safe) * -counted
    return _reduced(lost, reduction, counted.sum(), tuple(target.shape))


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The squared difference of two tensors, its mean, or its sum. Warns where their shapes differ
    and broadcast. Raises ShapeError where they do not."""
    _check_reduction(reduction)
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"Using a target size ({Size(target.shape)!r}) that is different to the input size "
            f"({Size(input.shape)!r}). This will likely lead to incorrect results due to "
            "broadcasting. Please ensure they have the same size.",
            stacklevel=2,
        )
    difference = input - target
    squared = difference * difference
    if reduction == "none":
        return squared
    return squared.mean() if reduction == "mean" else squared.sum()


# -- parts ---------------------------------------------------------------------------------------


def _check_reduction(reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise fail(AttributeValueError, f"{reduction} is not a valid value for reduction")


def _check_target(input: Tensor, target: Tensor) -> None:
    if input.ndim == 0:
        raise fail(
            ShapeError, "a class score has at least one dimension, the classes; got a 0-d input"
        )
    if target.dtype is not DType.i64:
        raise fail(
            DTypeError, f"expected target dtype to be Long or Byte, but got {scalar_name(target)}"
        )
    expected = _target_shape(input)
    if input.ndim > 1 and target.shape[:1] != expected[:1]:
        got = target.shape[0] if target.ndim else "a 0-d target"
        raise fail(
            LengthError,
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({got}).",
        )
    if tuple(target.shape) != expected and not (input.ndim == 1 and tuple(target.shape) == (1,)):
        raise fail(ShapeError, f"Expected target size {list(expected)}, got {sizes(target)}")


def _check_weight(weight: Tensor | None, classes: int) -> None:
    if weight is not None and tuple(weight.shape) != (classes,):
        raise fail(
            ShapeError,
            f"weight tensor should be defined either for all {classes} classes or no classes "
            f"but got weight tensor of shape: {sizes(weight)}",
        )


def _target_shape(input: Tensor) -> tuple[int, ...]:
    return () if input.ndim == 1 else (input.shape[0], *input.shape[2:])


def _rows(x: Tensor) -> tuple[Tensor, int]:
    """x as [rows, classes], and the number of classes."""
    if x.ndim == 2:
        return x, x.shape[1]
    if x.ndim == 1:
        return movement.reshape(x, shape=(1, x.shape[0])), x.shape[0]
    order = (0, *range(2, x.ndim), 1)
    last = movement.transpose(x, permutation=order)
    count = math.prod(_target_shape(x))
    return movement.reshape(last, shape=(count, x.shape[1])), x.shape[1]


def _counted(
    scores: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Per row: whether it counts, its class (0 where it does not), and its weight (0 likewise)."""
    kept = elementwise.ne(labels, broadcast_to(lift(ignore_index, labels), labels.shape))
    zero = broadcast_to(lift(0, labels), labels.shape)
    safe = elementwise.where(kept, labels, zero)
    counted = elementwise.cast(kept, dtype=scores.dtype)
    if weight is not None:
        counted = counted * indexing.take(weight, safe, axis=0)
    return kept, safe, counted


def _picked(scores: Tensor, labels: Tensor) -> Tensor:
    """scores[i, labels[i]]."""
    column = movement.reshape(labels, shape=(*labels.shape, 1))
    return movement.reshape(indexing.gather(scores, column, axis=1), shape=tuple(labels.shape))


def _soft_losses(
    rows: Tensor, probabilities: Tensor, weight: Tensor | None, smoothing: float
) -> Tensor:
    _check_weight(weight, rows.shape[1])
    if smoothing:
        probabilities = probabilities * (1 - smoothing) + smoothing / rows.shape[1]
    scores = composite.log_softmax(rows, axis=1)
    return -(scores * (probabilities if weight is None else probabilities * weight)).sum(1)


def _reduced(lost: Tensor, reduction: str, count: Any, shape: tuple[int, ...]) -> Tensor:
    if reduction == "none":
        return movement.reshape(lost, shape=shape)
    return lost.sum() / count if reduction == "mean" else lost.sum()
