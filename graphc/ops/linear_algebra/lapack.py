"""Functions of matrices that NumPy's LAPACK computes, or loops over the columns in NumPy where it
has none. Matrices lie in the last two axes. Where LAPACK fails, results are NaN, and `info` (i32,
by matrix) is not 0; `check_success` makes an error of that."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from graphc.errors import DTypeError, IndexRangeError, LinAlgError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.host import Host
from graphc.ops.kinds.op import ContentCheck, Types
from graphc.ops.linear_algebra import matrix_kernels as kernels
from graphc.ops.linear_algebra import symmetric_indefinite

Array = np.ndarray[Any, Any]

# -- types ---------------------------------------------------------------------------------------


def _matrix(a: TensorType) -> tuple[tuple[int, ...], int, int]:
    """(the batch, rows, columns). Raises DTypeError, ShapeError."""
    if a.dtype not in (DType.f32, DType.f64, DType.c64, DType.c128):
        raise DTypeError(f"matrices are of f32 or f64, not {a.dtype}")
    if a.rank < 2:
        raise ShapeError(f"matrices have two axes or more, not {a}")
    *lead, rows, columns = a.shape
    return tuple(lead), rows, columns


def _square(a: TensorType) -> tuple[tuple[int, ...], int]:
    lead, rows, columns = _matrix(a)
    if rows != columns:
        raise ShapeError(f"square matrices wanted, not {a}")
    return lead, rows


def _system(a: TensorType, b: TensorType) -> tuple[int, ...]:
    """The batch of a system a·x = b."""
    lead, rows = _square(a)
    if _matrix(b)[:2] != (lead, rows) or a.dtype is not b.dtype:
        raise ShapeError(f"a system of {a} and {b}")
    return lead


def _info(lead: tuple[int, ...]) -> TensorType:
    return TensorType(DType.i32, lead)


def _real(a: TensorType) -> DType:
    """The dtype of the sizes of a matrix's numbers."""
    return a.dtype.computes_as


# -- systems -------------------------------------------------------------------------------------


def _pivot_info(a: Array, failed: Array) -> Array:
    """Where elimination failed, its first step with a pivot of 0, counted from 1."""
    step = np.maximum(kernels.lu(a)[2], 1)
    return np.where(failed, step, 0).astype(np.int32)


def _solve(a: Array, b: Array) -> tuple[Array, Array]:
    try:
        return np.linalg.solve(a, b), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        (x,), failed = kernels.each(np.linalg.solve, (a, b), [(b.shape[-2:], b.dtype)])
        return x, _pivot_info(a, failed)


def _inv(a: Array) -> tuple[Array, Array]:
    try:
        return np.linalg.inv(a), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        (x,), failed = kernels.each(np.linalg.inv, (a,), [(a.shape[-2:], a.dtype)])
        return x, _pivot_info(a, failed)


def _slogdet(a: Array) -> tuple[Array, Array]:
    sign, logarithm = np.linalg.slogdet(a)
    return np.asarray(sign), np.asarray(logarithm)


def _systems(m: Any) -> Any:
    a = m.normal(3, 3) + 3 * np.eye(3)
    yield m(a, m.normal(3, 2))
    yield m(np.stack([a, a.T]), m.normal(2, 3, 1))
    yield m(np.zeros((0, 2, 2)), np.zeros((0, 2, 1)))


def _squares(m: Any) -> Any:
    a = m.normal(3, 3) + 3 * np.eye(3)
    yield m(a)
    yield m(np.stack([a, a.T]))
    yield m(np.zeros((0, 2, 2)))


solve = Host("linalg_solve", _solve, lambda a, b: (b, _info(_system(a, b))), samples=_systems)
inv = Host("linalg_inv", _inv, lambda a: (a, _info(_square(a)[0])), samples=_squares)


def _triangular_types(a: TensorType, b: TensorType, **_: Any) -> TensorType:
    _system(a, b)
    return b


triangular_solve = Host(
    "linalg_triangular_solve", kernels.back_substitution, _triangular_types,
    samples=lambda m: (
        m(*sample.operands, upper=upper, unitriangular=False)
        for upper in (False, True) for sample in _systems(m)
    ),
)  # fmt: skip


def _det_type(a: TensorType) -> TensorType:
    return TensorType(a.dtype, _square(a)[0])


det = Host("linalg_det", lambda a: np.asarray(np.linalg.det(a)), _det_type, samples=_squares)
slogdet = Host(
    "linalg_slogdet", _slogdet,
    lambda a: (_det_type(a), TensorType(_real(a), _square(a)[0])), samples=_squares,
)  # fmt: skip

# -- factorizations ------------------------------------------------------------------------------


def _cholesky(a: Array, *, upper: bool) -> tuple[Array, Array]:
    try:
        return np.linalg.cholesky(a, upper=upper), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        pass

    def one(x: Array) -> Array:
        return np.linalg.cholesky(x, upper=upper)

    (factor,), failed = kernels.each(one, (a,), [(a.shape[-2:], a.dtype)])
    order = np.maximum(kernels.minors(a, upper), 1)
    return factor, np.where(failed, order, 0).astype(np.int32)


