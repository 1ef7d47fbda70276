"""`norm` as PyTorch had it before `torch.linalg`: of vectors, and the nuclear one of matrices;
and slices held to a norm."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import linalg
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.declarations import public
from frontend.functions.pointwise import where
from frontend.functions.reduce import dimension, vector_norm


@public(method=True, numpy_names=True)
def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The p-norm of a float tensor over `dim`, or over all elements; "fro" and None are 2, inf is
    the greatest magnitude, 0 counts what is not 0. Where it is 0 its gradient is 0. "nuc" is the
    sum of a matrix's singular values."""
    need_tensors("norm", input=input)
    if p == "nuc":
        plane = (-2, -1) if dim is None else dim
        return linalg.matrix_norm(input, "nuc", plane, keepdim, dtype=dtype, out=out)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm(): p={p!r} is not supported; use a number, 'fro' or 'nuc'")
    return stored(vector_norm("norm", input, 2 if p in ("fro", None) else p, dim, keepdim, dtype),
                  out)  # fmt: skip


@public(method=True, in_place=True, out=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along `dim` whose p-norm exceeds `maxnorm` scaled down to it."""
    need_tensors("renorm", input=input)
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.dim() < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.dim()}")
    axis = dimension(dim, input.dim())
    others = [other for other in range(input.dim()) if other != axis]
    # Lengths of half types are those in float32: there `maxnorm` has its value.
    wide = input.dtype.computes_as if input.dtype.is_storage else input.dtype
    lengths = norm(casted(input, wide), p, others, keepdim=True)
    factors = where(lengths > maxnorm, maxnorm / (lengths + 1e-7), 1.0)
    return input * casted(factors, input.dtype)
