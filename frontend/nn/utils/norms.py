"""Lengths of weights and their spectral norm, for the two forms of `weight_norm` and of
`spectral_norm`."""

from __future__ import annotations

from frontend.engine.tensors.tensor import Tensor
from frontend.nn.functional.normalization import normalize

Direction = tuple[Tensor, Tensor]


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but `dim` (-1: over all), which are kept with size 1; of all, a
    0-d tensor."""
    if dim == -1:
        return v.norm(pow)
    others = [axis for axis in range(v.dim()) if axis != dim]
    return v.norm(pow, others, keepdim=True) if others else v.abs()


def weighted(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """The direction `v` with the length `g`."""
    return v * (g / norm_except_dim(v, 2, dim))


def unit(vector: Tensor, eps: float) -> Tensor:
    """`vector` over its length, or over `eps` where that is greater."""
    return normalize(vector, dim=0, eps=eps)


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix with a row for each index of `dim`."""
    rest = [axis for axis in range(weight.dim()) if axis != dim]
    weight = weight.permute(dim, *rest) if dim else weight
    return weight.flatten(1)


def iterated(matrix: Tensor, start: Direction, steps: int, eps: float) -> Direction:
    """The left and right vector after steps of power iteration."""
    u, v = start
    for _ in range(steps):
        u = unit(matrix.mv(v), eps)
        v = unit(matrix.t().mv(u), eps)
    return u, v
