"""Where the elements of sparse tensors stand: checked, put in order, and as dense tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.host_ops import eager_only
from frontend.engine.tensors.dtypes import int64
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import creation
from frontend.sparse.tensor import CompressedTensor, CooTensor, SparseTensor


def rows_and_columns(x: SparseTensor) -> tuple[Tensor, Tensor]:
    """Where each element of a sparse matrix stands: i64 [nnz] both."""
    if isinstance(x, CooTensor):
        return x._indices_here[0], x._indices_here[1]
    assert isinstance(x, CompressedTensor)
    major, minor = x._major(), x._others_here.to(int64)
    return (minor, major) if x._about else (major, minor)


def row_of_each(ends: Tensor, others: Tensor) -> Tensor:
    """In which row each element is, of rows with these ends: i64 [nnz]."""
    if STATE.mode is None:
        array = ends._array("rows of a sparse tensor")
        rows = np.repeat(np.arange(len(array) - 1, dtype=np.int64), np.diff(array))
        return creation.from_numpy(rows)
    starts = creation.zeros(others.shape[0] + 1, dtype=int64)
    ones = creation.ones(ends.shape[0] - 2, dtype=int64)
    return starts.index_add(0, ends[1:-1], ones)[:-1].cumsum(0)


def flat(x: CooTensor) -> Tensor:
    """The row-major number of each element's place among the sparse dimensions: i64 [nnz]."""
    indices = x._indices_here
    number: Any = None
    for axis in range(x.sparse_dim()):
        index = indices[axis]
        number = index if number is None else number * x._size_here[axis] + index
    return creation.zeros(x._nnz(), dtype=int64) if number is None else number


def flat_sizes(x: CooTensor) -> tuple[int, tuple[int, ...]]:
    """How many places there are, and the sizes of what stands at each."""
    count = 1
    for extent in x._size_here[: x.sparse_dim()]:
        count = count * extent
    return count, tuple(x._size_here[x.sparse_dim() :])


def as_coo(x: SparseTensor) -> CooTensor:
    """The same with an index for each dimension."""
    if isinstance(x, CooTensor):
        return x
    assert isinstance(x, CompressedTensor)
    indices = stacked(*rows_and_columns(x))
    return CooTensor.of_parts((indices,), x._values_here, x._size_here, not x._about)


def stacked(*rows: Tensor) -> Tensor:
    """Indices from those of each dimension."""
    from frontend.functions.shape import stack

    result: Tensor = stack(list(rows))
    return result


def dense_of(x: SparseTensor) -> Tensor:
    """The elements of a sparse tensor, in a strided one."""
    coo = as_coo(x)
    count, rest = flat_sizes(coo)
    zeros = creation.zeros(count, *rest, dtype=x.dtype)
    dense: Tensor = zeros.index_add(0, flat(coo), coo._values_here)
    return dense.reshape(*x._size_here) if coo.sparse_dim() != 1 else dense


def coalesced(x: CooTensor) -> CooTensor:
    """Each place once, in row-major order. Values of one place add up in the order they stand."""
    eager_only("coalesce")
    keys = flat(x)._array("coalesce()")
    if len(keys) < 2 or bool((keys[1:] > keys[:-1]).all()):
        values = x._values_here.view_as(x._values_here)
        return CooTensor.of_parts(x._where, values, x._size_here, True)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    indices = creation.from_numpy(x._indices_here._array("coalesce()")[:, first])
    zeros = creation.zeros(len(first), *x._values_here.shape[1:], dtype=x.dtype)
    values = zeros.index_add(0, creation.from_numpy(inverse.reshape(-1)), x._values_here)
    return CooTensor.of_parts((indices,), values, x._size_here, True)


def compressed(x: SparseTensor, by_columns: bool) -> CompressedTensor:
    """A sparse matrix by its rows, or by its columns."""
    if isinstance(x, CompressedTensor) and x._about == by_columns:
        return x
    if x.dim() != 2:
        raise RuntimeError(
            f"to_sparse_csr and to_sparse_csc take matrices, got a tensor of {x.dim()} dimensions"
        )
    eager_only("to_sparse_csc" if by_columns else "to_sparse_csr")
    coo = as_coo(x)
    coo = coo.coalesce()
    rows, columns = (part._array("a compressed layout") for part in rows_and_columns(coo))
    major, minor = (columns, rows) if by_columns else (rows, columns)
    order = np.lexsort((minor, major))
    extent = x._size_here[1 if by_columns else 0]
    ends = np.searchsorted(major[order], np.arange(extent + 1)).astype(np.int64)
    values = coo._values_here
    if not np.array_equal(order, np.arange(len(order))):
        values = values.index_select(0, creation.from_numpy(order))
    others = creation.from_numpy(minor[order])
    where = (creation.from_numpy(ends), others)
    return CompressedTensor.of_parts(where, values, x._size_here, by_columns)


def of_dense(x: Tensor, sparse_dim: int) -> CooTensor:
    """The elements of a strided tensor that are not 0, or the slices with one that is not."""
    eager_only("to_sparse")
    array = x._array("to_sparse()")
    rest = tuple(range(sparse_dim, array.ndim))
    places = np.argwhere(array.any(axis=rest) if rest else array != 0)
    indices = np.ascontiguousarray(places.T).astype(np.int64)
    count = int(np.prod(array.shape[:sparse_dim], dtype=np.int64))
    numbers = np.ravel_multi_index(tuple(indices), array.shape[:sparse_dim]) if count else []
    flattened = x.reshape(count, *array.shape[sparse_dim:])
    at = creation.from_numpy(np.asarray(numbers, np.int64))
    values = flattened.index_select(0, at)
    return CooTensor.of_parts((creation.from_numpy(indices),), values, x.shape, True)


def at_places(x: CooTensor, dense: Tensor) -> Tensor:
    """The elements of a dense tensor of the same size where a sparse one has some."""
    count, rest = flat_sizes(x)
    rows: Tensor = dense.reshape(count, *rest).index_select(0, flat(x))
    return rows


def check_indices(indices: np.ndarray, size: Any) -> None:
    """Raise RuntimeError for the index of an element outside."""
    for axis, row in enumerate(indices):
        if not len(row):
            continue
        low, high = int(row.min()), int(row.max())
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {axis}")
        if high >= size[axis]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {axis}, size is {size[axis]} but "
                f"found index {high}"
            )


def check_compressed(ends: np.ndarray, others: np.ndarray, size: Any, by_columns: bool) -> None:
    """Raise RuntimeError for ends or columns that describe no matrix of this size."""
    names = ("ccol_indices", "row_indices") if by_columns else ("crow_indices", "col_indices")
    extent, inner = (size[1], size[0]) if by_columns else (size[0], size[1])
    if len(ends) != extent + 1:
        raise RuntimeError(
            f"{names[0]}.shape[-1] must be equal to the number of compressed dimensions plus one "
            f"(={extent + 1}), but got {len(ends)}"
        )
    if ends[0] != 0 or ends[-1] != len(others) or bool((np.diff(ends) < 0).any()):
        raise RuntimeError(
            f"{names[0]} must begin with 0, not fall, and end with nnz (={len(others)})"
        )
    if len(others) and (others.min() < 0 or others.max() >= inner):
        raise RuntimeError(f"`0 <= {names[1]} < {inner}` is not satisfied.")
    inside = np.ones(len(others), bool)
    inside[ends[:-1][ends[:-1] < len(others)]] = False
    if len(others) and bool((np.diff(others)[inside[1:]] <= 0).any()):
        raise RuntimeError(f"`{names[1]}` must be sorted and distinct within each of `{names[0]}`")
