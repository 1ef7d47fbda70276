"""Layers that PyTorch also shows at the top level, some with other arguments than the forms in
`nn.functional`: all of them positional, weights first, a reduction as a number (0 is none, 1 the
mean, 2 the sum; by default none, as PyTorch has it here)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.functions.in_place_variants import in_place
from frontend.nn import functional as F

# The numbers that stand for reductions here.
REDUCTIONS = ("none", "mean", "sum")


def _named(reduction: int) -> str:
    if reduction not in (0, 1, 2):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return REDUCTIONS[reduction]


# -- activations and dropout ---------------------------------------------------------------------


@public(node="Celu")
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`nn.functional.celu`."""
    return F.celu(input, alpha)


@public()
def selu(input: Tensor) -> Tensor:
    """`nn.functional.selu`."""
    return F.selu(input)


@public(node="RreluWithNoise")
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """`nn.functional.rrelu`. Another generator than the default one is refused (TypeError)."""
    if generator is not None:
        raise TypeError("rrelu() draws from the default generator; seed that with manual_seed()")
    return F.rrelu(input, lower, upper, training)


@public(node="Threshold", out=True)
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """`nn.functional.threshold`."""
    return F.threshold(input, threshold, value)


@public()
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout`."""
    return F.dropout(input, p, train)


@public()
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout`."""
    return F.alpha_dropout(input, p, train)


@public()
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout`."""
    return F.feature_alpha_dropout(input, p, train)


dropout_ = public()(in_place(dropout))
alpha_dropout_ = public()(in_place(alpha_dropout))
feature_alpha_dropout_ = public()(in_place(feature_alpha_dropout))


# -- embedding and normalisation -----------------------------------------------------------------


@public()
def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """`nn.functional.embedding`, the weight first; no padding where `padding_idx` is -1."""
    padding = None if padding_idx == -1 else padding_idx
    return F.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


@public()
def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.batch_norm`."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@public()
def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.instance_norm`."""
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


@public()
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.layer_norm`."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


@public()
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    """`nn.functional.rms_norm`."""
    return F.rms_norm(input, normalized_shape, weight, eps)


@public()
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.group_norm`."""
    return F.group_norm(input, num_groups, weight, bias, eps)


# -- losses --------------------------------------------------------------------------------------


@public(node="BinaryCrossEntropyWithLogits")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Tensor:  # fmt: skip
    """`nn.functional.binary_cross_entropy_with_logits`."""
    return F.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight=pos_weight, reduction=_named(reduction)
    )


@public()
def kl_div(
    input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False
) -> Tensor:
    """`nn.functional.kl_div`, without its warning."""
    lost = F.kl_div(input, target, reduction="none", log_target=log_target)
    return lost if reduction == 0 else getattr(lost, _named(reduction))()


@public()
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_named(reduction))


@public()
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_named(reduction))


@public()
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_named(reduction))


@public()
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """`nn.functional.triplet_margin_loss`."""
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_named(reduction)
    )


@public()
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_named(reduction))


@public()
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """`nn.functional.ctc_loss`."""
    return F.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _named(reduction), zero_infinity
    )
