"""Systems with symmetric or Hermitian matrices that need not be definite."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.uncompiled import conj
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import return_types
from frontend.functions.arguments import stored
from frontend.functions.layout import expand
from frontend.functions.linear_algebra.checks import batches, matrices, misfit, square, successful
from graphc.ops.linear_algebra import lapack as ops


def _no_rule(*arguments: Any, **attributes: Any) -> tuple[Any, ...]:
    raise NotImplementedError("the derivative for 'linalg.ldl_factor' is not implemented.")


def _solve_rule(
    g: Any, x: Any, a: Any, pivots: Any, b: Any, *, hermitian: bool
) -> tuple[Any, Any, Any]:
    return None, None, SOLVE(a if hermitian else conj(a), pivots, g, hermitian=hermitian)


FACTOR = HostOp("linalg.ldl_factor_ex", ops.ldl_factor, _no_rule)
SOLVE = HostOp("linalg.ldl_solve", ops.ldl_solve, _solve_rule, ((0, 1), ()))


def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """`ldl_factor` with the info of each matrix: 0, or the first zero block of D, from 1."""
    square("linalg.ldl_factor_ex", A=A)
    both, pivots, info = FACTOR(A, hermitian=hermitian and A.is_complex())
    if check_errors:
        text = "The factorization has been completed, but D[{0},{0}] is zero."
        both = successful("linalg.ldl_factor_ex", info, text, both)
    return stored(return_types.linalg_ldl_factor_ex(both, pivots, info), out)


def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """L and D of symmetric matrices (with `hermitian`, of Hermitian ones) in one lower triangle,
    and the rows exchanged, as LAPACK's `sytrf` and `hetrf`; of A the lower triangle is read. No
    gradient."""
    square("linalg.ldl_factor", A=A)
    both, pivots, _ = ldl_factor_ex(A, hermitian=hermitian)
    return stored(return_types.linalg_ldl_factor(both, pivots), out)


def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Any = None
) -> Tensor:
    """X with A·X = B, for A given by what `ldl_factor` gives. Its gradient is that of B."""
    name = "linalg.ldl_solve"
    square(name, LD=LD)
    matrices(name, LD=LD, B=B)
    if pivots.dtype.is_float or tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise misfit(f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same")
    if LD.shape[-2] != B.shape[-2]:
        raise misfit(f"{name}: Incompatible shapes of LD and B: {list(LD.shape)} and "
                     f"{list(B.shape)}")  # fmt: skip
    a, b = batches(LD, B)
    rows = expand(pivots, tuple(a.shape[:-1])).contiguous()
    hermitian = hermitian and LD.is_complex()
    return stored(SOLVE(a, rows, b, hermitian=hermitian), out)