def _definite(m: Any) -> Any:
    a = m.normal(3, 3)
    a = a @ a.T + np.eye(3)
    for upper in (False, True):
        yield m(a, upper=upper)
    yield m(np.stack([a, 2 * a]), upper=False)
    yield m(np.zeros((0, 2, 2)), upper=False)


cholesky = Host(
    "linalg_cholesky", _cholesky, lambda a, *, upper: (a, _info(_square(a)[0])), samples=_definite
)


def _lu_types(a: TensorType, *, pivot: bool = True) -> Types:
    lead, rows, columns = _matrix(a)
    return a, TensorType(DType.i32, (*lead, min(rows, columns))), _info(lead)


def _rectangles(m: Any) -> Any:
    a = m.normal(3, 3) + 3 * np.eye(3)
    yield m(a)
    yield m(np.stack([a, a.T])[:, :, :2])
    yield m(np.zeros((0, 3, 2)))


lu = Host("linalg_lu", kernels.lu, _lu_types, samples=_rectangles)


def _permutation(pivots: Array, *, rows: int) -> Array:
    if pivots.size and not 1 <= pivots.min() <= pivots.max() <= rows:
        raise IndexRangeError(f"pivots from {pivots.min()} to {pivots.max()}: rows are 1 to {rows}")
    return kernels.permutation(pivots, rows) > 0


def _permutation_type(pivots: TensorType, *, rows: int) -> TensorType:
    if not pivots.dtype.is_integer or not pivots.rank:
        raise DTypeError(f"rows swapped are integers along an axis, not {pivots}")
    if pivots.shape[-1] > rows:
        raise ShapeError(f"{pivots} swaps more than {rows} rows")
    return TensorType(DType.bool, (*pivots.shape[:-1], rows, rows))


permutation = Host(
    "linalg_permutation", _permutation, _permutation_type,
    samples=lambda m: [m(np.array([[3, 2, 3], [1, 3, 3]]), rows=3)],
)  # fmt: skip


def _qr(a: Array, *, complete: bool) -> tuple[Array, Array]:
    q, r = np.linalg.qr(a, mode="complete" if complete else "reduced")
    return q, r


def _qr_types(a: TensorType, *, complete: bool) -> Types:
    lead, rows, columns = _matrix(a)
    inner = rows if complete else min(rows, columns)
    return TensorType(a.dtype, (*lead, rows, inner)), TensorType(a.dtype, (*lead, inner, columns))


def _geqrf(a: Array) -> tuple[Array, Array]:
    reflectors, scales = np.linalg.qr(a, mode="raw")
    return np.swapaxes(reflectors, -2, -1), scales


def _geqrf_types(a: TensorType) -> Types:
    lead, rows, columns = _matrix(a)
    return a, TensorType(a.dtype, (*lead, min(rows, columns)))


qr = Host(
    "linalg_qr", _qr, _qr_types,
    samples=lambda m: (
        m(*sample.operands, complete=complete)
        for complete in (False, True) for sample in _rectangles(m)
    ),
)  # fmt: skip
geqrf = Host("linalg_geqrf", _geqrf, _geqrf_types, samples=_rectangles)


def _symmetric(m: Any) -> Any:
    a = m.normal(4, 4)
    return a + a.T


ldl_factor = Host(
    "linalg_ldl_factor", symmetric_indefinite.factor,
    lambda a, *, hermitian: _lu_types(a), samples=lambda m: [m(_symmetric(m), hermitian=False)],
)  # fmt: skip


def _ldl_solve_types(
    a: TensorType, pivots: TensorType, b: TensorType, *, hermitian: bool
) -> TensorType:
    lead = _system(a, b)
    if pivots.shape != (*lead, a.shape[-1]) or not pivots.dtype.is_integer:
        raise ShapeError(f"rows exchanged {pivots} of factors {a}")
    return b


ldl_solve = Host(
    "linalg_ldl_solve", symmetric_indefinite.solve, _ldl_solve_types,
    samples=lambda m: [
        m(_symmetric(m) + 9 * np.eye(4), np.arange(1, 5), m.normal(4, 2), hermitian=False)
    ],
)  # fmt: skip

# -- singular values and eigenvalues -------------------------------------------------------------


def _svd(a: Array, *, full_matrices: bool) -> tuple[Array, ...]:
    try:
        u, s, vh = np.linalg.svd(a, full_matrices=full_matrices)
        return u, s, vh, np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        pass

    def one(x: Array) -> tuple[Array, ...]:
        return tuple(np.linalg.svd(x, full_matrices=full_matrices))

    rows, columns = a.shape[-2:]
    least = min(rows, columns)
    high, wide = (rows, columns) if full_matrices else (least, least)
    real = np.empty(0, a.dtype).real.dtype
    results = [((rows, high), a.dtype), ((least,), real), ((wide, columns), a.dtype)]
    parts, failed = kernels.each(one, (a,), results)
    return (*parts, failed.astype(np.int32))


