"""Products of sparse matrices. With a dense one: for each element its row of the dense matrix,
scaled, is added to a row of the result, in the order in which the elements stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.host_ops import eager_only
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import creation
from frontend.sparse import places
from frontend.sparse.tensor import LAYOUT_NAMES, CompressedTensor, CooTensor, SparseTensor
from graphc.ops.nn.sparse_products import sparse_matmul


def mm(input: Any, mat2: Any, *, reduce: str | None = None) -> Any:
    """The product of two matrices, of which one is sparse, or both: then the result is."""
    if reduce not in (None, "sum"):
        raise NotImplementedError(f"sparse.mm(reduce={reduce!r}) is not here: sums are")
    return _product(None, input, mat2)


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta · input + alpha · (mat1 @ mat2), of a strided input."""
    if isinstance(input, SparseTensor):
        raise NotImplementedError("addmm() to a sparse tensor is not here: add the product")
    if isinstance(mat1, SparseTensor) and isinstance(mat2, SparseTensor):
        product = mm(mat1, mat2).to_dense()
        return input * beta + product * alpha
    start = input if type(beta) is int and beta == 1 else input * beta
    return _product(start, mat1, mat2, alpha)


def sampled_addmm(input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    """beta · input + alpha · (mat1 @ mat2) where a CSR matrix has elements."""
    if not isinstance(input, CompressedTensor) or input._about:
        raise RuntimeError(
            f"sampled_addmm: Expected self to have sparse csr layout, but got {input.layout}"
        )
    for name, matrix in (("mat1", mat1), ("mat2", mat2)):
        if isinstance(matrix, SparseTensor):
            raise RuntimeError(
                f"sampled_addmm: Expected {name} to have strided layout, but got "
                f"{LAYOUT_NAMES[matrix.layout]}"
            )
        if matrix.dim() != 2:
            raise NotImplementedError("sampled_addmm() of batches is not here: matrices are")
    for names, first, second in (("mat1 and mat2", mat1, mat2), ("self and mat1", input, mat1)):
        if first.dtype is not second.dtype:
            raise RuntimeError(
                f"sampled_addmm: Expected {names} to have the same dtype, but got "
                f"{SCALAR_NAMES[first.dtype]} and {SCALAR_NAMES[second.dtype]}"
            )
    rows, count, columns = mat1.shape[0], mat1.shape[1], mat2.shape[1]
    if count != mat2.shape[0]:
        raise RuntimeError(
            "sampled_addmm: mat1 and mat2 shapes cannot be multiplied "
            f"({rows}x{count} and {mat2.shape[0]}x{columns})"
        )
    if tuple(input._size_here) != (rows, columns):
        raise RuntimeError(
            f"sampled_addmm: self has shape {list(input._size_here)}, the product "
            f"[{rows}, {columns}]"
        )
    at, others = places.rows_and_columns(input)
    chosen = mat1.index_select(0, at) * mat2.t().index_select(0, others)
    return input._with(input._values_here * beta + chosen.sum(1) * alpha)


def mv(input: Any, vec: Any) -> Any:
    """The product of a sparse matrix and a dense vector."""
    if isinstance(vec, SparseTensor) or vec.dim() != 1:
        raise RuntimeError("mv: expected a sparse matrix and a strided vector")
    return mm(input, vec.unsqueeze(1)).squeeze(1)


def by_matmul(func: Any, input: Any, other: Any, **_: Any) -> Any:
    """`input @ other` of two matrices, or of a matrix and a strided vector."""
    if func.__name__ == "__rmatmul__":
        input, other = other, input
    if other.dim() == 1 and not isinstance(other, SparseTensor):
        return mv(input, other)
    if input.dim() == 1 and not isinstance(input, SparseTensor):
        return mm(input.unsqueeze(0), other).squeeze(0)
    return mm(input, other)


def linear(func: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias, where one of both is sparse."""
    lead = input._sizes[:-1]
    rows = input if input.dim() == 2 else input.reshape(-1, input.shape[-1])
    product = mm(rows, weight.t())
    product = product if bias is None else product + bias
    return product if input.dim() == 2 else product.reshape(*lead, weight.shape[0])


def _product(start: Any, left: Any, right: Any, alpha: Any = 1) -> Any:
    for name, matrix in (("mat1", left), ("mat2", right)):
        if not isinstance(matrix, Tensor):
            raise TypeError(f"{name} must be a Tensor, not {type(matrix).__name__}")
        if matrix.dim() != 2:
            raise RuntimeError(f"{name} must be a matrix, got {matrix.dim()}-D tensor")
    if left.shape[1] != right.shape[0]:
        raise RuntimeError(
            f"addmm: Argument #3 (dense): Expected dim 0 size {left.shape[1]}, got {right.shape[0]}"
        )
    if left.dtype is not right.dtype:
        names = SCALAR_NAMES[left.dtype], SCALAR_NAMES[right.dtype]
        raise RuntimeError(f"expected scalar type {names[0]} but found {names[1]}")
    if not isinstance(left, SparseTensor):
        if not isinstance(right, SparseTensor):
            return left @ right if start is None else start + left @ right * alpha
        turned = None if start is None else start.expand(left.shape[0], right.shape[1]).t()
        rows, columns = places.rows_and_columns(right)
        return _sums(turned, columns, rows, right, left.t(), right.shape[1], alpha).t()
    if isinstance(right, SparseTensor):
        return _sparse_product(left, right)
    rows, columns = places.rows_and_columns(left)
    if start is not None:
        start = start.expand(left.shape[0], right.shape[1])
    return _sums(start, rows, columns, left, right, left.shape[0], alpha)


def _sums(
    start: Any, rows: Tensor, columns: Tensor, sparse: SparseTensor, dense: Tensor, count: int,
    alpha: Any,
) -> Tensor:  # fmt: skip
    values = sparse._values_here
    if type(alpha) is not int or alpha != 1:
        values = values * alpha
    kind = values.dtype
    wide = kind.computes_as if kind.is_storage else kind
    if start is None:
        start = creation.zeros(count, dense.shape[1], dtype=wide)
    operands = (start.to(wide), rows, columns, values.to(wide), dense.to(wide))
    result: Tensor = CONTEXT.apply(sparse_matmul, operands, {})[0]
    return result.to(kind)


def _sparse_product(left: Any, right: Any) -> SparseTensor:
    """Of two sparse matrices: each element of the left one meets those in a row of the right."""
    eager_only("a product of two sparse matrices")
    x, y = places.as_coo(left).coalesce(), places.compressed(right, False)
    assert isinstance(y, CompressedTensor)
    rows, middle = (part._array("mm()") for part in places.rows_and_columns(x))
    ends, others = y._ends_here._array("mm()"), y._others_here._array("mm()")
    counts = np.diff(ends)[middle]
    mine = np.repeat(np.arange(len(middle)), counts)
    first = np.cumsum(counts) - counts
    its = np.arange(int(counts.sum())) - np.repeat(first - ends[middle], counts)
    indices = np.stack([rows[mine], others[its].astype(np.int64)])
    at, other_at = creation.from_numpy(mine), creation.from_numpy(its)
    values = x._values_here.index_select(0, at) * y._values_here.index_select(0, other_at)
    size = (left.shape[0], right.shape[1])
    product = CooTensor.of_parts((creation.from_numpy(indices),), values, size, False)
    if isinstance(left, CompressedTensor):
        return places.compressed(product, left._about)
    return places.coalesced(product)
