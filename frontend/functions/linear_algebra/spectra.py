"""Singular values and eigenvalues, and what is computed from them: pseudoinverses, least squares,
ranks. Signs of singular vectors and eigenvectors are LAPACK's."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.eager.host_ops import HostOp, eager_only, from_host
from frontend.eager.uncompiled import conj, real_part
from frontend.functions import reduce, return_types
from frontend.functions.arguments import stored
from frontend.functions.creation import eye
from frontend.functions.linear_algebra.checks import (
    LinAlgError,
    batches,
    is_vector,
    matrices,
    mH,
    misfit,
    mm,
    square,
)
from frontend.functions.pointwise import where
from frontend.functions.select import diag_embed, diagonal
from frontend.functions.unary import abs
from frontend.tensors.tensor import Tensor
from graphc.errors import DTypeError
from graphc.ir.builder import user_location

# -- ops -----------------------------------------------------------------------------------------


def _svd(a: Any, *, full_matrices: bool) -> Any:
    return tuple(np.linalg.svd(a, full_matrices=full_matrices))


def _svd_rule(g: Any, out: Any, a: Any, *, full_matrices: bool) -> tuple[Any]:
    """With Eᵢⱼ = sⱼ² - sᵢ² and what lies outside of the spans of U and V added (J. Townsend,
    "Differentiating the Singular Value Decomposition", 2016). Infinite or NaN where singular values
    are equal and vectors have gradients."""
    to_u, to_s, to_v = g
    u, s, vh = out
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
        turned = mm(mH(u), to_u)
        inner = _plus(inner, (turned - mH(turned)) / gaps * row)
        outer = mm((to_u - mm(u, turned)) / row, vh)
    if to_v is not None:
        turned = mm(vh, mH(to_v))
        inner = _plus(inner, column * ((turned - mH(turned)) / gaps))
        outer = _plus(outer, mm(u / row, to_v - mm(mH(turned), vh)))
    if a.dtype.is_complex and to_u is not None and to_v is not None:
        turned = mm(mH(u), to_u)
        along = diagonal(turned - mH(turned), dim1=-2, dim2=-1)
        inner = _plus(inner, diag_embed(along / (s * 2)))
    return (_plus(mm(u, mm(inner, vh)), outer),)


def _plus(x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else x + y


def _eigh(a: Any, *, UPLO: Any) -> Any:
    return tuple(np.linalg.eigh(a, UPLO=UPLO))


def _eigh_rule(g: Any, out: Any, a: Any, *, UPLO: str) -> tuple[Any]:
    """V·(diag(gL) + X / E)·Vᵀ with Eᵢⱼ = Lⱼ - Lᵢ and X the skew-symmetric part of Vᵀ·gV (M. Giles,
    "An extended collection of matrix derivative results", 2008): a symmetric gradient."""
    to_values, to_vectors = g
    values, vectors = out
    inner: Any = None if to_values is None else diag_embed(to_values).to(a.dtype)
    if to_vectors is not None:
        unit = eye(values.shape[-1], dtype=values.dtype) > 0
        gaps = where(unit, 1.0, values[..., None, :] - values[..., :, None])
        turned = mm(mH(vectors), to_vectors)
        inner = _plus(inner, (turned - mH(turned)) * 0.5 / gaps)
    return (mm(vectors, mm(inner, mH(vectors))),)


def _pinv(a: Any, *, atol: Any, rtol: Any, hermitian: bool) -> Any:
    if hermitian:
        values, vectors = np.linalg.eigh(a)
        u, s, vh = vectors, values, np.swapaxes(vectors, -2, -1).conj()
    else:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
    greatest = np.abs(s).max(axis=-1, keepdims=True, initial=0)
    kept = np.abs(s) > np.maximum(np.asarray(atol), np.asarray(rtol) * greatest)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(a.dtype)
    return np.swapaxes(vh, -2, -1).conj() @ (inverse[..., None] * np.swapaxes(u, -2, -1).conj())


def _pinv_rule(g: Any, p: Any, a: Any, **options: Any) -> tuple[Any]:
    """G. Golub and V. Pereyra, "The differentiation of pseudo-inverses", 1973, transposed."""
    h, t = mH(g), mH(p)
    gradient = -mm(t, mm(g, t))
    gradient = gradient + mm(h - mm(a, mm(p, h)), mm(p, t))
    return (gradient + mm(mm(t, p), h - mm(mm(h, p), a)),)


SVD = HostOp("linalg.svd", _svd, _svd_rule, ((), (0, 1, 2)))
EIGH = HostOp("linalg.eigh", _eigh, _eigh_rule, ((), (0, 1)))
PINV = HostOp("linalg.pinv", _pinv, _pinv_rule, ((0,), (0,)))


def _converged(op: HostOp, x: Tensor, **attributes: Any) -> Any:
    try:
        return op(x, **attributes)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(
            f"{op.name}: The algorithm failed to converge because the input matrix is "
            "ill-conditioned, or has infinite or NaN elements.",
            location=user_location(),
        ) from error


# -- decompositions ------------------------------------------------------------------------------


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


def svdvals(A: Tensor, *, driver: str | None = None, out: Any = None) -> Tensor:
    """The singular values, descending."""
    return stored(svd(A, False, driver=driver)[1], out)


def _triangle(name: str, UPLO: str) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"{name}: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:
    """The eigenvalues, ascending, and eigenvectors of symmetric matrices, of which one triangle is
    read."""
    square("linalg.eigh", A=A)
    half = _triangle("linalg.eigh", UPLO)
    return stored(return_types.linalg_eigh(*_converged(EIGH, A, UPLO=half)), out)


def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Tensor:
    """The eigenvalues of symmetric matrices, ascending."""
    return stored(eigh(A, UPLO)[0], out)


# -- what is computed from them ------------------------------------------------------------------


def _tolerances(name: str, A: Tensor, atol: Any, rtol: Any, tol: Any = None) -> tuple[Any, Any]:
    """Absolute and relative tolerance, as arrays that broadcast over the singular values: by
    default 0, and the machine epsilon times the longer side where no absolute one is given."""
    if tol is not None:
        atol, rtol = tol, 0.0
    epsilon = float(np.finfo(A.dtype.numpy).eps) * max(A.shape[-2:], default=0)
    absolute = _tolerance(name, 0.0 if atol is None else atol)
    if rtol is None:
        return absolute, np.where(absolute > 0, 0.0, epsilon)
    return absolute, _tolerance(name, rtol)


def _tolerance(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value._array(name)[..., None].astype(np.float64)
    return np.asarray([float(value)])


def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """The Moore-Penrose pseudoinverses: singular values up to max(atol, rtol · the greatest) count
    as 0. The gradient is that at constant rank."""
    (square if hermitian else matrices)("linalg.pinv", A=A)
    rtol = rcond if rtol is None else rtol
    atol, rtol = _tolerances("linalg.pinv", A, atol, rtol)
    atol, rtol = (np.asarray(x, A.dtype.computes_as.numpy) for x in (atol, rtol))
    return stored(_converged(PINV, A, atol=atol, rtol=rtol, hermitian=hermitian), out)


def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """How many singular values (magnitudes of eigenvalues with `hermitian`) exceed
    max(atol, rtol · the greatest), as int64."""
    (square if hermitian else matrices)("linalg.matrix_rank", A=A)
    eager_only("linalg.matrix_rank")
    values = A.detach()
    s = (abs(eigvalsh(values)) if hermitian else svdvals(values))._array("linalg.matrix_rank")
    atol, rtol = _tolerances("linalg.matrix_rank", A, atol, rtol, tol)
    greatest = s.max(axis=-1, keepdims=True, initial=0)
    rank = (s > np.maximum(atol, rtol * greatest)).sum(axis=-1)
    return stored(from_host(np.asarray(rank, np.int64)), out)


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(
    A: Tensor, B: Tensor, rcond: Any = None, *, driver: str | None = None, out: Any = None
) -> Any:
    """The X of least norm among those with the least |A·X - B|, by the pseudoinverse. With it: the
    squared residuals where A has full rank and more rows than columns, the rank (not for driver
    "gels"), and the singular values (for "gelsd" and "gelss"); empty where not asked for."""
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
    rank = matrix_rank(a, rtol=rcond)
    full = bool((rank == columns).all()) and rows > columns
    missing = b - mm(a, solution)
    none = from_host(np.zeros(0, A.dtype.computes_as.numpy))
    squares = reduce.sum(real_part(missing * conj(missing)), -2)
    residuals = squares if full and asked != "gelsy" else none
    ranks = from_host(np.zeros(0, np.int64)) if asked == "gels" else rank
    values = svdvals(a.detach()) if asked in ("gelsd", "gelss") else none
    shown = solution.squeeze(-1) if vector else solution
    return stored(return_types.linalg_lstsq(shown, residuals, ranks, values), out)
