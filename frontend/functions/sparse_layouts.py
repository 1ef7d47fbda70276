"""Sparse tensors from indices and values and from dense ones, and what dense ones say of their
layout. What sparse tensors are stands in `frontend.sparse`, which is imported when there is one."""

from __future__ import annotations

from typing import Any, NoReturn

from frontend.engine.tensors.dtypes import sparse_coo, sparse_csc, sparse_csr
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation_options import check_options
from frontend.functions.declarations import public
from graphc.system import import_module


def _room(name: str) -> Any:
    return import_module(f"frontend.sparse.{name}")


@public()
def sparse_coo_tensor(
    indices: Any, values: Any = None, size: Any = None, *more: Any, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None, is_coalesced: bool | None = None,
) -> Tensor:  # fmt: skip
    """A tensor with `values` [nnz, …] at `indices` [sparse dimensions, nnz], and 0 elsewhere;
    several at one place add up. Without `size` the least that holds them; `(size)` alone is one
    without elements. It shares memory with both, and the history of `values`.

    Raises RuntimeError for indices outside and sizes that do not fit."""
    check_options(device, None, pin_memory)
    if values is None:
        return _room("creation").empty(indices, dtype, requires_grad)
    return _room("creation").coo_tensor(indices, values, size, dtype, requires_grad, is_coalesced)


@public()
def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix by rows: those of `values` [nnz] and `col_indices` [nnz] from crow_indices[i] up to
    crow_indices[i + 1] are row i's, columns ascending. Raises RuntimeError where they are not."""
    check_options(device, None, pin_memory)
    return _room("creation").compressed_tensor(
        crow_indices, col_indices, values, size, dtype, requires_grad, False
    )


@public()
def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix by columns, as `sparse_csr_tensor` by rows."""
    check_options(device, None, pin_memory)
    return _room("creation").compressed_tensor(
        ccol_indices, row_indices, values, size, dtype, requires_grad, True
    )


@public()
def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    layout: Any = None, dtype: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """`sparse_csr_tensor` or `sparse_csc_tensor`, by `layout`."""
    if layout not in (sparse_csr, sparse_csc):
        raise NotImplementedError(f"the compressed layouts are CSR and CSC, not {layout}")
    check_options(device, None, pin_memory)
    return _room("creation").compressed_tensor(
        compressed_indices, plain_indices, values, size, dtype, requires_grad,
        layout is sparse_csc,
    )  # fmt: skip


@public(method=True)
def to_sparse(
    input: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """The elements that are not 0, as a sparse tensor: coalesced COO, of `sparse_dim` dimensions,
    or `layout`. Raises TraceError in a trace: how many there are depends on data."""
    if blocksize is not None or dense_dim:
        raise NotImplementedError("to_sparse(blocksize, dense_dim): layouts of blocks are not here")
    return _room("creation").of_strided(input, layout, sparse_dim)


@public(at="", method=True)
def to_sparse_coo(input: Tensor) -> Tensor:
    """`to_sparse()`."""
    return _room("creation").of_strided(input, sparse_coo)


@public(at="", method=True)
def to_sparse_csr(input: Tensor, dense_dim: int | None = None) -> Tensor:
    """The elements that are not 0, as a matrix by rows."""
    return to_sparse(input, layout=sparse_csr, dense_dim=dense_dim)


@public(at="", method=True)
def to_sparse_csc(input: Tensor, dense_dim: int | None = None) -> Tensor:
    """The elements that are not 0, as a matrix by columns."""
    return to_sparse(input, layout=sparse_csc, dense_dim=dense_dim)


@public(at="", method=True)
def to_dense(input: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself: it is strided."""
    return input if dtype is None else input.to(dtype)


@public(at="", method=True)
def sparse_mask(input: Tensor, mask: Any) -> Tensor:
    """The elements of `input` where the sparse `mask` has some."""
    return _room("rules").RULES["sparse_mask"](sparse_mask, input, mask)


@public(at="", method=True)
def sparse_dim(input: Tensor) -> int:
    """How many dimensions are sparse: none."""
    return 0


@public(at="", method=True)
def dense_dim(input: Tensor) -> int:
    """How many dimensions are dense: all."""
    return input.dim()


@public()
def spmm(input: Any, mat2: Any) -> Tensor:
    """The product of a sparse matrix and another one."""
    return _room("products").mm(input, mat2)


dsmm = spmm


def _expected(what: str, kind: str) -> NoReturn:
    raise RuntimeError(f"{what} expected sparse {kind} tensor layout but got Strided")


@public(at="", method=True)
def coalesce(input: Tensor) -> Tensor:
    """Raises RuntimeError: the tensor is strided."""
    _expected("coalesce", "coordinate")


@public(at="", method=True)
def is_coalesced(input: Tensor) -> bool:
    """Raises RuntimeError: the tensor is strided."""
    _expected("is_coalesced", "coordinate")


@public(at="", method=True)
def indices(input: Tensor) -> Tensor:
    """Raises RuntimeError: the tensor is strided."""
    _expected("indices", "coordinate")


@public(at="", method=True)
def values(input: Tensor) -> Tensor:
    """Raises RuntimeError: the tensor is strided."""
    raise RuntimeError("values expected sparse tensor layout but got Strided")


@public(at="", method=True)
def crow_indices(input: Tensor) -> Tensor:
    """Raises RuntimeError: the tensor is strided."""
    _expected("crow_indices", "row compressed")


@public(at="", method=True)
def col_indices(input: Tensor) -> Tensor:
    """Raises RuntimeError: the tensor is strided."""
    _expected("col_indices", "row compressed")


@public(at="", method=True)
def ccol_indices(input: Tensor) -> Tensor:
    """Raises RuntimeError: the tensor is strided."""
    _expected("ccol_indices", "column compressed")


@public(at="", method=True)
def row_indices(input: Tensor) -> Tensor:
    """Raises RuntimeError: the tensor is strided."""
    _expected("row_indices", "column compressed")
