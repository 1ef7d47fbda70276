"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

from frontend.dispatch import CONTEXT
from frontend.dtypes import SCALAR_NAMES
from frontend.functions.shape import expand
from frontend.promotion import common_shape
from frontend.tensor import Tensor
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ops import contract
from graphc.ops import movement as m

__all__ = [
    "addmm", "baddbmm", "bmm", "dot", "matmul", "mm", "mv", "outer",
]  # fmt: skip
METHODS = "matmul mm bmm mv dot outer addmm baddbmm"


def _product(x: Tensor, y: Tensor) -> Tensor:
    return CONTEXT.apply(contract.matmul, (x, y), {})[0]


def _reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return CONTEXT.apply(m.reshape, (x,), {"shape": shape})[0]


def _check(x: Any, y: Any, name: str) -> None:
    for position, operand in ((1, x), (2, y)):
        if not isinstance(operand, Tensor):
            raise TypeError(
                f"{name}(): argument {position} must be Tensor, not {type(operand).__name__}"
            )
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"expected m1 and m2 to have the same dtype, but got: {SCALAR_NAMES[x.dtype].lower()} "
            f"!= {SCALAR_NAMES[y.dtype].lower()}",
            hint="convert one of them with .to(dtype)",
            location=user_location(),
        )


def _misfit(left: tuple[int, ...], right: tuple[int, ...]) -> ShapeError:
    rows = math.prod(left[:-1])
    return ShapeError(
        f"mat1 and mat2 shapes cannot be multiplied ({rows}x{left[-1]} and "
        f"{right[-2]}x{right[-1]})",
        hint="the last size of the first must equal the second-last of the second",
        location=user_location(),
    )


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product. 1-d operands are a row on the left, a column on the right; leading
    dimensions are batches and broadcast."""
    _check(input, other, "matmul")
    left, right = input.tensor_type.shape, other.tensor_type.shape
    if len(left) == len(right) == 2:
        if left[1] != right[0]:
            raise _misfit(left, right)
        return _product(input, other)
    if not left or not right:
        raise ShapeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{len(left)}D and {len(right)}D",
            location=user_location(),
        )
    if len(left) == len(right) == 1:
        return dot(input, other)
    if len(left) == 1:
        result = matmul(_reshaped(input, (1, *left)), other)
        shape = result.tensor_type.shape
        return _reshaped(result, (*shape[:-2], shape[-1]))
    if len(right) == 1:
        if left[-1] != right[0]:
            raise ShapeError(
                f"size mismatch, got input ({math.prod(left[:-1])}), mat "
                f"({math.prod(left[:-1])}x{left[-1]}), vec ({right[0]})",
                location=user_location(),
            )
        result = matmul(input, _reshaped(other, (*right, 1)))
        return _reshaped(result, left[:-1])
    if left[-1] != right[-2]:
        raise _misfit(left, right)
    if len(right) == 2:
        # One large product instead of a batch of small ones.
        rows = _reshaped(input, (math.prod(left[:-1]), left[-1]))
        return _reshaped(_product(rows, other), (*left[:-1], right[1]))
    batch = common_shape(_shaped(input, left[:-2]), _shaped(other, right[:-2]))
    return _product(
        _batched(input, (*batch, *left[-2:])), _batched(other, (*batch, *right[-2:]))
    )


def _shaped(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Something of this shape, for checking only."""
    from frontend.tensor import make

    return make(None, like.tensor_type.with_shape(shape))


def _batched(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x.tensor_type.shape == shape else expand(x, shape)


def _ranked(x: Tensor, rank: int, name: str) -> None:
    if x.dim() != rank:
        raise RuntimeError(f"{name} must be a {'matrix' if rank == 2 else f'{rank}D tensor'}")


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    _check(input, mat2, "mm")
    _ranked(input, 2, "self")
    _ranked(mat2, 2, "mat2")
    return matmul(input, mat2)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two equally long batches of matrices."""
    _check(input, mat2, "bmm")
    _ranked(input, 3, "batch1")
    _ranked(mat2, 3, "batch2")
    if input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        expected = [input.shape[0], input.shape[2]]
        raise ShapeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"{expected} but got: {list(mat2.shape[:2])}.",
            location=user_location(),
        )
    return _product(input, mat2)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """A matrix times a vector."""
    _ranked(input, 2, "input")
    _ranked(vec, 1, "vec")
    return matmul(input, vec)


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The inner product of two vectors."""
    _check(input, tensor, "dot")
    left, right = input.tensor_type.shape, tensor.tensor_type.shape
    if len(left) != 1 or len(right) != 1:
        raise RuntimeError(
            f"1D tensors expected, but got {len(left)}D and {len(right)}D tensors"
        )
    if left != right:
        raise ShapeError(
            "inconsistent tensor size, expected tensor [" + str(left[0]) + "] and src ["
            + str(right[0]) + "] to have the same number of elements, but got " + str(left[0])
            + " and " + str(right[0]) + " elements respectively",
            location=user_location(),
        )  # fmt: skip
    product = _product(_reshaped(input, (1, *left)), _reshaped(tensor, (*right, 1)))
    return _reshaped(product, ())


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """[n, m] of all products of two vectors."""
    _ranked(input, 1, "input")
    _ranked(vec2, 1, "vec2")
    return input.unsqueeze(1) * vec2.unsqueeze(0)


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta · input + alpha · (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    return (input if beta == 1 else input * beta) + (product if alpha == 1 else product * alpha)


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta · input + alpha · (batch1 @ batch2)."""
    product = bmm(batch1, batch2)
    return (input if beta == 1 else input * beta) + (product if alpha == 1 else product * alpha)
