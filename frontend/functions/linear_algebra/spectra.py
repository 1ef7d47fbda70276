"""Singular values and eigenvalues, and what is computed from them: pseudoinverses, least squares,
ranks. Signs of singular vectors and eigenvectors are LAPACK's."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.promotion import casted
from frontend.engine.eager.uncompiled import conj, real_part
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import own
from frontend.functions import reduce, return_types
from frontend.functions.arguments import stored
from frontend.functions.creation import full, full_like, zeros
from frontend.functions.linear_algebra.checks import (
    batches,
    is_vector,
    matrices,
    mH,
    misfit,
    mm,
    square,
    successful,
)
from frontend.functions.pointwise import maximum, where
from frontend.functions.ranges import eye
from frontend.functions.select import diag_embed, diagonal
from frontend.functions.unary import abs
from graphc.errors import DTypeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops.linear_algebra import lapack as ops

# -- ops -----------------------------------------------------------------------------------------


def _svd_rule(g: Any, out: Any, a: Any, *, full_matrices: bool) -> tuple[Any]:
    """With Eᵢⱼ = sⱼ² - sᵢ² and what lies outside of the spans of U and V added (J. Townsend,
    "Differentiating the Singular Value Decomposition", 2016). Infinite or NaN where singular values
    are equal and vectors have gradients."""
    to_u, to_s, to_v, _ = g
    u, s, vh, _ = out
    count = s.shape[-1]
    if full_matrices:
        u, vh = u[..., :count], vh[..., :count, :]
        to_u = None if to_u is None else to_u[..., :count]
        to_v = None if to_v is None else to_v[..., :count, :]
    inner: Any = None if to_s is None else diag_embed(to_s).to(a.dtype)
    outer = None
    row, column = s[..., None, :], s[..., :, None]
    unit = eye(count, dtype=s.dtype)
    gaps = where(unit > 0, 1.0, row * row - column * column)
    if to_u is not None:
        projected = mm(mH(u), to_u)
        inner = _plus(inner, (projected - mH(projected)) / gaps * row)
        outer = mm((to_u - mm(u, projected)) / row, vh)
    if to_v is not None:
        projected = mm(vh, mH(to_v))
        inner = _plus(inner, column * ((projected - mH(projected)) / gaps))
        outer = _plus(outer, mm(u / row, to_v - mm(mH(projected), vh)))
    if a.dtype.is_complex and to_u is not None and to_v is not None:
        projected = mm(mH(u), to_u)
        along = diagonal(projected - mH(projected), dim1=-2, dim2=-1)
        inner = _plus(inner, diag_embed(along / (s * 2)))
    return (_plus(mm(u, mm(inner, vh)), outer),)


def _plus(x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else x + y


def _eigh_rule(g: Any, out: Any, a: Any, *, UPLO: str) -> tuple[Any]:
    """V·(diag(gL) + X / E)·Vᵀ with Eᵢⱼ = Lⱼ - Lᵢ and X the skew-symmetric part of Vᵀ·gV (M. Giles,
    "An extended collection of matrix derivative results", 2008): a symmetric gradient."""
    to_values, to_vectors, _ = g
    values, vectors, _ = out
    inner: Any = None if to_values is None else diag_embed(to_values).to(a.dtype)
    if to_vectors is not None:
        unit = eye(values.shape[-1], dtype=values.dtype) > 0
        gaps = where(unit, 1.0, values[..., None, :] - values[..., :, None])
        projected = mm(mH(vectors), to_vectors)
        inner = _plus(inner, (projected - mH(projected)) * 0.5 / gaps)
    return (mm(vectors, mm(inner, mH(vectors))),)


def _pinv_rule(
    g: Any, out: Any, a: Any, atol: Any, rtol: Any, **options: Any
) -> tuple[Any, None, None]:
    """G. Golub and V. Pereyra, "The differentiation of pseudo-inverses", 1973, transposed."""
    p = out[0]
    h, t = mH(g[0]), mH(p)
    gradient = -mm(t, mm(g[0], t))
    gradient = gradient + mm(h - mm(a, mm(p, h)), mm(p, t))
    return gradient + mm(mm(t, p), h - mm(mm(h, p), a)), None, None


SVD = HostOp("linalg.svd", ops.svd, _svd_rule, ((), (0, 1, 2)))
EIGH = HostOp("linalg.eigh", ops.eigh, _eigh_rule, ((), (0, 1)))
PINV = HostOp("linalg.pinv", ops.pinv, _pinv_rule, ((0,), (0,)))


DIVERGED = (
    "The algorithm failed to converge because the input matrix is ill-conditioned, or has infinite "
    "or NaN elements."
)


def _converged(op: HostOp, *operands: Tensor, **attributes: Any) -> tuple[Tensor, ...]:
    """The results of an op, without its info; all that are used depend on its being 0."""
    *results, info = op(*operands, **attributes)
    return tuple(successful(op.name, info, DIVERGED, result) for result in results)


# -- decompositions ------------------------------------------------------------------------------


@full_precision
def svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None
) -> Any:
    """U, S and Vh with A = U·diag(S)·Vh, S descending; without `full_matrices` as many vectors as
    singular values."""
    matrices("linalg.svd", A=A)
    if driver is not None:
        raise RuntimeError(
            "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs"
        )
    return stored(return_types.linalg_svd(*_converged(SVD, A, full_matrices=full_matrices)), out)


@full_precision
def svdvals(A: Tensor, *, driver: str | None = None, out: Any = None) -> Tensor:
    """The singular values, descending."""
    return stored(svd(A, False, driver=driver)[1], out)


def _triangle(name: str, UPLO: str) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"{name}: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


@full_precision
def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:
    """The eigenvalues, ascending, and eigenvectors of symmetric matrices, of which one triangle is
    read."""
    square("linalg.eigh", A=A)
    half = _triangle("linalg.eigh", UPLO)
    return stored(return_types.linalg_eigh(*_converged(EIGH, A, UPLO=half)), out)


@full_precision
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Tensor:
    """The eigenvalues of symmetric matrices, ascending."""
    return stored(eigh(A, UPLO)[0], out)


# -- what is computed from them ------------------------------------------------------------------


def _tolerances(
    name: str, A: Tensor, atol: Any, rtol: Any, tol: Any = None
) -> tuple[Tensor, Tensor]:
    """Absolute and relative tolerance, in float64, that broadcast over the singular values: by
    default 0, and the machine epsilon times the longer side where no absolute one is given."""
    if tol is not None:
        atol, rtol = tol, 0.0
    epsilon = float(np.finfo(A.dtype.numpy).eps) * max(A.shape[-2:], default=0)
    absolute = _tolerance(0.0 if atol is None else atol)
    if rtol is None:
        return absolute, where(absolute > 0, 0.0, full_like(absolute, epsilon))
    return absolute, _tolerance(rtol)


def _tolerance(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return casted(value, DType.f64).unsqueeze(-1)
    return full((1,), float(value), dtype=DType.f64)


def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """The Moore-Penrose pseudoinverses: singular values up to max(atol, rtol · the greatest) count
    as 0. The gradient is that at constant rank."""
    (square if hermitian else matrices)("linalg.pinv", A=A)
    rtol = rcond if rtol is None else rtol
    atol, rtol = _tolerances("linalg.pinv", A, atol, rtol)
    atol, rtol = (casted(x, _real(A)) for x in (atol, rtol))
    return stored(_converged(PINV, A, atol, rtol, hermitian=hermitian)[0], out)


def _real(A: Tensor) -> DType:
    """The dtype of a matrix's singular values."""
    return A.dtype.computes_as if A.dtype.is_complex else A.dtype


