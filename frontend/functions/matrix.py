"""Products of matrices and vectors."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.promotion import casted, common_shape, promote_types, result_type
from frontend.engine.eager.uncompiled import conj
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.symbolic_numbers import extents_in
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tensors.views import own
from frontend.functions.arguments import need_tensors, not_implemented, stored
from frontend.functions.declarations import public
from frontend.functions.layout import expand, reshaped
from frontend.functions.pointwise import mul, where
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops import contract

_C_NAMES = {
    "Float": "float", "Double": "double", "Half": "c10::Half", "BFloat16": "c10::BFloat16",
    "Byte": "unsigned char", "Char": "signed char", "Short": "short", "Int": "int",
    "Long": "long int", "Bool": "bool", "ComplexFloat": "c10::complex<float>",
    "ComplexDouble": "c10::complex<double>",
}  # fmt: skip


def product(x: Tensor, y: Tensor) -> Tensor:
    """The matrix product of two matrices, or of two equally long batches of them."""
    if x.dtype is DType.bool:
        raise not_implemented("addmm_impl_cpu_", x.dtype)
    return CONTEXT.apply(contract.matmul, (x, y), {})[0]


def _check(name: str, **operands: Any) -> None:
    """Two tensors of one dtype."""
    need_tensors(name, **operands)
    first, second = (x.dtype for x in operands.values())
    if first is not second:
        names = [_C_NAMES.get(SCALAR_NAMES[kind], str(kind)) for kind in (first, second)]
        raise DTypeError(
            f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}",
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


@public(method=True, autocast="lower_precision")
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The matrix product. 1-d operands are a row on the left, a column on the right; leading
    dimensions are batches and broadcast."""
    _check("matmul", input=input, other=other)
    result = _matmul(input, other)
    return result if out is None else stored(result, out)


def _matmul(input: Tensor, other: Tensor) -> Tensor:
    left, right = input._sizes, other._sizes
    if len(left) == len(right) == 2:
        if left[1] != right[0]:
            raise _misfit(left, right)
        return product(input, other)
    if not left or not right:
        raise ShapeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{len(left)}D and {len(right)}D",
            location=user_location(),
        )
    if len(left) == len(right) == 1:
        return dot(input, other)
    if len(left) == 1:
        result = _matmul(reshaped(input, (1, *left)), other)
        shape = result._sizes
        return own(reshaped(result, (*shape[:-2], shape[-1])))
    if len(right) == 1:
        if left[-1] != right[0]:
            raise ShapeError(
                f"size mismatch, got input ({math.prod(left[:-1])}), mat "
                f"({math.prod(left[:-1])}x{left[-1]}), vec ({right[0]})",
                location=user_location(),
            )
        result = _matmul(input, reshaped(other, (*right, 1)))
        return own(reshaped(result, left[:-1]))
    if left[-1] != right[-2]:
        raise _misfit(left, right)
    if len(right) == 2:
        # One large product instead of a batch of small ones.
        rows = reshaped(input, (math.prod(left[:-1]), left[-1]))
        return own(reshaped(product(rows, other), (*left[:-1], right[1])))
    batch = common_shape(_shaped(input, left[:-2]), _shaped(other, right[:-2]))
    return product(_batched(input, (*batch, *left[-2:])), _batched(other, (*batch, *right[-2:])))


