"""`frontend.linalg`: products, powers and norms of matrices and vectors. Inverses, determinants and
decompositions are planned."""

from frontend.functions.linalg import linalg_cross as cross
from frontend.functions.linalg import (
    matrix_norm,
    matrix_power,
    multi_dot,
    norm,
    vecdot,
    vector_norm,
)
from frontend.functions.matrix import matmul

__all__ = [
    "cross", "matmul", "matrix_norm", "matrix_power", "multi_dot", "norm", "vecdot", "vector_norm",
]  # fmt: skip
