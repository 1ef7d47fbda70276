"""Makes sparse tensors of indices and values, and of dense tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import (
    SCALAR_NAMES,
    Size,
    int64,
    sparse_coo,
    sparse_csc,
    sparse_csr,
)
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import creation
from frontend.sparse import places, rules
from frontend.sparse.tensor import CompressedTensor, CooTensor, SparseTensor

__all__ = ["compressed_tensor", "coo_tensor", "empty", "of_strided", "rules"]


def _values(data: Any, dtype: Any, requires_grad: bool) -> Tensor:
    """The values of a new tensor: they share memory and history with a tensor that is given."""
    tensor = data if isinstance(data, Tensor) else creation.tensor(data, dtype=dtype)
    tensor = tensor if dtype is None else tensor.to(dtype)
    values: Tensor = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach()
    if requires_grad and not values.requires_grad:
        values.requires_grad_()
    return values


def _integers(data: Any, keep: bool = False) -> Tensor:
    tensor = data if isinstance(data, Tensor) else creation.tensor(data, dtype=int64)
    if keep and tensor.dtype.is_integer:
        return tensor.detach()
    return tensor.detach().to(int64)


def _known() -> bool:
    """Whether the values of indices can be looked at."""
    return STATE.mode is None


def _is_single(indices: Tensor) -> bool:
    """Whether there is at most one element, which is a coalesced tensor."""
    return type(indices.shape[1]) is int and indices.shape[1] < 2


def coo_tensor(
    indices: Any, values: Any, size: Any, dtype: Any, requires_grad: bool, is_coalesced: Any,
) -> CooTensor:  # fmt: skip
    """See `torch.sparse_coo_tensor`."""
    at, tensor = _integers(indices), _values(values, dtype, requires_grad)
    if at.dim() == 1 and not at.numel():
        at = at.reshape(1, 0)
    if at.dim() != 2:
        at = at.reshape(at.shape[0], 1) if at.dim() == 1 and not tensor.dim() else at
    if tensor.dim() == 0 and at.dim() == 2 and at.shape[1] == 1:
        tensor = tensor.reshape(1)
    if at.dim() == 1 and size is not None:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: indices must be "
            f"sparse_dim x nnz, but got: {list(at.shape)}"
        )
    if at.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(at.shape)}")
    split, rest = at.shape[0], tuple(tensor.shape[1:])
    if tensor.dim() == 0 or at.shape[1] != tensor.shape[0]:
        count = tensor.shape[0] if tensor.dim() else 1
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{at.shape[1]}, nnz from values: {count}"
        )
    if size is None:
        array = at._array("the size of a sparse tensor; give one")
        places.check_indices(array, [np.inf] * split)
        size = (*(int(row.max()) + 1 if len(row) else 0 for row in array), *rest)
    size = Size(size)
    if len(size) != split + len(rest):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {split}, dense_dim = {len(rest)}"
        )
    if tuple(size[split:]) != rest:
        expected, got = [at.shape[1], *size[split:]], [at.shape[1], *rest]
        raise RuntimeError(f"values has incorrect size, expected {expected}, got {got}")
    sparse = CooTensor.of_parts((at,), tensor, size, False)
    if _known():
        array = at._array("checking indices")
        places.check_indices(array, size)
        if is_coalesced:
            keys = places.flat(sparse)._array("checking indices")
            if bool((np.diff(keys) <= 0).any()):
                raise RuntimeError(
                    "cannot set is_coalesced to true if indices correspond to uncoalesced COO "
                    "tensor"
                )
    return sparse._coalesced_(bool(is_coalesced) or (is_coalesced is None and _is_single(at)))


def compressed_tensor(
    ends: Any, others: Any, values: Any, size: Any, dtype: Any, requires_grad: bool,
    by_columns: bool,
) -> CompressedTensor:  # fmt: skip
    """See `torch.sparse_csr_tensor`."""
    first, second = _integers(ends, keep=True), _integers(others, keep=True)
    tensor = _values(values, dtype, requires_grad)
    if first.dim() != 1 or second.dim() != 1 or tensor.dim() != 1:
        raise NotImplementedError(
            "matrices of compressed rows have indices and values of one dimension: batches and "
            "blocks are not here"
        )
    if second.shape[0] != tensor.shape[0] or not first.shape[0]:
        raise RuntimeError(
            "number of elements must match for plain indices and values, but got "
            f"{second.shape[0]} and {tensor.shape[0]}"
        )
    if size is None:
        array = second._array("the size of a sparse tensor; give one")
        inner = int(array.max()) + 1 if len(array) else 0
        outer = first.shape[0] - 1
        size = (inner, outer) if by_columns else (outer, inner)
    size = Size(size)
    if len(size) != 2:
        raise RuntimeError(f"a matrix of compressed rows has two sizes, got {list(size)}")
    if _known():
        at_ends, at_others = (part._array("checking indices") for part in (first, second))
        places.check_compressed(at_ends, at_others, size, by_columns)
    return CompressedTensor.of_parts((first, second), tensor, size, by_columns)


def empty(size: Any, dtype: Any = None, requires_grad: bool = False) -> CooTensor:
    """A tensor of this size that stores nothing."""
    kind = STATE.default_dtype if dtype is None else dtype
    indices = creation.zeros(len(size), 0, dtype=int64)
    values = creation.zeros(0, dtype=kind)
    if requires_grad:
        values.requires_grad_()
    return CooTensor.of_parts((indices,), values, size, True)


def of_diagonals(diagonals: Any, offsets: Any, shape: Any, layout: Any) -> SparseTensor:
    """See `torch.sparse.spdiags`."""
    lines = diagonals.reshape(1, -1) if diagonals.dim() == 1 else diagonals
    if lines.dim() != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if offsets.dtype is not int64:
        kind = SCALAR_NAMES[offsets.dtype]
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {kind}")
    starts = offsets._array("spdiags()").reshape(-1)
    if len(starts) != lines.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({lines.shape[0]}) does not match the number of offsets "
            f"({len(starts)})"
        )
    if len(np.unique(starts)) != len(starts):
        raise RuntimeError("Offset tensor contains duplicate values")
    columns = np.broadcast_to(np.arange(lines.shape[1]), tuple(lines.shape))
    rows = columns - starts[:, None]
    kept = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    where = np.stack([rows[kept], columns[kept]]).astype(np.int64)
    chosen = creation.from_numpy(np.flatnonzero(kept))
    values = lines.reshape(-1).index_select(0, chosen)
    sparse = CooTensor.of_parts((creation.from_numpy(where),), values, shape, len(chosen) < 2)
    if layout in (None, sparse_coo):
        return sparse
    if layout not in (sparse_csr, sparse_csc):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}"
        )
    return places.compressed(sparse, layout is sparse_csc)


def of_strided(input: Any, layout: Any, sparse_dim: Any = None) -> SparseTensor:
    """The elements of a strided tensor that are not 0, in a sparse layout."""
    count = input.dim() if sparse_dim is None else sparse_dim
    if not isinstance(count, int) or not (0 < count <= input.dim() or count == input.dim()):
        raise RuntimeError(
            f"sparse_dim argument must be in >= 1 and <= {input.dim()}, but got {count}"
        )
    if layout in (None, sparse_coo):
        return places.of_dense(input, count)
    if layout not in (sparse_csr, sparse_csc):
        raise NotImplementedError(f"to_sparse(layout={layout}) is not here: COO, CSR and CSC are")
    return places.compressed(places.of_dense(input, input.dim()), layout is sparse_csc)
