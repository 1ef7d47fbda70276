"""Products of triangular and orthogonal matrices: Cholesky, QR, LU, Householder reflections."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.uncompiled import conj, real_part
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import return_types
from frontend.functions.arguments import stored
from frontend.functions.declarations import public
from frontend.functions.layout import contiguous, expand
from frontend.functions.linear_algebra.checks import (
    batches,
    floats,
    matrices,
    mH,
    misfit,
    mm,
    mT,
    square,
    successful,
)
from frontend.functions.linear_algebra.solving import TRIANGULAR, check_rows, unit
from frontend.functions.matrix import attached
from frontend.functions.ranges import eye
from frontend.functions.select import diag_embed, diagonal, tril, triu
from frontend.functions.shape import cat
from graphc.ops.linear_algebra import lapack as ops

# -- ops -----------------------------------------------------------------------------------------


def _right(a: Any, x: Any, *, upper: bool) -> Any:
    """x·a⁻¹ for triangular a."""
    return mT(TRIANGULAR(mT(a), mT(x), upper=not upper, unitriangular=False))


def _left(a: Any, x: Any, *, upper: bool) -> Any:
    """a⁻¹·x for triangular a."""
    return TRIANGULAR(a, x, upper=upper, unitriangular=False)


def _cholesky_rule(g: Any, out: Any, a: Any, *, upper: bool) -> tuple[Any]:
    """I. Murray, "Differentiation of the Cholesky decomposition", 2016; the gradient is
    symmetric."""
    lower, to_lower = (mH(out[0]), mH(g[0])) if upper else (out[0], g[0])
    inner = tril(mm(mH(lower), to_lower))
    inner = (inner + mH(tril(inner, -1))) * 0.5
    return (_right(lower, _left(mH(lower), inner, upper=True), upper=False),)


def _qr_rule(g: Any, out: Any, a: Any, *, complete: bool) -> tuple[Any]:
    """For as many rows as columns, or more (S. Walter and L. Lehmann, "Algorithmic differentiation
    of linear algebra functions", 2012)."""
    if complete:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    to_q, to_r = g
    q, r = out
    inner: Any = None if to_r is None else mm(to_r, mH(r))
    if to_q is not None:
        projected = mm(mH(q), to_q)
        inner = -projected if inner is None else inner - projected
    half = triu(inner)
    whole = mm(q, half + mH(half) - diag_embed(real_part(diagonal(half, dim1=-2, dim2=-1))))
    total = whole if to_q is None else whole + to_q
    return (_right(mH(r), total, upper=False),)


def _lu_rule(g: Any, out: Any, a: Any, *, pivot: bool) -> tuple[Any]:
    """The gradient of a = P·L·U from those of L and U, which lie in one array, at constant P."""
    both, pivots, _ = out
    rows, columns = both.shape[-2:]
    count = min(rows, columns)
    lower, upper = split(both)
    to_lower, to_upper = tril(g[0], -1)[..., :count], triu(g[0])[..., :count, :]
    top, first = lower[..., :count, :], upper[..., :count]
    below = mm(mH(top), to_lower[..., :count, :])
    above = mm(to_upper[..., :count], mH(first))
    if columns > count:
        below = below - mm(to_upper[..., count:], mH(upper[..., count:]))
    if rows > count:
        above = above - mm(mH(lower[..., count:, :]), to_lower[..., count:, :])
    inner = _right(mH(first), tril(below, -1) + triu(above), upper=False)
    solved = TRIANGULAR(mH(top), inner, upper=True, unitriangular=True)
    if columns > count:
        beside = TRIANGULAR(mH(top), to_upper[..., count:], upper=True, unitriangular=True)
        solved = cat([solved, beside], -1)
    if rows > count:
        under = _right(mH(first), to_lower[..., count:, :], upper=False)
        solved = cat([solved, under], -2)
    return (mm(permutation(pivots, rows, a.dtype), solved) if pivot else solved,)


def _no_raw_rule(*arguments: Any) -> tuple[Any, ...]:
    raise NotImplementedError("the derivative for 'geqrf' is not implemented.")


CHOLESKY = HostOp("linalg.cholesky", ops.cholesky, _cholesky_rule, ((), (0,)))
QR = HostOp("linalg.qr", ops.qr, _qr_rule, ((), (0, 1)))
LU = HostOp("linalg.lu", ops.lu, _lu_rule, ((), (0, 1)))
PERMUTATION = HostOp("linalg.lu", ops.permutation, _no_raw_rule)
GEQRF = HostOp("geqrf", ops.geqrf, _no_raw_rule)

NOT_DEFINITE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {} is not positive-definite)."
)


