"""Named tuples of functions with several results, printed as PyTorch's; users find them in
`frontend.return_types`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def _declared(name: str, *fields: str) -> Any:
    base = namedtuple(name, fields)  # type: ignore[misc]

    def text(self: Any) -> str:
        parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
        return f"torch.return_types.{name}(\n{parts})"

    module = "frontend.return_types"  # where pickles look for them
    return type(name, (base,), {"__repr__": text, "__slots__": (), "__module__": module})


aminmax = _declared("aminmax", "min", "max")
cummax = _declared("cummax", "values", "indices")
cummin = _declared("cummin", "values", "indices")
kthvalue = _declared("kthvalue", "values", "indices")
max = _declared("max", "values", "indices")
median = _declared("median", "values", "indices")
min = _declared("min", "values", "indices")
mode = _declared("mode", "values", "indices")
nanmedian = _declared("nanmedian", "values", "indices")
sort = _declared("sort", "values", "indices")
topk = _declared("topk", "values", "indices")

geqrf = _declared("geqrf", "a", "tau")
_lu_with_info = _declared("_lu_with_info", "LU", "pivots", "info")
linalg_cholesky_ex = _declared("linalg_cholesky_ex", "L", "info")
linalg_eig = _declared("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = _declared("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_inv_ex = _declared("linalg_inv_ex", "inverse", "info")
linalg_lstsq = _declared("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_lu = _declared("linalg_lu", "P", "L", "U")
linalg_ldl_factor = _declared("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = _declared("linalg_ldl_factor_ex", "LD", "pivots", "info")
linalg_lu_factor = _declared("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _declared("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_qr = _declared("linalg_qr", "Q", "R")
linalg_slogdet = _declared("linalg_slogdet", "sign", "logabsdet")
linalg_solve_ex = _declared("linalg_solve_ex", "result", "info")
linalg_svd = _declared("linalg_svd", "U", "S", "Vh")
lu_unpack = _declared("lu_unpack", "P", "L", "U")
qr = _declared("qr", "Q", "R")
svd = _declared("svd", "U", "S", "V")
triangular_solve = _declared("triangular_solve", "solution", "cloned_coefficient")
histogram = _declared("histogram", "hist", "bin_edges")
histogramdd = _declared("histogramdd", "hist", "bin_edges")
frexp = _declared("frexp", "mantissa", "exponent")
