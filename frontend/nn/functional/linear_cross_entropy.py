"""The cross-entropy of a linear layer's scores, whole or in pieces of the batch."""

from __future__ import annotations

import math
import warnings
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions import reduce as reductions
from frontend.functions.declarations import public
from frontend.functions.masks import masked_fill
from frontend.functions.scatter import take
from frontend.functions.shape import cat
from frontend.nn.functional.linear import linear
from frontend.nn.functional.loss import cross_entropy
from graphc.ir.types import DType
from graphc.system import IMPORTING


@public(at="nn.functional")
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)`: input [N, F] or [F],
    linear_weight [C, F], or [C, d1, …, F] for scores [N, C, d1, …].

    With `options` (an `nn.LinearCrossEntropyOptions`) the scores are made a piece of the batch at a
    time, and made again in backward, so that [N, C] never lies in memory; a warning says so where
    they are made at once after all. Raises RuntimeError where shapes do not fit."""
    places, features, classes, outer = _checked(input, linear_weight, linear_bias)
    if tuple(target.shape) == (*places, classes, *outer) and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    settings: dict[str, Any] = {
        "weight": weight, "reduction": reduction, "label_smoothing": label_smoothing,
        "ignore_index": -100 if ignore_index is None else ignore_index,
    }  # fmt: skip
    if options is not None:
        plain = not outer and not label_smoothing and target.dtype is DType.i64
        if plain and reduction in ("mean", "sum", "none"):
            chunk = options.rows(places[0] if places else 1, features, classes)
            return _in_pieces(input, linear_weight, linear_bias, target, chunk, settings)
        warnings.warn(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in "
            "{'mean','sum','none'}, label_smoothing == 0, target.dtype == int64, out_features == "
            f"(). Got reduction={reduction!r}, label_smoothing={label_smoothing}, "
            f"target.dtype={target.dtype}, out_features={outer}.",
            stacklevel=2,
        )
    rows = math.prod(outer, start=classes)
    flat = linear_weight.reshape(rows, features)
    bias = None if linear_bias is None else linear_bias.reshape(rows)
    scores = linear(input, flat, bias).reshape(*places, classes, *outer)
    return cross_entropy(scores, target, **settings)


def _checked(
    input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None
) -> tuple[tuple[int, ...], int, int, tuple[int, ...]]:
    """The batch's shape, features, classes and further dimensions of the scores."""
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    places, features = tuple(input.shape[:-1]), input.shape[-1]
    if features != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features} and {linear_weight.shape[-1]}, respectively"
        )
    classes, outer = linear_weight.shape[0], tuple(linear_weight.shape[1:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *outer):
        raise RuntimeError(
            f"expected linear_bias shape {(classes, *outer)}, got {tuple(linear_bias.shape)}"
        )
    if outer and not places:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {features}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    return places, features, classes, outer


def _in_pieces(
    input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None, target: Tensor, chunk: int,
    settings: dict[str, Any],
) -> Tensor:  # fmt: skip
    """The loss as a sum over pieces of `chunk` rows, whose scores are computed again in
    backward."""
    with IMPORTING:
        from frontend.utils.checkpoint import checkpoint  # its imports are not needed without

    rows = input if input.dim() == 2 else input.unsqueeze(0)
    labels = target if input.dim() == 2 else target.unsqueeze(0)
    inner = "none" if settings["reduction"] == "none" else "sum"

    def piece(x: Tensor, label: Tensor) -> Tensor:
        scores = linear(x, linear_weight, linear_bias)
        return cross_entropy(scores, label, **{**settings, "reduction": inner})

    starts = range(0, max(rows.shape[0], 1), chunk)
    parts = [
        checkpoint(piece, rows[i : i + chunk], labels[i : i + chunk], use_reentrant=False)
        for i in starts
    ]
    if inner == "none":
        losses = cat(parts)
        return losses if input.dim() == 2 else losses.squeeze(0)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    if settings["reduction"] == "sum":
        return total
    return total / _weight_of(labels, settings).to(total.dtype)


def _weight_of(labels: Tensor, settings: dict[str, Any]) -> Tensor:
    """What the mean divides by: the weights of the rows that count."""
    ignored = labels == settings["ignore_index"]
    if settings["weight"] is None:
        return reductions.sum(~ignored)
    weights = take(settings["weight"], masked_fill(labels, ignored, 0))
    return reductions.sum(masked_fill(weights, ignored, 0.0))
