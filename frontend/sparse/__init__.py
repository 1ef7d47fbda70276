"""`torch.sparse`: sparse tensors (COO, CSR, CSC), and the functions that are named for them.

tensor is what they are; creation makes them, places says where their elements stand, rules what
functions of tensors do to them (products and reductions among these), printing shows them. Nothing
of it is imported before there is a sparse tensor.

gradients are those of tables, types the former names.
"""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.namespace.stubs import stubs
from frontend.sparse.types import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from graphc.system import import_module

__all__ = [
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "SparseSemiStructuredTensor", "ShortTensor", "addmm",
    "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm",
    "softmax", "spdiags", "spsolve", "sum", "to_sparse_semi_structured",
]  # fmt: skip
globals().update(stubs("sparse"))


def _room(name: str) -> Any:
    return import_module(f"frontend.sparse.{name}")


def mm(input: Any, mat2: Any, reduce: str | None = None) -> Tensor:
    """The product of two matrices; strided, but of two sparse ones sparse. Gradients go to the
    dense operand and to the elements that the sparse one stores."""
    return _room("products").mm(input, mat2, reduce=reduce)


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · (mat1 @ mat2)."""
    return _room("products").addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Tensor:
    """beta · input + alpha · (mat1 @ mat2) at the places of a CSR matrix, and 0 elsewhere: of the
    product only these elements are computed. Raises RuntimeError for matrices that do not fit."""
    if out is not None:
        raise NotImplementedError("sampled_addmm(out=) is not here: take the result")
    return _room("products").sampled_addmm(input, mat1, mat2, beta, alpha)


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with `diagonals` [n, length] at `offsets` [n] from the main one, above it
    where positive: element j of each stands in column j. COO, or `layout`. Raises RuntimeError for
    offsets that repeat or do not fit."""
    return _room("creation").of_diagonals(diagonals, offsets, shape, layout)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of the elements; over dimensions a sparse tensor, where sparse ones are left."""
    return _room("reductions").total(input, dim, dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along `dim` over the elements that are stored: others count as -inf."""
    return _room("reductions").softmax(input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`, of the elements that are stored."""
    return _room("reductions").log_softmax(input, dim, dtype)
