"""Layers and losses as PyTorch shows them at the top level: those of `nn.functional` that are the
same there, and those that have other signatures. `frontend` alone imports this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.functions.arguments import stored
from frontend.nn import functional as F
from frontend.tensor import Tensor

SAME = [
    "adaptive_avg_pool1d", "avg_pool1d", "bilinear", "celu", "celu_", "channel_shuffle",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_similarity", "hardshrink", "max_pool1d", "max_pool2d", "max_pool3d",
    "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_",
    "rms_norm", "rrelu", "rrelu_", "selu", "selu_", "threshold_",
]  # fmt: skip
"""Functions of `nn.functional` that are those of the top level."""

# Functions that have a form at the top level which writes into its first argument.
IN_PLACE = [
    "abs", "acos", "acosh", "addmv", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctanh", "asin", "asinh", "atan", "atanh", "ceil", "clamp", "clamp_max", "clamp_min",
    "clip", "cos", "cosh", "deg2rad", "detach", "erf", "erfc", "exp", "exp2", "expm1", "fill",
    "fix", "floor", "frac", "ldexp", "log", "log10", "log1p", "log2", "logit", "nan_to_num",
    "neg", "negative", "rad2deg", "reciprocal", "round", "rsqrt", "sigmoid", "sin", "sinc",
    "sinh", "sqrt", "square", "tan", "tanh", "trunc", "xlogy", "zero",
]  # fmt: skip

OWN = [
    "adaptive_max_pool1d", "alpha_dropout", "alpha_dropout_", "batch_norm",
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "dropout", "dropout_",
    "embedding", "feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout",
    "feature_dropout_", "group_norm", "hinge_embedding_loss", "instance_norm", "kl_div",
    "layer_norm", "margin_ranking_loss", "poisson_nll_loss", "threshold", "triplet_margin_loss",
]  # fmt: skip

__all__ = [*SAME, *OWN, *[f"{name}_" for name in IN_PLACE]]

for _name in SAME:
    globals()[_name] = getattr(F, _name)


def _in_place(name: str) -> Callable[..., Tensor]:
    def function(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        method: Callable[..., Tensor] = getattr(input, name)
        return method(*arguments, **keywords)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`input.{name}(…)`."
    return function


for _name in IN_PLACE:
    globals()[f"{_name}_"] = _in_place(f"{_name}_")


def threshold(input: Tensor, threshold: float, value: float, *, out: Any = None) -> Tensor:
    """`input` where it is above `threshold` or NaN, else `value`."""
    return stored(F.threshold(input, threshold, value), out)


# -- normalisation -------------------------------------------------------------------------------


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`F.batch_norm` with its arguments in another order; `cudnn_enabled` does nothing."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`F.instance_norm` with its arguments in another order; `cudnn_enabled` does nothing."""
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-05, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """`F.layer_norm`; `cudnn_enable` does nothing."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-05, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`F.group_norm`; `cudnn_enabled` does nothing."""
    return F.group_norm(input, num_groups, weight, bias, eps)


# -- dropout -------------------------------------------------------------------------------------


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Elements become 0 with probability p, the others are scaled by 1 / (1 - p), if `train`."""
    return F.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout`, in place."""
    return F.dropout(input, p, train, inplace=True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`F.alpha_dropout` without defaults."""
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout`, in place."""
    return F.alpha_dropout(input, p, train, inplace=True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` of whole channels (dimensions 0 and 1 count, the others share a draw)."""
    return F.dropout2d(input, p, train)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout`, in place."""
    return F.dropout2d(input, p, train, inplace=True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`F.feature_alpha_dropout` without defaults."""
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_alpha_dropout`, in place."""
    return F.feature_alpha_dropout(input, p, train, inplace=True)


# -- embedding, pooling --------------------------------------------------------------------------


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """`F.embedding` with the weight first. A `padding_idx` below 0 is none."""
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """`F.adaptive_max_pool1d`: the result and the positions of the maxima."""
    return F.adaptive_max_pool1d(input, output_size, return_indices=True)


# -- losses --------------------------------------------------------------------------------------

REDUCTIONS = ("none", "mean", "sum")


def _reduction(number: int) -> str:
    """The name of a reduction, which the top level writes as a number."""
    if number not in range(len(REDUCTIONS)):
        raise ValueError(f"{number} is not a valid value for reduction")
    return REDUCTIONS[number]


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    """`F.binary_cross_entropy_with_logits`. `reduction`: 0 none, 1 mean, 2 sum."""
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`F.cosine_embedding_loss`. `reduction`: 0 none, 1 mean, 2 sum."""
    return F.cosine_embedding_loss(
        input1, input2, target, margin, reduction=_reduction(reduction)
    )


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """`F.hinge_embedding_loss`. `reduction`: 0 none, 1 mean, 2 sum."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """`F.kl_div`. `reduction`: 0 none, 1 mean over all elements, 2 sum."""
    losses = F.kl_div(input, target, reduction="none", log_target=log_target)
    name = _reduction(reduction)
    return losses if name == "none" else losses.mean() if name == "mean" else losses.sum()


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`F.margin_ranking_loss`. `reduction`: 0 none, 1 mean, 2 sum."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`F.poisson_nll_loss` without defaults. `reduction`: 0 none, 1 mean, 2 sum."""
    return F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_reduction(reduction)
    )


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-06, swap: bool = False, reduction: int = 1,
) -> Tensor:  # fmt: skip
    """`F.triplet_margin_loss`. `reduction`: 0 none, 1 mean, 2 sum."""
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction)
    )
