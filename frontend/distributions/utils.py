"""Small helpers of distributions, also for those of users: named as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.functions.creation import tensor
from frontend.functions.pointwise import clamp, log, sigmoid
from frontend.functions.random import randn
from frontend.functions.reduce import softmax
from frontend.functions.shape import broadcast_tensors
from frontend.tensors.tensor import Tensor

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape. Raises ValueError for anything else."""
    for value in values:
        if not isinstance(value, Tensor | int | float):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects "
                "implementing __torch_function__."
            )
    model = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = None if model is None else model.dtype
    tensors = [
        value if isinstance(value, Tensor) else tensor(float(value), dtype=dtype)
        for value in values
    ]
    return tuple(broadcast_tensors(*tensors))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Standard normal numbers, as rsample draws them."""
    return randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` axes, in one."""
    return value if dim == 0 else value.reshape(*value.shape[:-dim], -1).sum(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's eps."""
    eps = float(np.finfo(probs.dtype.computes_as.numpy).eps)
    return clamp(probs, min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logarithms of probabilities (of 0 or 1: the log-odds), kept finite."""
    kept = clamp_probs(probs)
    return log(kept) - (-kept).log1p() if is_binary else log(kept)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The softmax along the last dimension; of log-odds the sigmoid."""
    return sigmoid(logits) if is_binary else softmax(logits, -1)


class lazy_property:
    """A property computed when it is first asked for, and kept."""

    def __init__(self, wrapped: Callable[[Any], Any]):
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.wrapped.__name__] = self.wrapped(instance)
        return value


def one_of(probs: Any, logits: Any) -> None:
    """Raise ValueError unless exactly one is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
