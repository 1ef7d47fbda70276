"""Exponentials and condition numbers of matrices, Vandermonde matrices, low-rank approximations."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.promotion import casted, promote_types
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import linalg, pointwise, reduce
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.creation import ones_like, zeros_like
from frontend.functions.declarations import public
from frontend.functions.linear_algebra.checks import matrices, mH, misfit, mm, square
from frontend.functions.linear_algebra.factorizations import qr
from frontend.functions.linear_algebra.solving import inv_ex
from frontend.functions.linear_algebra.spectra import svd, svdvals
from frontend.functions.random import randn
from frontend.functions.shape import cat, stack
from graphc.ir.types import DType
from graphc.ops.linear_algebra import lapack as ops

# -- exponentials --------------------------------------------------------------------------------


def _exp_rule(g: Any, out: Any, a: Any) -> tuple[Any]:
    """The upper right block of the exponential of [[Aᴴ, G], [0, Aᴴ]] (N. Higham, "Functions of
    Matrices", 2008, section 3.2)."""
    adjoint = mH(a)
    size = a.shape[-1]
    above, below = cat([adjoint, g], -1), cat([zeros_like(adjoint), adjoint], -1)
    return (EXP(cat([above, below], -2))[..., :size, size:],)


EXP = HostOp("linalg.matrix_exp", ops.matrix_exp, _exp_rule, ((0,), ()))


@public(method=True)
def matrix_exp(A: Tensor) -> Tensor:
    """The exponentials of square matrices: of A / 2ˢ by its series, with s such that the norm is
    at most 1/2, then squared s times."""
    if isinstance(A, Tensor) and A.dtype in (DType.f16, DType.bf16):
        return matrix_exp(A.to(DType.f32)).to(A.dtype)
    square("linalg.matrix_exp", A=A)
    result: Tensor = EXP(A)
    return result


# -- condition numbers ---------------------------------------------------------------------------


@full_precision
def cond(A: Tensor, p: Any = None, *, out: Any = None) -> Tensor:
    """|A|·|A⁻¹| in a norm of matrices; infinite for singular ones. For p None, 2 and -2 the ratio
    of the greatest and least singular value, of matrices of any shape."""
    matrices("linalg.cond", A=A)
    if p in (None, 2, -2):
        values = svdvals(A)
        greatest, least = values[..., 0], values[..., -1]
        return stored(least / greatest if p == -2 else greatest / least, out)
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    square(f"linalg.cond(p={p})", A=A)
    inverse, info = inv_ex(A)
    product = linalg.matrix_norm(A, p) * linalg.matrix_norm(inverse, p)
    return stored(pointwise.where(info > 0, math.inf, product), out)


# -- Vandermonde ---------------------------------------------------------------------------------


def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0, 1, …, N - 1 (by default as many as elements) of each element of vectors, in a
    new last dimension."""
    need_tensors("linalg.vander", x=x)
    x = x if x.dim() else x.reshape(1)
    count = x.shape[-1] if N is None else N
    if count < 2 and N is not None:
        raise RuntimeError("N must be greater than 1.")
    if x.dtype is DType.bool or (x.dtype.is_storage and x.dtype.is_float):
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{SCALAR_NAMES[x.dtype]}"
        )
    return stack(_powers(x, count), -1)


def _powers(x: Tensor, count: int) -> list[Tensor]:
    """The powers 0, 1, …, count - 1 of each element: of integers as int64."""
    wide = casted(x, promote_types(x.dtype, DType.i64))
    powers = [ones_like(wide)]
    while len(powers) < count:
        powers.append(powers[-1] * wide)
    return powers


@public()
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers N - 1, …, 1, 0 of each element of a vector, or with `increasing` 0, 1, …"""
    need_tensors("vander", x=x)
    if x.dim() != 1:
        raise misfit("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    if count == 0:
        return casted(x.new_empty((x.shape[0], 0)), promote_types(x.dtype, DType.i64))
    powers = _powers(x, count)
    return stack(powers if increasing else powers[::-1], -1)


# -- low-rank approximations ---------------------------------------------------------------------


@public()
def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> Any:
    """U, S and V of the `q` greatest singular values of A (of A - M), approximately: by random
    projections and `niter` steps of subspace iteration (N. Halko, P. Martinsson and J. Tropp,
    "Finding structure with randomness", 2011, algorithms 4.4 and 5.1)."""
    matrices("svd_lowrank", A=A)
    source = A if M is None else A - M
    wide = source.shape[-2] < source.shape[-1]
    tall = mH(source) if wide else source
    basis = qr(mm(tall, randn(tall.shape[-1], q, dtype=tall.dtype)))[0]
    for _ in range(niter):
        basis = qr(mm(mH(tall), basis))[0]
        basis = qr(mm(tall, basis))[0]
    u, s, vh = svd(mm(mH(basis), tall), False)
    left, right = mm(basis, u), mH(vh)
    return (right, s, left) if wide else (left, s, right)


@public()
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """`svd_lowrank` of A with the mean of its rows taken away: the principal components are the
    columns of V."""
    matrices("pca_lowrank", A=A)
    least = min(A.shape[-2:])
    count = min(6, least) if q is None else q
    if not 0 <= count <= least:
        raise ValueError(f"q(={count}) must be non-negative integer and not greater than "
                         f"min(m, n)={least}")  # fmt: skip
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, count, niter)
    mean = reduce.sum(A, -2, keepdim=True) / A.shape[-2]
    return svd_lowrank(A - mean, count, niter)