def _svd_types(a: TensorType, *, full_matrices: bool) -> Types:
    lead, rows, columns = _matrix(a)
    least = min(rows, columns)
    high, wide = (rows, columns) if full_matrices else (least, least)
    u, s = TensorType(a.dtype, (*lead, rows, high)), TensorType(_real(a), (*lead, least))
    return u, s, TensorType(a.dtype, (*lead, wide, columns)), _info(lead)


def _half(UPLO: str) -> Literal["L", "U"]:
    return "L" if UPLO == "L" else "U"


def _eigh(a: Array, *, UPLO: str) -> tuple[Array, ...]:
    try:
        values, vectors = np.linalg.eigh(a, _half(UPLO))
        return values, vectors, np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        pass

    def one(x: Array) -> tuple[Array, ...]:
        return tuple(np.linalg.eigh(x, _half(UPLO)))

    real = np.empty(0, a.dtype).real.dtype
    results = [(a.shape[-1:], real), (a.shape[-2:], a.dtype)]
    parts, failed = kernels.each(one, (a,), results)
    return (*parts, failed.astype(np.int32))


def _eigh_types(a: TensorType, *, UPLO: str) -> Types:
    lead, size = _square(a)
    return TensorType(_real(a), (*lead, size)), a, _info(lead)


svd = Host(
    "linalg_svd", _svd, _svd_types,
    samples=lambda m: (
        m(*sample.operands, full_matrices=full)
        for full in (False, True) for sample in _rectangles(m)
    ),
)  # fmt: skip
eigh = Host(
    "linalg_eigh", _eigh, _eigh_types,
    samples=lambda m: [
        m(_symmetric(m), UPLO="L"), m(_symmetric(m), UPLO="U"), m(np.zeros((0, 2, 2)), UPLO="L")
    ],
)  # fmt: skip


def _pinv(a: Array, atol: Array, rtol: Array, *, hermitian: bool) -> tuple[Array, Array]:
    if hermitian:
        s, u, info = _eigh(a, UPLO="L")
        vh = np.swapaxes(u, -2, -1).conj()
    else:
        u, s, vh, info = _svd(a, full_matrices=False)
    greatest = np.abs(s).max(axis=-1, keepdims=True, initial=0)
    kept = np.abs(s) > np.maximum(atol, rtol * greatest)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(a.dtype)
    inverse = np.where(info[..., None] != 0, np.nan, inverse).astype(a.dtype)
    transposed = np.swapaxes(u, -2, -1).conj()
    return np.swapaxes(vh, -2, -1).conj() @ (inverse[..., None] * transposed), info


def _pinv_types(a: TensorType, atol: TensorType, rtol: TensorType, *, hermitian: bool) -> Types:
    lead, rows, columns = _matrix(a)
    for bound in (atol, rtol):
        fits = bound.rank <= len(lead) + 1 and np.broadcast_shapes(bound.shape, (*lead, 1))
        if bound.dtype is not _real(a) or fits != (*lead, 1):
            raise ShapeError(f"a tolerance {bound} of {a}")
    return TensorType(a.dtype, (*lead, columns, rows)), _info(lead)


pinv = Host(
    "linalg_pinv", _pinv, _pinv_types,
    samples=lambda m: (
        m(*sample.operands, np.zeros(1), np.full(1, 1e-6), hermitian=False)
        for sample in _rectangles(m)
    ),
)  # fmt: skip

# -- exponentials --------------------------------------------------------------------------------

TERMS = {4: 9, 8: 15}
"""Terms of the exponential's series at a norm of 1/2 until they are below the last bit, by the
bytes of a real number."""


def _matrix_exp(a: Array) -> Array:
    """Of a / 2ˢ by its series, with s such that no norm is above 1/2, then squared s times."""
    if not a.size:
        return a.copy()
    greatest = float(np.abs(a).sum(axis=-2).max())
    greatest = greatest if np.isfinite(greatest) else 1.0
    squarings = max(0, int(np.ceil(np.log2(greatest))) + 1) if greatest else 0
    scaled = (a * 0.5**squarings).astype(a.dtype)
    identity = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    result: Array = identity
    for term in range(TERMS[a.real.dtype.itemsize], 0, -1):
        result = identity + (scaled @ result) / a.dtype.type(term)
    for _ in range(squarings):
        result = result @ result
    return result


def _same_square(a: TensorType) -> TensorType:
    _square(a)
    return a


matrix_exp = Host("linalg_matrix_exp", _matrix_exp, _same_square, samples=_squares)

# -- errors --------------------------------------------------------------------------------------


check_success = Elementwise(
    "check_success",
    # Where `fine` is false the run stops: LAPACK's info was not 0.
    lambda s, fine, x, *, message: x,
    predicate=True,
    dtypes=(DType.f32, DType.f64, DType.i32),
    checks=lambda types, *, message: (ContentCheck(0, None, message, LinAlgError),),
    vjp=lambda g, out, fine, x, *, message: (None, g),
    samples=lambda m: [m(m.bools(2, 3) | True, m.normal(2, 3), message="it is singular")],
)