def _shaped(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Something of this shape, for checking only."""
    return make(None, like.tensor_type.with_shape(extents_in(shape)))


def _batched(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x._sizes == shape else expand(x, shape)


def _ranked(x: Tensor, rank: int, name: str) -> None:
    if x.dim() != rank:
        raise RuntimeError(f"{name} must be a {'matrix' if rank == 2 else f'{rank}D tensor'}")


@public(method=True, autocast="lower_precision")
def mm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The product of two matrices."""
    _check("mm", input=input, mat2=mat2)
    _ranked(input, 2, "self")
    _ranked(mat2, 2, "mat2")
    result = _matmul(input, mat2)
    return result if out is None else stored(result, out)


@public(method=True, autocast="lower_precision")
def bmm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The products of two equally long batches of matrices."""
    _check("bmm", input=input, mat2=mat2)
    _ranked(input, 3, "batch1")
    _ranked(mat2, 3, "batch2")
    if input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        expected = [input.shape[0], input.shape[2]]
        raise ShapeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"{expected} but got: {list(mat2.shape[:2])}.",
            location=user_location(),
        )
    result = product(input, mat2)
    return result if out is None else stored(result, out)


@public(method=True, node="Mv")
def mv(input: Tensor, vec: Tensor, *, out: Any = None) -> Tensor:
    """A matrix times a vector."""
    need_tensors("mv", input=input, vec=vec)
    if input.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.dim()}, {vec.dim()}")
    return matmul(input, vec, out=out)


@public(method=True, node="Dot")
def dot(input: Tensor, tensor: Tensor, *, out: Any = None) -> Tensor:
    """The inner product of two vectors."""
    need_tensors("dot", input=input, tensor=tensor)
    left, right = input._sizes, tensor._sizes
    if len(left) != 1 or len(right) != 1:
        raise RuntimeError(f"1D tensors expected, but got {len(left)}D and {len(right)}D tensors")
    if input.dtype is not tensor.dtype:
        raise DTypeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{SCALAR_NAMES[input.dtype]} and {SCALAR_NAMES[tensor.dtype]}",
            hint="convert one of them with .to(dtype)",
            location=user_location(),
        )
    if left != right:
        raise ShapeError(
            f"inconsistent tensor size, expected tensor [{left[0]}] and src [{right[0]}] to have "
            f"the same number of elements, but got {left[0]} and {right[0]} elements respectively",
            location=user_location(),
        )
    total = product(reshaped(input, (1, *left)), reshaped(tensor, (*right, 1)))
    return stored(own(reshaped(total, ())), out)


@public(method=True)
def vdot(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The inner product of two vectors, of complex ones with the conjugate of the first."""
    need_tensors("vdot", input=input, other=other)
    return dot(conj(input), other, out=out)


@public(method=True)
def inner(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The products summed over the last dimension of both; with a 0-d operand the plain product."""
    need_tensors("inner", input=input, other=other)
    left, right = input._sizes, other._sizes
    if not left or not right:
        return mul(input, other, out=out)
    if left[-1] != right[-1]:
        raise ShapeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(left)} and {list(right)}",
            location=user_location(),
        )
    if input.dtype is not other.dtype:
        raise DTypeError("both inputs should have same dtype", location=user_location())
    rows = reshaped(input, (math.prod(left[:-1]), left[-1]))
    columns = reshaped(other, (math.prod(right[:-1]), right[-1]))
    totals = product(rows, columns.transpose(0, 1))
    return stored(own(reshaped(totals, (*left[:-1], *right[:-1]))), out)


@public(method=True)
def outer(input: Tensor, vec2: Tensor, *, out: Any = None) -> Tensor:
    """[n, m] of all products of two vectors."""
    need_tensors("outer", input=input, vec2=vec2)
    for name, x in (("self", input), ("vec2", vec2)):
        if x.dim() != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x.dim()}-D")
    return stored(input.unsqueeze(1) * vec2.unsqueeze(0), out)


ger = outer

# -- with a sum ----------------------------------------------------------------------------------


def attached(result: Tensor, to: Tensor) -> Tensor:
    """`result`, which does not depend on `to` but gives it the gradient 0 (not None)."""
    if not to.requires_grad:
        return result
    never = filled(False, DType.bool, to._sizes)
    return result + where(never, to, 0.0)


def _plus(
    input: Tensor, term: Tensor, beta: Any, alpha: Any, out: Any, *, computed: bool = True
) -> Tensor:
    """beta · input + alpha · term, in the shape of `term`. With beta 0 the input is not read: NaN
    in it does not spread. The numbers are such as the dtype holds, or (`computed`) computes in: of
    half types the sum is one in float32 then, rounded once."""
    spread = expand(input, term._sizes)
    kind = promote_types(spread.dtype, term.dtype)
    for number in (beta, alpha):
        fitting(number, kind, computed=computed)
    if not kind.is_float and kind is not DType.bool:  # of bools a number would make integers
        beta, alpha = int(beta), int(alpha)
    if computed and kind.is_float and not (beta == 1 and alpha == 1):
        spread, term = (casted(x, kind.computes_as) for x in (spread, term))
    scaled = term if alpha == 1 else term * alpha
    if beta == 0:
        return stored(attached(casted(scaled, kind), spread), out)
    return stored(casted((spread if beta == 1 else spread * beta) + scaled, kind), out)


def _same_dtype(input: Tensor, other: Tensor, name: str) -> None:
    if input.dtype is not other.dtype:
        raise DTypeError(
            f"self and {name} must have the same dtype, but got {SCALAR_NAMES[input.dtype]} and "
            f"{SCALAR_NAMES[other.dtype]}",
            location=user_location(),
        )


@public(method=True, in_place=True, node="Addmm", autocast="lower_precision")
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, out: Any = None
) -> Tensor:
    """beta · input + alpha · (mat1 @ mat2)."""
    need_tensors("addmm", input=input, mat1=mat1, mat2=mat2)
    _ranked(mat1, 2, "mat1")
    _ranked(mat2, 2, "mat2")
    term = mm(mat1, mat2)
    _same_dtype(input, mat2, "mat2")
    return _plus(input, term, beta, alpha, out)


@public(method=True, in_place="torch", node="Addmv")
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1, out: Any = None
) -> Tensor:
    """beta · input + alpha · (mat @ vec)."""
    need_tensors("addmv", input=input, mat=mat, vec=vec)
    term = mv(mat, vec)
    _same_dtype(input, vec, "vec")
    return _plus(input, term, beta, alpha, out, computed=False)


@public(method=True, in_place=True, node="Addr")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1, out: Any = None
) -> Tensor:
    """beta · input + alpha · outer(vec1, vec2), in their common dtype."""
    need_tensors("addr", input=input, vec1=vec1, vec2=vec2)
    for position, x in ((1, vec1), (2, vec2)):
        if x.dim() != 1:
            raise RuntimeError(f"addr: Expected 1-D argument vec{position}, but got {x.dim()}-D")
    kind = result_type(input, vec1, vec2)
    for name, number in (("beta", beta), ("alpha", alpha)):
        if isinstance(number, bool) and kind is not DType.bool:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if isinstance(number, float) and not kind.is_float:
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
    if kind is DType.bool:
        beta, alpha = bool(beta), bool(alpha)
    # alpha scales first, as in PyTorch: which product a half type does not hold depends on that.
    fitting(alpha, kind)
    vec1, vec2 = casted(vec1, kind), casted(vec2, kind)
    scaled = vec1 if alpha == 1 else vec1 * (int(alpha) if kind.is_integer else alpha)
    return _plus(input, outer(scaled, vec2), beta, 1, out, computed=False)


@public(method=True, in_place=True, node="Baddbmm", autocast="lower_precision")
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """beta · input + alpha · (batch1 @ batch2)."""
    need_tensors("baddbmm", input=input, batch1=batch1, batch2=batch2)
    term = bmm(batch1, batch2)
    _same_dtype(input, batch2, "batch2")
    return _plus(input, term, beta, alpha, out)


@public(method=True, in_place=True, node="Addbmm", autocast="lower_precision")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """beta · input + alpha · the sum of the products of two batches of matrices."""
    need_tensors("addbmm", input=input, batch1=batch1, batch2=batch2)
    term = bmm(batch1, batch2).sum(0, dtype=batch1.dtype)
    _same_dtype(input, batch2, "batch2")
    return _plus(input, term, beta, alpha, out)
