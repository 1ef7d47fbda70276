"""Systems of linear equations, inverses and determinants."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.uncompiled import conj, imaginary
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import own
from frontend.functions import pointwise, return_types
from frontend.functions.arguments import stored, takes_out
from frontend.functions.declarations import public
from frontend.functions.layout import expand
from frontend.functions.linear_algebra.checks import (
    batches,
    is_vector,
    matrices,
    mH,
    misfit,
    mm,
    mT,
    square,
    successful,
)
from frontend.functions.linear_algebra.spectra import svd
from frontend.functions.ranges import eye
from frontend.functions.reduce import prod
from frontend.functions.select import diag_embed, tril, triu
from graphc.ops.linear_algebra import lapack as ops

# -- ops -----------------------------------------------------------------------------------------


def _solve_rule(g: Any, out: Any, a: Any, b: Any) -> tuple[Any, Any]:
    to_b = SOLVE(mH(a), g[0])[0]
    return -mm(to_b, mH(out[0])), to_b


def _inverse_rule(g: Any, out: Any, a: Any) -> tuple[Any]:
    x = out[0]
    return (-mm(mH(x), mm(g[0], mH(x))),)


def _triangular_rule(
    g: Any, x: Any, a: Any, b: Any, *, upper: bool, unitriangular: bool
) -> tuple[Any, Any]:
    to_b = TRIANGULAR(mH(a), g, upper=not upper, unitriangular=unitriangular)
    triangle = triu if upper else tril
    offset = int(unitriangular) * (1 if upper else -1)
    return -triangle(mm(to_b, mH(x)), offset), to_b


def _det_rule(g: Any, out: Any, a: Any) -> tuple[Any]:
    """The gradient is the cofactors: det(a)·a⁻ᵀ, or, for singular matrices, by the SVD, where each
    singular value has the product of the others as its derivative."""
    regular = out != 0
    safe = pointwise.where(regular[..., None, None], a, unit(a, a.shape[-1]))
    usual = conj(out)[..., None, None] * mH(INVERSE(safe)[0])
    if STATE.mode is None and not a.is_meta and regular._array("det").all():
        return (g[..., None, None] * usual,)
    u, s, vh = svd(a)
    count = s.shape[-1]
    others = pointwise.where(eye(count, dtype=s.dtype) > 0, 1.0, s[..., None, :])
    cofactors = diag_embed(prod(others, -1)) * conj(DET(u) * DET(vh))[..., None, None]
    by_svd = mm(u, mm(cofactors, vh))
    return (g[..., None, None] * pointwise.where(regular[..., None, None], usual, by_svd),)


def _slogdet_rule(g: Any, out: Any, a: Any) -> tuple[Any]:
    """d log |det A| = Re t and d sign = sign · i · Im t, with t the trace of A⁻¹·dA."""
    to_sign, to_log = g
    weight = to_log
    if to_sign is not None and a.dtype.is_complex:
        rotation = imaginary(conj(to_sign) * out[0]) * -1j
        weight = rotation if weight is None else weight + rotation
    return (None if weight is None else weight[..., None, None] * mH(inv(a)),)


SOLVE = HostOp("linalg.solve", ops.solve, _solve_rule, ((0,), (0,)))
INVERSE = HostOp("linalg.inv", ops.inv, _inverse_rule, ((), (0,)))
TRIANGULAR = HostOp("linalg.solve_triangular", ops.triangular_solve, _triangular_rule, ((0,), (0,)))
DET = HostOp("linalg.det", ops.det, _det_rule, ((0,), (0,)))
SLOGDET = HostOp("linalg.slogdet", ops.slogdet, _slogdet_rule, ((0,), (0,)))

SINGULAR = "The solver failed because the input matrix is singular."
NO_INVERSE = (
    "The diagonal element {} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)

# -- systems -------------------------------------------------------------------------------------


@full_precision
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Any = None) -> Tensor:
    """X with A·X = B (X·A = B with `left=False`); batches broadcast, B may be a vector. Raises
    LinAlgError for a singular A."""
    return stored(_solved("linalg.solve", A, B, left, True)[0], out)


def _solved(name: str, A: Tensor, B: Tensor, left: bool, checked: bool) -> tuple[Tensor, Tensor]:
    square(name, A=A)
    matrices(name, A=A, B=B if B.dim() > 1 else B.unsqueeze(-1))
    vector = is_vector(A, B)
    if vector and not left:
        raise misfit(
            f"{name}: Vector broadcasting of the left hand side is not supported for left=False. "
            "In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    right = B.unsqueeze(-1) if vector else B
    a, b = (A, right) if left else (mT(A), mT(right))
    check_rows(name, a, b)
    a, b = batches(a, b)
    x, info = SOLVE(a, b)
    if checked:
        x = successful(name, info, SINGULAR, x)
    if vector:
        return own(x.squeeze(-1)), info
    return (x if left else mT(x)), info


def check_rows(name: str, a: Tensor, b: Tensor) -> None:
    """Raise ShapeError where a system's sides differ in their rows."""
    if a.shape[-2] != b.shape[-2]:
        raise misfit(
            f"{name}: Incompatible shapes of A and B for the equation AX = B "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )


