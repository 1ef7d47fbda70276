"""Losses as composites with own gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import aligned, broadcast_to, lift
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.composite import check_float, log_softmax, softmax
from graphc.ops.generate import iota_like
from graphc.ops.indexing import check_all, check_index, gather
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer
from graphc.ops.movement import reshape
from graphc.ops.scalar_functions.special import log1p

# What PyTorch says of a label that is no class.
BAD_LABEL = "Target {} is out of bounds."


def _counted(target: Any, ignore_index: int, classes: int) -> tuple[Any, Any]:
    """Which rows count, and their target classes (0 where a row does not count)."""
    kept = e.ne(target, broadcast_to(lift(ignore_index, target), target.shape))
    none = broadcast_to(lift(0, target), target.shape)
    safe = e.where(kept, target, none)
    return kept, check_index(safe, bound=classes, message=BAD_LABEL)


def _cross_entropy(
    logits: Any, target: Any, *, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    check_float("cross_entropy", logits)
    if len(logits.shape) != 2 or target.shape != logits.shape[:1]:
        raise ShapeError(
            f"cross_entropy of logits {logits.tensor_type} and target {target.tensor_type}",
            hint="logits [rows, classes], target [rows]",
        )
    if not target.dtype.is_integer:
        raise DTypeError(f"cross_entropy takes integer targets, got {target.tensor_type}")
    if reduction not in ("mean", "sum", "none"):
        raise AttributeValueError(f"cross_entropy: {reduction!r} is not a valid reduction")
    rows, classes = logits.shape
    kept, safe = _counted(target, ignore_index, classes)
    scores = log_softmax(logits, axis=1)
    picked = reshape(gather(scores, reshape(safe, shape=(rows, 1)), axis=1), shape=(rows,))
    losses = e.where(kept, -picked, broadcast_to(lift(0, picked), picked.shape))
    if reduction == "none":
        return losses
    total = r.sum(losses, axes=(0,))
    if reduction == "sum":
        return total
    return total / r.sum(e.cast(kept, dtype=logits.dtype), axes=(0,))


def _cross_entropy_vjp(
    g: Any, out: Any, logits: Any, target: Any, *, ignore_index: int, reduction: str
) -> tuple[Any, None]:
    shape = logits.shape
    kept, safe = _counted(target, ignore_index, shape[1])
    weight = e.cast(kept, dtype=logits.dtype)
    share = g / r.sum(weight, axes=(0,)) if reduction == "mean" else g
    # Not weight * share: where no row counts, that is 0 times infinity.
    scale = e.where(kept, broadcast_to(share, kept.shape), aligned(lift(0, weight), weight)[0])
    classes = iota_like(logits, shape, 1, target.dtype)
    hit = e.cast(e.eq(classes, r.spread(safe, (1,), shape)), dtype=logits.dtype)
    return (softmax(logits, axis=1) - hit) * r.spread(scale, (1,), shape), None


def _cross_entropy_samples(m: SampleDrawer) -> list[Any]:
    some = m.integers(5, 4)
    some[1] = -100
    return [m(m.normal(4, 5), m.integers(5, 4)), m(m.normal(4, 5), some),
            m(m.normal(4, 5), m.integers(5, 4), reduction="sum"),
            m(m.normal(40, 20), m.integers(20, 40), reduction="none")]  # fmt: skip


cross_entropy = Composite(
    "cross_entropy", _cross_entropy, vjp=_cross_entropy_vjp, samples=_cross_entropy_samples
)


# -- two classes ---------------------------------------------------------------------------------

BAD_PROBABILITY = "all elements of input should be between 0 and 1"


def _binary_cross_entropy(x: Any, target: Any) -> Any:
    check_float("binary_cross_entropy", x)
    if x.tensor_type != target.tensor_type:
        raise ShapeError(f"binary_cross_entropy of {x.tensor_type} and target {target.tensor_type}")
    valid = check_all(e.logical_and(x >= 0, x <= 1), message=BAD_PROBABILITY)
    safe = e.where(valid, x, aligned(lift(0, x), x)[0])
    floor = aligned(lift(-100, x), x)[0]
    rest = (target - 1) * e.maximum(log1p(-safe), floor)
    return rest - target * e.maximum(e.log(safe), floor)


def _binary_cross_entropy_vjp(g: Any, out: Any, x: Any, target: Any) -> tuple[Any, Any]:
    # PyTorch's: as if the logs were not bounded, the denominator kept from 0.
    def by_x() -> Any:
        floor = aligned(lift(1e-12, x), x)[0]
        return g * (x - target) / e.maximum(x * (1 - x), floor)

    return by_x, lambda: g * (log1p(-x) - e.log(x))


# The gradient is finite at 0 and 1, where that of the definition is not.
binary_cross_entropy = Composite(
    "binary_cross_entropy", _binary_cross_entropy, vjp=_binary_cross_entropy_vjp,
    samples=lambda m: [
        m(m.random.uniform(0.01, 0.99, (3, 5)), m.random.uniform(0, 1, (3, 5))),
        m(m.random.uniform(0.01, 0.99, 37), m.bools(37).astype(float)),
        m(np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]), differentiable=False),
    ],
)  # fmt: skip
