"""Losses, and optimizers' steps."""

from __future__ import annotations

from typing import Any

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import onnx_op
from frontend.onnx.importing.graphs import OnnxNode

_NOWHERE = -(1 << 62)
"""The label to ignore where none is."""


@onnx_op("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    ignored = _NOWHERE if ignore_index is None else ignore_index
    return F.nll_loss(x, target.long(), weight, ignore_index=ignored, reduction=reduction)


@onnx_op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    scores: Tensor, target: Tensor, weight: Tensor | None = None, *,
    ignore_index: int | None = None, reduction: str = "mean", node: OnnxNode,
) -> Any:  # fmt: skip
    likely = F.log_softmax(scores, 1)
    options: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction}
    loss = negative_log_likelihood_loss(likely, target, weight, **options)
    return [loss, likely] if node.results > 1 else loss


TRAINING = "ai.onnx.preview.training"


def _updated(step: Any, state_count: int) -> Any:
    """An optimizer's operator: groups of tensors, gradients and states, in that order."""

    def run(rate: Tensor, time: Tensor, xs: tuple[Tensor, ...], options: Any) -> list[Tensor]:
        count = len(xs) // (state_count + 2)
        groups = [xs[i * count : (i + 1) * count] for i in range(state_count + 2)]
        results = [step(rate, time, *each, **options) for each in zip(*groups)]
        return [result for group in zip(*results) for result in group]

    return run


@onnx_op("Adagrad", domain=TRAINING)
def adagrad(
    rate: Tensor, time: Tensor, *xs: Tensor, decay_factor: float = 0.0, epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
) -> Any:  # fmt: skip
    def step(rate: Tensor, time: Tensor, x: Tensor, g: Tensor, h: Tensor) -> Any:
        g = norm_coefficient * x + g
        h = h + g * g
        return x - rate / (1 + time.to(x.dtype) * decay_factor) * g / (h.sqrt() + epsilon), h

    return _updated(step, 1)(rate, time, xs, {})


@onnx_op("Momentum", domain=TRAINING)
def momentum(
    rate: Tensor, time: Tensor, *xs: Tensor, alpha: float, beta: float, mode: str,
    norm_coefficient: float,
) -> Any:  # fmt: skip
    def step(rate: Tensor, time: Tensor, x: Tensor, g: Tensor, v: Tensor) -> Any:
        g = norm_coefficient * x + g
        v = alpha * v + torch.where(time > 0, beta, 1.0).to(x.dtype) * g
        return x - rate * (g + alpha * v if mode == "nesterov" else v), v

    return _updated(step, 1)(rate, time, xs, {})


@onnx_op("Adam", domain=TRAINING)
def adam(
    rate: Tensor, time: Tensor, *xs: Tensor, alpha: float = 0.9, beta: float = 0.999,
    epsilon: float = 1e-6, norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    def step(rate: Tensor, time: Tensor, x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> Any:
        g = norm_coefficient * x + g
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        past = time.to(x.dtype).clamp(min=1)
        bias = (1 - beta**past).sqrt() / (1 - alpha**past)
        adjusted = torch.where(time > 0, rate * bias, rate)
        new = x - adjusted * v / (h.sqrt() + epsilon)
        return (1 - norm_coefficient_post) * new, v, h

    return _updated(step, 2)(rate, time, xs, {})