@takes_out
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """`solve` with the info of each matrix: 0, or the first pivot of 0 in its elimination, counted
    from 1; then its solution is NaN."""
    name = "linalg.solve" if check_errors else "linalg.solve_ex"
    return return_types.linalg_solve_ex(*_solved(name, A, B, left, check_errors))


@public(at="", also="inverse", method="inverse", autocast="float32")
def inv(A: Tensor, *, out: Any = None) -> Tensor:
    """The inverses of square matrices. Raises LinAlgError for a singular one."""
    square("linalg.inv", A=A)
    inverse, info = INVERSE(A)
    return stored(successful("linalg.inv", info, NO_INVERSE, inverse), out)


@full_precision
@takes_out
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """`inv` with the info of each matrix, as `solve_ex`."""
    square("linalg.inv_ex", A=A)
    inverse, info = INVERSE(A)
    if check_errors:
        inverse = successful("linalg.inv", info, NO_INVERSE, inverse)
    return return_types.linalg_inv_ex(inverse, info)


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """X with A·X = B (X·A = B with `left=False`) for triangular A, whose other triangle, and with
    `unitriangular` the diagonal too, is not read."""
    name = "linalg.solve_triangular"
    square(name, A=A)
    matrices(name, A=A, B=B)
    a, b = (A, B) if left else (mT(A), mT(B))
    check_rows(name, a, b)
    x = TRIANGULAR(*batches(a, b), upper=upper is left, unitriangular=unitriangular)
    return stored(x if left else mT(x), out)


# -- determinants --------------------------------------------------------------------------------


@public(method=True)
def det(A: Tensor, *, out: Any = None) -> Tensor:
    """The determinants of square matrices."""
    square("linalg.det", A=A)
    return stored(DET(A), out)


@public(method=True)
def slogdet(A: Tensor, *, out: Any = None) -> Any:
    """The signs of the determinants (0 of singular matrices) and the logarithms of their
    magnitudes."""
    square("linalg.slogdet", A=A)
    return stored(return_types.linalg_slogdet(*SLOGDET(A)), out)


@public(method=True)
def logdet(input: Tensor) -> Tensor:
    """The logarithms of the determinants: -inf of singular matrices, of real negative ones NaN."""
    square("linalg.slogdet", A=input)
    sign, logarithm = SLOGDET(input)
    if input.is_complex():
        return pointwise.log(sign) + logarithm
    return pointwise.where(sign < 0, math.nan, logarithm)


# -- tensors as matrices -------------------------------------------------------------------------


@full_precision
def tensorinv(A: Tensor, ind: int = 2, *, out: Any = None) -> Tensor:
    """The inverse for `tensordot(…, ind)`: of the matrix of the first `ind` dimensions by the
    others."""
    if ind <= 0:
        raise misfit("Expected a strictly positive integer for 'ind'")
    shape = A._sizes
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise misfit(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    inverse = inv(A.reshape(rows, columns))
    return stored(inverse.reshape(*shape[ind:], *shape[:ind]), out)


@full_precision
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None, *, out: Any = None) -> Tensor:
    """X with tensordot(A, X, X.dim()) = B, after `dims` of A are moved to the end."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.dim() - len(dims), A.dim())))
    rest = A._sizes[B.dim() :]
    count = math.prod(rest)
    if A.numel() != count * count or B.numel() != count:
        raise misfit(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {count} != {B.numel()}"
        )
    return stored(solve(A.reshape(count, count), B.reshape(count)).reshape(rest), out)


def unit(like: Tensor, size: int) -> Tensor:
    """Identity matrices for the batch of `like`."""
    return expand(eye(size, dtype=like.dtype), (*like._sizes[:-2], size, size))