# -- Cholesky ------------------------------------------------------------------------------------


@full_precision
def cholesky(A: Tensor, *, upper: bool = False, out: Any = None) -> Tensor:
    """The lower triangular L with A = L·Lᵀ (its transpose with `upper`) of positive definite
    matrices, whose lower triangle (upper one) is read. Raises LinAlgError for others."""
    square("linalg.cholesky", A=A)
    factor, info = CHOLESKY(A, upper=upper)
    return stored(successful("linalg.cholesky", info, NOT_DEFINITE, factor), out)


@full_precision
def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """`cholesky` with the info of each matrix: 0, or the order of its first leading minor that is
    not positive; then its factor is NaN."""
    square("linalg.cholesky_ex", A=A)
    factor, info = CHOLESKY(A, upper=upper)
    if check_errors:
        factor = successful("linalg.cholesky_ex", info, NOT_DEFINITE, factor)
    return stored(return_types.linalg_cholesky_ex(factor, info), out)


@public(method=True, autocast="float32")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False, *, out: Any = None) -> Tensor:
    """X with A·X = B, for A given by its Cholesky factor L."""
    square("cholesky_solve", A=L)
    matrices("cholesky_solve", B=B, A=L)
    check_rows("cholesky_solve", L, B)
    factor, b = batches(mH(L) if upper else L, B)
    lower = tril(factor)
    return stored(_left(mH(lower), _left(lower, b, upper=False), upper=True), out)


@public(method=True, autocast="float32")
def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Any = None) -> Tensor:
    """A⁻¹, for A given by its Cholesky factor L."""
    square("cholesky_inverse", A=L)
    return stored(cholesky_solve(unit(L, L.shape[-1]), L, upper), out)


# -- QR ------------------------------------------------------------------------------------------


