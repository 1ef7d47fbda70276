"""Small helpers of distributions, also for those of users: named as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import tensor
from frontend.functions.pointwise import clamp, log, sigmoid
from frontend.functions.random import randn
from frontend.functions.reduce import softmax
from frontend.functions.shape import broadcast_tensors, cat

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = float(np.euler_gamma)


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
    eps = eps_of(probs)
    return clamp(probs, min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logarithms of probabilities (of 0 or 1: the log-odds), kept finite."""
    kept = clamp_probs(probs)
    return log(kept) - (-kept).log1p() if is_binary else log(kept)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The softmax along the last dimension; of log-odds the sigmoid."""
    return sigmoid(logits) if is_binary else softmax(logits, -1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices [*, n, n], up to diagonal `diag`, as vectors, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = np.tril_indices(n, diag)
    return mat.reshape(*mat.shape[:-2], n * n)[..., tensor(rows * n + columns)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Vectors as the lower triangle of matrices [*, n, n], row by row, up to diagonal `diag`; the
    inverse of `tril_matrix_to_vec`. Raises ValueError for lengths of no triangle."""
    length = vec.shape[-1]
    b = 1 + 2 * diag
    n = (-b + (b**2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if abs(round(n) - n) > float(np.finfo(vec.dtype.computes_as.numpy).eps):
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    side = round(n)
    places = np.full((side, side), length)  # where the zero is that is added behind
    places[np.tril_indices(side, diag)] = np.arange(length)
    longer = cat([vec, vec.new_zeros((*vec.shape[:-1], 1))], -1)
    return longer[..., tensor(places.reshape(-1))].reshape(*vec.shape[:-1], side, side)


def eps_of(x: Tensor) -> float:
    """The distance from 1 to the next number of a tensor's dtype."""
    return float(np.finfo(x.dtype.computes_as.numpy).eps)


def tiny(x: Tensor) -> float:
    """The least normal number of a tensor's dtype."""
    return float(np.finfo(x.dtype.computes_as.numpy).tiny)


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
