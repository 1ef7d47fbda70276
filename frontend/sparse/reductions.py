"""Sums over sparse tensors, and softmax over the elements that are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.host_ops import eager_only
from frontend.engine.tensors.dtypes import int64
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import creation
from frontend.sparse import places
from frontend.sparse.tensor import CompressedTensor, CooTensor, SparseTensor


def axis_of(dim: int, rank: int) -> int:
    """A dimension, counted from the front. Raises IndexError."""
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got "
            f"{dim})"
        )
    return dim % rank


def total(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum of all elements, a strided tensor; over some dimensions a sparse one, coalesced,
    unless none of the sparse dimensions is left: then it is strided."""
    if not isinstance(input, SparseTensor):
        raise RuntimeError("coalesce expected sparse coordinate tensor layout but got Strided")
    x = places.as_coo(input)
    if dtype is None and not (x.dtype.is_float or x.dtype is int64):
        dtype = int64
    values = x._values_here if dtype is None else x._values_here.to(dtype)
    if dim is None:
        return values.sum()
    dims = {axis_of(each, x.dim()) for each in ((dim,) if isinstance(dim, int) else dim)}
    split = x.sparse_dim()
    dense = [axis - split + 1 for axis in sorted(dims) if axis >= split]
    if dense:
        values = values.sum(dense)
    kept = [axis for axis in range(split) if axis not in dims]
    size = [extent for axis, extent in enumerate(x._size_here) if axis not in dims]
    if not kept:
        return values.sum(0)
    if len(kept) == split:
        return CooTensor.of_parts(x._where, values, size, x._coalesced)
    indices = places.stacked(*[x._indices_here[axis] for axis in kept])
    return places.coalesced(CooTensor.of_parts((indices,), values, size, False))


def by_sum(
    func: Any, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """`input.sum(…)`: of a compressed layout all of it, or a strided result along dimensions."""
    if isinstance(input, CompressedTensor) and dim is not None:
        return input.to_dense().sum(dim, keepdim, dtype=dtype).to_sparse_csr()
    result = total(input, dim, dtype)
    if keepdim and dim is not None:
        for axis in sorted(axis_of(each, input.dim()) for each in _listed(dim)):
            result = result.unsqueeze(axis)
    return result


def _listed(dim: Any) -> tuple[int, ...]:
    return (dim,) if isinstance(dim, int) else tuple(dim)


def norm(func: Any, input: Any, p: Any = "fro", dim: Any = None, **_: Any) -> Tensor:
    """The 2-norm of all elements."""
    if p not in ("fro", 2, None) or dim is not None:
        raise NotImplementedError("norm() of a sparse tensor is the 2-norm of all elements")
    x = input.coalesce() if isinstance(input, CooTensor) else input
    result: Tensor = x._values_here.square().sum().sqrt()
    return result


def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Softmax along a dimension, where what is not stored counts as -inf, and is 0 after it."""
    return _normalized(input, dim, dtype, "softmax")


def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """The logarithm of `softmax`, of the elements that are stored."""
    return _normalized(input, dim, dtype, "log_softmax")


def _normalized(input: Any, dim: int, dtype: Any, name: str) -> Any:
    if not isinstance(input, CooTensor):
        raise NotImplementedError(f"sparse.{name} takes a tensor of layout torch.sparse_coo")
    axis, split = axis_of(dim, input.dim()), input.sparse_dim()
    x = input.coalesce()
    values = x._values_here if dtype is None else x._values_here.to(dtype)
    if axis >= split:
        return x._with(getattr(values, name)(axis - split + 1))
    group, count = _groups(x, axis)
    if not x._nnz():
        return x._with(values)
    zeros = creation.zeros(count, *values.shape[1:], dtype=values.dtype)
    at = group.reshape(-1, *[1] * (values.dim() - 1)).expand(*values.shape)
    most = zeros.scatter_reduce(0, at, values.detach(), "amax", include_self=False)
    shifted = values - most.index_select(0, group)
    powers = shifted.exp()
    sums = zeros.index_add(0, group, powers).index_select(0, group)
    return x._with(shifted - sums.log() if name == "log_softmax" else powers / sums)


def _groups(x: CooTensor, axis: int) -> tuple[Tensor, int]:
    """Numbers of the lines along a dimension, of each element: i64 [nnz], and how many there
    are."""
    eager_only("softmax of a sparse tensor")
    indices = x._indices_here._array("softmax()")
    others = np.delete(indices, axis, 0)
    if not len(others):
        return creation.zeros(x._nnz(), dtype=int64), 1
    lines, group = np.unique(others, axis=1, return_inverse=True)
    return creation.from_numpy(group.reshape(-1).astype(np.int64)), lines.shape[1]
