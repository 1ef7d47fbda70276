"""Names that PyTorch had before `torch.linalg`: other orders of arguments and of results, and those
it removed, which say what to call instead."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions import linalg, return_types
from frontend.functions.arguments import stored
from frontend.functions.declarations import public
from frontend.functions.linear_algebra.checks import batches, matrices, mH, mT, square
from frontend.functions.linear_algebra.factorizations import (
    cholesky as _cholesky,
)
from frontend.functions.linear_algebra.factorizations import lu_factor, lu_factor_ex
from frontend.functions.linear_algebra.factorizations import lu_solve as _lu_solve
from frontend.functions.linear_algebra.factorizations import qr as _qr
from frontend.functions.linear_algebra.solving import TRIANGULAR
from frontend.functions.linear_algebra.spectra import pinv
from frontend.functions.linear_algebra.spectra import svd as _svd


@public(method=True, autocast="float32")
def cholesky(input: Tensor, upper: bool = False, *, out: Any = None) -> Tensor:
    """`linalg.cholesky`."""
    return _cholesky(input, upper=upper, out=out)


@public(method=True, autocast="float32")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with a relative tolerance of `rcond`."""
    return pinv(input, rcond)


@public(method=True, autocast="float32")
def qr(input: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """`linalg.qr`, complete without `some`."""
    return stored(return_types.qr(*_qr(input, "reduced" if some else "complete")), out)


@public(method=True, autocast="float32")
def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """U, S and V (not its transpose) with input = U·diag(S)·Vᴴ; full matrices without `some`. U and
    V are zeros without `compute_uv`."""
    matrices("linalg.svd", A=input)
    if not compute_uv:
        rows, columns = input.shape[-2:]
        lead = input._sizes[:-2]
        values = _svd(input, False)[1]
        u, v = (input.new_zeros((*lead, size, size)) for size in (rows, columns))
        return stored(return_types.svd(u, values, v), out)
    u, values, vh = _svd(input, not some)
    return stored(return_types.svd(u, values, mH(vh)), out)


@public(method=True, autocast="float32")
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False, *, out: Any = None,
) -> Any:  # fmt: skip
    """X with A·X = input (Aᵀ·X with `transpose`) for triangular A; with it a copy of A."""
    square("triangular_solve", A=A)
    matrices("triangular_solve", b=input, A=A)
    a, b = batches(A, input)
    source = mT(a) if transpose else a
    x = TRIANGULAR(source, b, upper=upper is not transpose, unitriangular=unitriangular)
    return stored(return_types.triangular_solve(x, a.clone()), out)


@public(method=True, autocast="float32")
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """`linalg.lu_factor`, with the info of each matrix where asked for."""
    if get_infos:
        return stored(return_types._lu_with_info(*lu_factor_ex(A, pivot=pivot)), out)
    return stored(tuple(lu_factor(A, pivot=pivot)), out)


@public(method=True, autocast="float32")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Any = None) -> Tensor:
    """`linalg.lu_solve` with the right-hand side first."""
    return _lu_solve(LU_data, LU_pivots, b, out=out)


@public()
def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """The square root of the sum of squares over `dim`."""
    dims = dim if dim is None or isinstance(dim, int) or len(dim) else None
    return linalg.vector_norm(input, 2, dims, keepdim, out=out)


@public()
def nuclear_norm(
    input: Tensor, dim: Any = (-2, -1), keepdim: bool = False, *, out: Any = None
) -> Tensor:
    """The sum of the singular values."""
    return linalg.matrix_norm(input, "nuc", dim, keepdim, out=out)


def _removed(name: str, instead: str) -> Any:
    def function(*arguments: Any, **keywords: Any) -> Any:
        raise RuntimeError(
            f"This function was deprecated since version 1.9 and is now removed. `torch.{name}` is "
            f"deprecated in favor of `torch.linalg.{instead}`. Please use the "
            f"`torch.linalg.{instead}` function instead."
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed from PyTorch: raises RuntimeError. Call `linalg.{instead}`."
    return function


eig = public(method=True)(_removed("eig", "eig"))
lstsq = public(method=True)(_removed("lstsq", "lstsq"))
matrix_rank = public()(_removed("matrix_rank", "matrix_rank"))
solve = public(method=True)(_removed("solve", "solve"))
symeig = public(method=True)(_removed("symeig", "eigh"))