@full_precision
def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """How many singular values (magnitudes of eigenvalues with `hermitian`) exceed
    max(atol, rtol · the greatest), as int64."""
    (square if hermitian else matrices)("linalg.matrix_rank", A=A)
    values = A.detach()
    s = casted(abs(eigvalsh(values)) if hermitian else svdvals(values), DType.f64)
    atol, rtol = _tolerances("linalg.matrix_rank", A, atol, rtol, tol)
    if not s.shape[-1]:
        return stored(zeros(tuple(s.shape[:-1]), dtype=DType.i64), out)
    greatest = reduce.amax(s, -1, keepdim=True)
    return stored(reduce.sum(s > maximum(atol, rtol * greatest), -1), out)


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@full_precision
def lstsq(
    A: Tensor, B: Tensor, rcond: Any = None, *, driver: str | None = None, out: Any = None
) -> Any:
    """The X of least norm among those with the least |A·X - B|, by the pseudoinverse. With it: the
    squared residuals where A has full rank, which driver "gels" takes for granted, and more rows
    than columns (not for "gelsy"), the rank (not for "gels"), and the singular values (for "gelsd"
    and "gelss"); empty where not asked for. Compiled, the residuals for "gelsd" and "gelss", which
    are there or not by the rank, are a TraceError."""
    name = "torch.linalg.lstsq"
    matrices(name, A=A)
    if driver is not None and driver not in DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    if B.dtype is not A.dtype:
        raise DTypeError(
            f"{name}: input.dtype and other.dtype must be the same", location=user_location()
        )
    vector = is_vector(A, B)
    right = B.unsqueeze(-1) if vector else B
    rows, columns = A.shape[-2:]
    if right.dim() < 2 or right.shape[-2] != rows:
        raise misfit(f"{name}: input.size(-2) should match other.size(-2)")
    a, b = batches(A, right)
    solution = mm(pinv(a, rcond), b)
    asked = driver or "gelsy"
    rank = matrix_rank(A, rtol=rcond)  # of A's batch: the right sides may be more
    none = zeros(0, dtype=_real(A))
    # Of none there is nothing to derive, but they are results of A and B.
    residuals = real_part(solution).reshape(-1)[:0] if solution.requires_grad else none
    full = rows > columns and asked != "gelsy"
    if full and asked != "gels":
        full = bool((rank == columns).all())
    if full:
        missing = b - mm(a, solution)
        residuals = reduce.sum(real_part(missing * conj(missing)), -2)
    ranks = zeros(0, dtype=DType.i64) if asked == "gels" else rank
    values = svdvals(A.detach()) if asked in ("gelsd", "gelss") else none
    shown = own(solution.squeeze(-1)) if vector else solution
    return stored(return_types.linalg_lstsq(shown, residuals, ranks, values), out)
