"""`frontend.linalg`: products, norms, systems, determinants, factorizations and spectra of batches
of matrices. What calls LAPACK runs eagerly; in a trace it raises TraceError."""

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.linalg import linalg_cross as cross
from frontend.functions.linalg import (
    matrix_norm,
    matrix_power,
    multi_dot,
    norm,
    vecdot,
    vector_norm,
)
from frontend.functions.linear_algebra.checks import LinAlgError
from frontend.functions.linear_algebra.eigen import eig, eigvals
from frontend.functions.linear_algebra.factorizations import (
    cholesky,
    cholesky_ex,
    householder_product,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    qr,
)
from frontend.functions.linear_algebra.functions_of_matrices import cond, matrix_exp
from frontend.functions.linear_algebra.functions_of_matrices import linalg_vander as vander
from frontend.functions.linear_algebra.solving import (
    det,
    inv,
    inv_ex,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from frontend.functions.linear_algebra.spectra import (
    eigh,
    eigvalsh,
    lstsq,
    matrix_rank,
    pinv,
    svd,
    svdvals,
)
from frontend.functions.linear_algebra.symmetric_indefinite import (
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
)
from frontend.functions.matrix import matmul
from frontend.functions.select import diagonal as _diagonal

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex",
    "ldl_solve", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet",
    "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander",
    "vecdot", "vector_norm",
]  # fmt: skip


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices, as a view."""
    return _diagonal(A, offset, dim1, dim2)
