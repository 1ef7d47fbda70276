"""Losses of class scores: [N, C], [C], or [N, C, d1, …]; targets have the same shape without the
class axis."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import index_of
from frontend.functions.declarations import public
from frontend.nn.checks import fail, require_float, scalar_name, sizes
from frontend.nn.functional.reduction import reduction_of
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops import composite, elementwise, indexing, movement
from graphc.ops.nn import losses


class LengthError(ShapeError, ValueError):
    """Input and target of different batch sizes: a ValueError in PyTorch."""


@public(at="nn.functional", autocast="float32")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross-entropy of softmax(input) against class indices, or against class probabilities
    where `target` has the input's shape.

    `weight` [C] scales classes; rows whose target is `ignore_index` do not count; the mean is over
    the weights of the rows that count. `label_smoothing` mixes in the uniform distribution.
    Raises ValueError, ShapeError, DTypeError; IndexRangeError for a class out of range.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise fail(
            AttributeValueError,
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}",
        )
    ignore_index = index_of(ignore_index)
    if target.shape == input.shape and input.ndim:
        return _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    require_float(input, "log_softmax_lastdim_kernel_impl")
    _check_target(input, target)
    rows, classes = _rows(input)
    labels = _labels(target, rows.shape[0])
    if weight is None and not label_smoothing:
        out = losses.cross_entropy(rows, labels, ignore_index=ignore_index, reduction=reduction)
        return out if reduction != "none" else movement.reshape(out, shape=tuple(target.shape))
    _check_weight(weight, classes, input)
    scores = composite.log_softmax(rows, axis=1)
    kept, safe, counted = _counted(scores, labels, weight, ignore_index)
    lost = _lost(scores, kept, safe, counted)
    if label_smoothing:
        spread = scores if weight is None else scores * weight
        none = broadcast_to(lift(0, scores), kept.shape)
        smooth = elementwise.where(kept, -spread.sum(1), none)
        lost = lost * (1 - label_smoothing) + smooth * (label_smoothing / classes)
    return _reduced(lost, reduction, counted.sum(), tuple(target.shape))


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str,
    smoothing: float,
) -> Tensor:  # fmt: skip
    if not target.dtype.is_float:
        raise fail(
            DTypeError,
            "Expected floating point type for target with class probabilities, got "
            f"{scalar_name(target)}",
        )
    if ignore_index >= 0:
        raise fail(AttributeValueError, "ignore_index is not supported for floating point target")
    require_float(input, "log_softmax_lastdim_kernel_impl")
    rows, classes = _rows(input)
    probabilities, _ = _rows(target)
    _check_weight(weight, classes, input)
    if smoothing:
        probabilities = probabilities * (1 - smoothing) + smoothing / classes
    scores = composite.log_softmax(rows, axis=1)
    lost = -(scores * (probabilities if weight is None else probabilities * weight)).sum(1)
    return _reduced(lost, reduction, rows.shape[0], _target_shape(input))


@public(at="nn.functional", node="NllLoss", autocast="float32")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability `input` gives to the class in `target`: the second half of
    `cross_entropy`, with the same shapes, options and errors."""
    reduction = reduction_of(size_average, reduce, reduction)
    require_float(input, "nll_loss_out_frame")
    _check_target(input, target)
    scores, classes = _rows(input)
    _check_weight(weight, classes, input)
    labels = _labels(target, scores.shape[0])
    kept, safe, counted = _counted(scores, labels, weight, ignore_index)
    lost = _lost(scores, kept, safe, counted)
    return _reduced(lost, reduction, counted.sum(), tuple(target.shape))


# -- parts ---------------------------------------------------------------------------------------


def _check_target(input: Tensor, target: Tensor) -> None:
    if input.ndim == 0:
        raise fail(
            ShapeError, "a class score has at least one dimension, the classes; got a 0-d input"
        )
    if target.dtype not in (DType.i64, DType.u8):
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


def _check_weight(weight: Tensor | None, classes: int, input: Tensor) -> None:
    if weight is None:
        return
    if tuple(weight.shape) != (classes,):
        raise fail(
            ShapeError,
            f"weight tensor should be defined either for all {classes} classes or no classes "
            f"but got weight tensor of shape: {sizes(weight)}",
        )
    if weight.dtype is not input.dtype:
        raise fail(
            DTypeError,
            f"expected scalar type {scalar_name(input)} but found {scalar_name(weight)}",
        )


def _labels(target: Tensor, rows: int) -> Tensor:
    """The targets as int64 [rows]."""
    return movement.reshape(casted(target, DType.i64), shape=(rows,))


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
    attributes = {"bound": scores.shape[1], "message": losses.BAD_LABEL}
    chosen = elementwise.where(kept, labels, zero)
    safe = CONTEXT.apply(indexing.check_index, (chosen,), attributes)[0]
    counted = elementwise.cast(kept, dtype=scores.dtype)
    if weight is not None:
        counted = counted * indexing.take(weight, safe, axis=0)
    return kept, safe, counted


def _lost(scores: Tensor, kept: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """-scores[i, labels[i]] times the row's weight; 0 where a row does not count."""
    column = movement.reshape(labels, shape=(*labels.shape, 1))
    picked = movement.reshape(indexing.gather(scores, column, axis=1), shape=tuple(labels.shape))
    none = broadcast_to(lift(0, scores), kept.shape)
    return elementwise.where(kept, picked * -counted, none)


def _reduced(lost: Tensor, reduction: str, count: Any, shape: tuple[int, ...]) -> Tensor:
    if reduction == "none":
        return movement.reshape(lost, shape=shape)
    return lost.sum() / count if reduction == "mean" else lost.sum()
