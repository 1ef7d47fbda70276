"""The functions of lapack on matrices of complex numbers: pairs of reals along a last axis of 2, as
complex_numbers has them. Each is the same function of NumPy, on the same memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops.complex_numbers import as_pairs, from_pairs, stored_type
from graphc.ops.kinds.host import Host, HostFunction
from graphc.ops.kinds.op import Types
from graphc.ops.linear_algebra import lapack, matrix_kernels

Array = np.ndarray[Any, Any]


def _complex_type(pairs: TensorType) -> TensorType:
    if pairs.dtype not in (DType.f32, DType.f64):
        raise DTypeError(f"pairs are of f32 or f64, not {pairs.dtype}")
    if not pairs.rank or pairs.shape[-1] != 2:
        raise ShapeError(f"{pairs} holds no pairs: its last axis is not 2")
    return TensorType(DType.c128 if pairs.dtype is DType.f64 else DType.c64, pairs.shape[:-1])


def _of_pairs(
    name: str, function: Callable[..., Any], types: Callable[..., Any], real: tuple[int, ...],
    samples: Any,
) -> Host:  # fmt: skip
    """A function of complex arrays and its types as an op of pairs; the operands at the positions
    `real` hold none."""

    @functools.wraps(function)
    def of_pairs(*arrays: Array, **attributes: Any) -> Any:
        taken = [
            array if i in real else from_pairs(np.ascontiguousarray(array))
            for i, array in enumerate(arrays)
        ]
        results = function(*taken, **attributes)
        return tuple(map(as_pairs, results)) if isinstance(results, tuple) else as_pairs(results)

    def types_of_pairs(*operands: TensorType, **attributes: Any) -> Types:
        results = types(
            *[t if i in real else _complex_type(t) for i, t in enumerate(operands)], **attributes
        )
        return tuple(map(stored_type, results if isinstance(results, tuple) else (results,)))

    return Host(name, of_pairs, types_of_pairs, samples=samples)


# -- samples -------------------------------------------------------------------------------------


def _numbers(m: Any, *shape: int) -> Array:
    return np.asarray(m.normal(*shape) + 1j * m.normal(*shape))


def _square(m: Any, size: int = 3) -> Array:
    return _numbers(m, size, size) + 3 * np.eye(size)


def _definite(m: Any) -> Array:
    a = _numbers(m, 3, 3)
    return np.asarray(a @ a.conj().T + np.eye(3))


def _drawn(*attributes: dict[str, Any], draw: Callable[[Any], Any] = _square) -> Any:
    """Samples of one matrix, a batch of two and an empty batch, with each of the attributes."""

    def samples(m: Any) -> Any:
        for each in attributes or ({},):
            a = draw(m)
            yield m(as_pairs(a), **each)
            yield m(as_pairs(np.stack([a, 2 * a])), **each)
            yield m(np.zeros((0, *a.shape, 2)), **each)

    return samples


def _systems(*attributes: dict[str, Any]) -> Any:
    def samples(m: Any) -> Any:
        for each in attributes or ({},):
            a = _square(m)
            yield m(as_pairs(a), as_pairs(_numbers(m, 3, 2)), **each)
            yield m(as_pairs(np.stack([a, a.T])), as_pairs(_numbers(m, 2, 3, 1)), **each)

    return samples


def _pseudo_inverses(m: Any) -> Any:
    for a, hermitian in ((_numbers(m, 3, 2), False), (_definite(m), True)):
        yield m(as_pairs(a), np.zeros(1), np.full(1, 1e-6), hermitian=hermitian)


def _indefinite(m: Any) -> Any:
    symmetric, hermitian = _square(m), _definite(m)
    for a, kind in ((symmetric + symmetric.T, False), (hermitian, True)):
        yield m(as_pairs(a), np.arange(1, 4), as_pairs(_numbers(m, 3, 2)), hermitian=kind)


def _wide(m: Any) -> Array:
    return _numbers(m, 2, 3)


_BOTH = ({"hermitian": False}, {"hermitian": True})
_HALVES = ({"upper": False}, {"upper": True})
_TRIANGLES = tuple({**half, "unitriangular": False} for half in _HALVES)

_SAMPLES: dict[Host, tuple[Any, tuple[int, ...]]] = {
    lapack.solve: (_systems(), ()),
    lapack.inv: (_drawn(), ()),
    lapack.triangular_solve: (_systems(*_TRIANGLES), ()),
    lapack.det: (_drawn(), ()),
    lapack.slogdet: (_drawn(), ()),
    lapack.cholesky: (_drawn(*_HALVES, draw=_definite), ()),
    lapack.lu: (_drawn(draw=_wide), ()),
    lapack.qr: (_drawn({"complete": False}, {"complete": True}, draw=_wide), ()),
    lapack.geqrf: (_drawn(draw=_wide), ()),
    lapack.ldl_factor: (_drawn(*_BOTH, draw=_definite), ()),
    lapack.ldl_solve: (_indefinite, (1,)),
    lapack.svd: (_drawn({"full_matrices": False}, {"full_matrices": True}, draw=_wide), ()),
    lapack.eigh: (_drawn({"UPLO": "L"}, {"UPLO": "U"}, draw=_definite), ()),
    lapack.pinv: (_pseudo_inverses, (1, 2)),
    lapack.matrix_exp: (_drawn(), ()),
}
"""Of each op its samples, and which of its operands are real."""

ON_PAIRS: dict[Host, Host] = {
    op: _of_pairs(f"complex_{op.name}", op.function, op.types, real, samples)
    for op, (samples, real) in _SAMPLES.items()
}
"""By op of real matrices, that of pairs with the same attributes."""

# -- eigenvalues of any matrix, complex of real ones too ------------------------------------------


def _eig(a: Array) -> tuple[Array, ...]:
    """The values and the vectors, and 1 where LAPACK found none."""
    kind = np.result_type(a.dtype, np.complex64)
    try:
        values, vectors = np.linalg.eig(a)
        return values.astype(kind), vectors.astype(kind), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        pass
    results = [(a.shape[-1:], kind), (a.shape[-2:], kind)]
    parts, failed = matrix_kernels.each(lambda x: tuple(np.linalg.eig(x)), (a,), results)
    return (*parts, failed.astype(np.int32))


def _eig_types(a: TensorType) -> Types:
    vectors, _ = lapack.inv.infer((a,), {})
    kind = DType.c64 if a.dtype.computes_as is DType.f32 else DType.c128
    values = TensorType(kind, a.shape[:-1])
    return values, vectors.with_dtype(kind), TensorType(DType.i32, a.shape[:-2])


def _real_matrices(m: Any) -> Any:
    yield m(m.normal(3, 3))
    yield m(m.normal(2, 2, 2))


_EIG_OF_REALS = _of_pairs("linalg_eig", _eig, _eig_types, (0,), _real_matrices)
_EIG_OF_PAIRS = _of_pairs("complex_linalg_eig", _eig, _eig_types, (), _drawn())

eig = HostFunction(
    "linalg_eig", _eig, _eig_types,
    lambda a: _EIG_OF_PAIRS if a.dtype.is_complex else _EIG_OF_REALS,
)  # fmt: skip
