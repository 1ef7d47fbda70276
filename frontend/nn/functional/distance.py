"""Distances and similarities of vectors."""

from __future__ import annotations

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import aligned, result_type
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.functions.norms import norm
from frontend.functions.pointwise import where
from frontend.nn.checks import fail, scalar_name, sizes
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ops import indexing


@public(at="nn.functional torch")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between `x1` and `x2` along `dim`, after broadcasting. A vector
    shorter than `eps` counts as that long. Raises RuntimeError for integers."""
    kind = result_type(x1, x2)
    if not kind.is_float:
        raise fail(
            DTypeError,
            "expected common dtype to be floating point, yet common dtype is "
            f"{scalar_name(x1 if x1.dtype is kind else x2)}",
        )
    if eps < 0:
        raise fail(AttributeValueError, f"eps must be non-negative, got: {eps}")
    first, second = aligned((x1, x2), kind)
    scaled = [x / _length(x, dim, eps) for x in (first, second)]
    return (scaled[0] * scaled[1]).sum(dim)


def _length(x: Tensor, dim: int, eps: float) -> Tensor:
    """The length of x along `dim`, at least `eps`: the bound moves the value, not the gradient."""
    length = norm(x, 2, dim, keepdim=True)
    return where(length < eps, (length - length.detach()) + eps, length)


@public(at="nn.functional torch")
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis, after broadcasting."""
    return norm(x1 - x2 + eps, p, -1, keepdim=keepdim)


@public(at="nn.functional torch", node="Pdist")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-distances of all pairs of rows i < j of [N, D], row by row: [N (N - 1) / 2]. Raises
    RuntimeError for other ranks and for a negative p."""
    if input.ndim != 2:
        raise fail(
            ShapeError, f"pdist only supports 2D tensors, got: {input.ndim}D ({sizes(input)})"
        )
    if p < 0:
        raise fail(AttributeValueError, "pdist only supports non-negative p values")
    if not input.dtype.is_float:
        raise fail(DTypeError, "pdist only supports floating-point dtypes")
    first, second = np.triu_indices(input.shape[0], 1)
    rows = [
        CONTEXT.apply(indexing.take, (input, CONTEXT.constant(index)), {"axis": 0})[0]
        for index in (first, second)
    ]
    return norm(rows[0] - rows[1], p, 1)