@full_precision
def qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> Any:
    """Q with orthonormal columns and R upper triangular with A = Q·R. `mode`: "reduced", "complete"
    (Q is square) or "r" (Q is empty; no gradient). The gradient of a complete Q with more rows than
    columns is not defined."""
    matrices("linalg.qr", A=A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    rows, columns = A.shape[-2:]
    if rows < columns:  # Q and the first columns of R are those of the first columns of A
        q, first = QR(A[..., :rows], complete=False)
        r = cat([first, mm(mH(q), A[..., rows:])], -1)
    else:
        q, r = QR(A, complete=mode == "complete" and rows > columns)
    if mode == "r":
        q = A.new_zeros(0)
    return stored(return_types.linalg_qr(q, r), out)


@public(method=True, autocast="float32")
def geqrf(input: Tensor, *, out: Any = None) -> Any:
    """LAPACK's form of QR: R above the diagonal, the Householder vectors below, and their scales.
    Backward through it raises RuntimeError."""
    matrices("geqrf", input=input)
    return stored(return_types.geqrf(*GEQRF(input)), out)


def _reflected(name: str, A: Tensor, tau: Tensor, x: Tensor, backwards: bool) -> Tensor:
    """The product of I - tauᵢ·vᵢ·vᵢᴴ for all i with x; vᵢ is column i of A below a 1."""
    matrices(name, input=A)
    floats(name, input=A, tau=tau, other=x)
    if tau.shape[-1] > A.shape[-1]:
        raise misfit(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if tau.shape[-1] > A.shape[-2]:
        raise misfit(f"{name}: input.shape[-2] must be greater than or equal to tau.shape[-1]")
    steps = range(tau.shape[-1])
    vectors = tril(A, -1) + eye(A.shape[-2], A.shape[-1], dtype=A.dtype)
    scales = tau if backwards else conj(tau)
    for i in reversed(steps) if backwards else steps:
        v = vectors[..., i : i + 1]
        x = x - scales[..., i, None, None] * mm(v, mm(mH(v), x))
    return x


@public(at="", also="orgqr", method="orgqr", autocast="float32")
def householder_product(A: Tensor, tau: Tensor, *, out: Any = None) -> Tensor:
    """The first columns of the product of the reflections that `geqrf` gives."""
    matrices("linalg.householder_product", input=A)
    rows, columns = A.shape[-2:]
    if rows < columns:
        raise misfit(
            "linalg.householder_product: input.shape[-2] must be greater than or equal to "
            "input.shape[-1]"
        )
    shape = (*A._sizes[:-2], rows, columns)
    x = expand(eye(rows, columns, dtype=A.dtype), shape)
    x = x if tau.shape[-1] else attached(x, A)  # connected, as where there are reflections
    return stored(_reflected("linalg.householder_product", A, tau, x, backwards=True), out)


@public(method=True, autocast="float32")
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False, *,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """Q·other for the whole Q of the reflections that `geqrf` gives, Qᵀ·other with `transpose`; the
    products from the right with `left=False`."""
    if left:
        return stored(_reflected("ormqr", input, tau, other, not transpose), out)
    return stored(mH(_reflected("ormqr", input, tau, mH(other), transpose)), out)


# -- LU ------------------------------------------------------------------------------------------


def split(both: Tensor) -> tuple[Tensor, Tensor]:
    """L with a unit diagonal, and U, out of one array."""
    rows, columns = both.shape[-2:]
    count = min(rows, columns)
    lower = tril(both, -1)[..., :count] + eye(rows, count, dtype=both.dtype)
    return lower, triu(both)[..., :count, :]


def permutation(pivots: Tensor, rows: int, dtype: Any) -> Tensor:
    """P of A = P·L·U from the rows swapped."""
    return PERMUTATION(pivots, rows=rows).to(dtype)


def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """L and U of A = P·L·U in one array, and the rows swapped at each step, counted from 1. A zero
    on U's diagonal is no error."""
    matrices("linalg.lu_factor", A=A)
    return stored(return_types.linalg_lu_factor(*LU(A, pivot=pivot)[:2]), out)


def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None
) -> Any:
    """`lu_factor` with the info of each matrix: 0, or the first zero on U's diagonal, from 1."""
    matrices("linalg.lu_factor_ex", A=A)
    both, pivots, info = LU(A, pivot=pivot)
    if check_errors:
        text = "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero."
        both = successful("linalg.lu_factor_ex", info, text, both)
    return stored(return_types.linalg_lu_factor_ex(both, pivots, info), out)


def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """P, L and U with A = P·L·U; without `pivot` P is empty."""
    matrices("linalg.lu", A=A)
    both, pivots, _ = LU(A, pivot=pivot)
    lower, upper = split(both)
    rows = A.shape[-2]
    p = permutation(pivots, rows, A.dtype) if pivot else A.new_zeros(0)
    return stored(return_types.linalg_lu(p, lower, upper), out)


@public()
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """P, L and U of what `lu_factor` gives; what is not asked for is empty."""
    none = LU_data.new_zeros(0)
    lower, upper = split(LU_data) if unpack_data else (none, none)
    p = permutation(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else none
    return stored(return_types.lu_unpack(p, lower, upper), out)


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """X with A·X = B (X·A = B with `left=False`; Aᵀ for A with `adjoint`), for A given by what
    `lu_factor` gives."""
    name = "linalg.lu_solve"
    square(name, A=LU)
    matrices(name, A=LU, B=B)
    b = B if left else mT(B)
    check_rows(name, LU, b)
    p = permutation(pivots, LU.shape[-1], LU.dtype)
    if adjoint is left:  # A from the right, or Aᵀ from the left: Uᵀ·Lᵀ·Pᵀ·X = B
        factors, b = batches(LU, b)
        transposed = mH(factors) if adjoint else mT(factors)
        y = TRIANGULAR(transposed, b, upper=False, unitriangular=False)
        x = mm(p, TRIANGULAR(transposed, y, upper=True, unitriangular=True))
    else:
        factors, b = batches(conj(LU) if adjoint else LU, mm(mT(p), b))
        y = TRIANGULAR(factors, b, upper=False, unitriangular=True)
        x = TRIANGULAR(factors, y, upper=True, unitriangular=False)
    return stored(contiguous(x if left else mT(x)), out)
