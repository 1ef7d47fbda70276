"""Connectionist temporal classification: the loss of a sequence of labels whose alignment with the
steps of a longer sequence is not known (A. Graves et al., 2006)."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import reduce
from frontend.functions.creation import full_like, tensor, zeros_like
from frontend.functions.declarations import public
from frontend.functions.logic import logical_and
from frontend.functions.pointwise import clamp, where
from frontend.functions.ranges import arange
from frontend.functions.scatter import gather
from frontend.functions.shape import cat, stack
from frontend.functions.unary import exp, log
from frontend.nn.checks import fail
from graphc.errors import DTypeError, ShapeError
from graphc.ir.types import DType

IMPOSSIBLE = -1e30
"""The logarithm of the probability of what cannot be. It is finite, so that no gradient is NaN."""


@public(at="nn.functional", autocast="float32")
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the probability of the labels, summed over all alignments.

    log_probs [T, N, classes] or [T, classes]; targets [N, S], or all labels in one dimension (then
    `target_lengths` must be known while tracing); lengths are [N] or numbers. `reduction` "mean"
    divides by the labels first. Where no alignment fits the loss is infinite, or 0 with
    `zero_infinity`, and its gradient 0. The gradient is that with respect to `log_probs`; PyTorch's
    differs by what `log_softmax` cancels.
    """
    if not log_probs.dtype.is_float:
        raise fail(DTypeError, "ctc_loss: log_probs must be of a float dtype")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    single = log_probs.dim() == 2
    scores = log_probs.unsqueeze(1) if single else log_probs
    _, count, classes = scores.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range: got {blank} for {classes} classes")
    taken, wanted = _lengths(input_lengths, count), _lengths(target_lengths, count)
    labels = _padded(targets, target_lengths, count)
    losses = _losses(scores, labels, taken, wanted, blank)
    impossible = losses > -IMPOSSIBLE / 2
    losses = where(impossible, 0.0 if zero_infinity else float("inf"), losses)
    if reduction == "mean":
        return reduce.sum(losses / casted(clamp(wanted, min=1), losses.dtype)) / count
    if reduction == "sum":
        return reduce.sum(losses)
    return losses.squeeze(0) if single else losses


def _lengths(lengths: Any, count: int) -> Tensor:
    counts = lengths if isinstance(lengths, Tensor) else tensor(lengths)
    if counts.dtype.is_float:
        raise fail(DTypeError, "ctc_loss: lengths must be integral")
    counts = counts.reshape(-1)
    if counts.shape[0] != count:
        raise fail(ShapeError, f"ctc_loss: expected {count} lengths, got {counts.shape[0]}")
    return counts.long()


def _padded(targets: Tensor, lengths: Any, count: int) -> Tensor:
    """The labels as [N, S]. Those in one dimension are cut by their lengths."""
    if targets.dim() == 2:
        return targets.long()
    if count == 1:
        return targets.long().reshape(1, -1)
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    if sum(sizes) != targets.shape[0]:
        raise fail(
            ShapeError, f"ctc_loss: target_lengths add up to {sum(sizes)}, targets has "
            f"{targets.shape[0]}"
        )  # fmt: skip
    longest, rows = max(sizes, default=0), []
    for row in targets.long().split(sizes):
        rows.append(cat([row, row.new_zeros(longest - row.shape[0])]))
    return stack(rows)


def _losses(scores: Tensor, labels: Tensor, taken: Tensor, wanted: Tensor, blank: int) -> Tensor:
    """The forward recursion over the labels with blanks between and around them. State s is in
    reach of s, s - 1 and, where that skips a blank between different labels, s - 2."""
    count, longest = labels.shape
    between = full_like(labels, blank)
    states = stack([between, labels], 2).reshape(count, 2 * longest)
    states = cat([states, full_like(states[:, :1], blank) if longest else
                  full_like(wanted.unsqueeze(1), blank)], 1)  # fmt: skip
    size = 2 * longest + 1
    steps = scores.shape[0]
    emitted = gather(scores, 2, states.unsqueeze(0).expand(steps, count, size))
    none = full_like(emitted[0][:, :1], IMPOSSIBLE)
    position = arange(size)
    starts = where(position < clamp(2 * wanted.unsqueeze(1), max=1) + 1, emitted[0], IMPOSSIBLE)
    alpha = starts
    other = zeros_like(states, dtype=DType.bool)
    if longest:
        differs = logical_and(states[:, 2:] != blank, states[:, 2:] != states[:, :-2])
        other = cat([other[:, :2], differs], 1)
    for step in range(1, steps):
        ways = [alpha, cat([none, alpha[:, :-1]], 1)]
        if longest:
            skipped = cat([none, none, alpha[:, :-2]], 1)
            ways.append(where(other, skipped, IMPOSSIBLE))
        after = clamp(_log_of_sum(ways) + emitted[step], min=IMPOSSIBLE)
        alpha = where((taken > step).unsqueeze(1), after, alpha)
    last = 2 * wanted.unsqueeze(1)
    at_blank = gather(alpha, 1, last)
    at_label = where(wanted.unsqueeze(1) > 0, gather(alpha, 1, clamp(last - 1, min=0)), IMPOSSIBLE)
    return -_log_of_sum([at_blank, at_label]).squeeze(1)


def _log_of_sum(ways: list[Tensor]) -> Tensor:
    """log(Σ exp(x)), of finite numbers."""
    greatest = ways[0]
    for x in ways[1:]:
        greatest = where(x > greatest, x, greatest)
    greatest = greatest.detach()
    total = exp(ways[0] - greatest)
    for x in ways[1:]:
        total = total + exp(x - greatest)
    return greatest + log(total)
