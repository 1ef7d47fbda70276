"""Comparisons, logic, bits, and tests of values: elementwise, after promotion."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import aligned, binary, casted, floating, result_type
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_a_tensor, need_tensors, not_implemented, stored
from frontend.functions.declarations import public
from graphc.ir.types import DType
from graphc.ops import elementwise as e
from graphc.ops.scalar_functions import bitwise as b


def both_bool(x: Any, y: Any) -> bool:
    """Whether both are bool, as tensors or numbers."""
    left = x.tensor_type.dtype is DType.bool if isinstance(x, Tensor) else isinstance(x, bool)
    if not left:
        return False
    return y.tensor_type.dtype is DType.bool if isinstance(y, Tensor) else isinstance(y, bool)


# -- comparisons ---------------------------------------------------------------------------------


def _need_left(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )


@public(method=True, in_place=True)
def eq(input: Any, other: Any, *, out: Any = None) -> Tensor:
    _need_left("eq", input)
    result = binary(e.eq, input, other)
    return result if out is None else stored(result, out)


@public(method=True, in_place=True)
def ne(input: Any, other: Any, *, out: Any = None) -> Tensor:
    _need_left("ne", input)
    result = binary(e.ne, input, other)
    return result if out is None else stored(result, out)


not_equal = ne


def _ordered(op: Any, name: str) -> Any:
    def function(input: Any, other: Any, *, out: Any = None) -> Tensor:
        _need_left(name, input)
        if both_bool(input, other):
            input, other = (
                casted(x, DType.i32) if isinstance(x, Tensor) else int(x) for x in (input, other)
            )
        result = binary(op, input, other)
        return result if out is None else stored(result, out)

    function.__name__ = function.__qualname__ = name
    return public(method=True, in_place=True)(function)


lt = less = _ordered(e.lt, "lt")
le = less_equal = _ordered(e.le, "le")
gt = greater = _ordered(e.gt, "gt")
ge = greater_equal = _ordered(e.ge, "ge")


# -- logic ---------------------------------------------------------------------------------------


def truth(x: Any) -> Any:
    """A tensor as bool: whether each element differs from 0."""
    if not isinstance(x, Tensor):
        return bool(x)
    return x if x.dtype is DType.bool else casted(ne(x, 0), DType.bool)


def _logical(op: Any) -> Any:
    def function(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
        need_tensors(op.name, input=input, other=other)
        kind = result_type(input, other)  # a 0-d operand may be 0 there alone
        x, y = [truth(z if z.dtype is DType.bool else casted(z, kind)) for z in (input, other)]
        result = binary(op, x, y)
        return result if out is None else stored(result, out)

    function.__name__ = function.__qualname__ = op.name
    return public(method=True, in_place=True)(function)


logical_and = _logical(e.logical_and)
logical_or = _logical(e.logical_or)
logical_xor = _logical(e.logical_xor)


@public(method=True, in_place=True)
def logical_not(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether each element is 0."""
    result = CONTEXT.apply(e.logical_not, (truth(input),), {})[0]
    return result if out is None else stored(result, out)


# -- bits ----------------------------------------------------------------------------------------


def _bitwise(name: str, kernel: str, op: Any, logical: Any = None) -> Any:
    def function(input: Any, other: Any, *, out: Any = None) -> Tensor:
        need_a_tensor(name, input, other)
        kind = result_type(input, other)
        if kind is DType.bool and logical is not None:
            return stored(binary(logical, input, other), out)
        if not kind.is_integer:
            raise not_implemented(kernel, kind)
        return stored(CONTEXT.apply(op, aligned((input, other), kind), {})[0], out)

    function.__name__ = function.__qualname__ = name
    return public(method=True, in_place=True)(function)


bitwise_and = _bitwise("bitwise_and", "bitwise_and_cpu", b.bitwise_and, e.logical_and)
bitwise_or = _bitwise("bitwise_or", "bitwise_or_cpu", b.bitwise_or, e.logical_or)
bitwise_xor = _bitwise("bitwise_xor", "bitwise_xor_cpu", b.bitwise_xor, e.logical_xor)
# By a negative amount, or by the width or more: every bit is moved out.
bitwise_left_shift = _bitwise("bitwise_left_shift", "lshift_cpu", b.shift_left)
bitwise_right_shift = _bitwise("bitwise_right_shift", "rshift_cpu", b.shift_right)


@public(method=True, in_place=True)
def bitwise_not(input: Tensor, *, out: Any = None) -> Tensor:
    """`~x`: each bit of integers turned, logical not of bools."""
    need_tensors("bitwise_not", input=input)
    if input.dtype is DType.bool:
        return logical_not(input, out=out)
    if not input.dtype.is_integer:
        raise not_implemented("bitwise_not_cpu", input.dtype)
    return stored(CONTEXT.apply(b.bitwise_not, (input,), {})[0], out)


def invert(input: Tensor) -> Tensor:
    """The operator `~`. Raises TypeError for floats."""
    if input.dtype.is_float:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return bitwise_not(input)


# -- tests of values -----------------------------------------------------------------------------


@public(method=True)
def isnan(input: Tensor) -> Tensor:
    return ne(input, input)


@public(method=True)
def isinf(input: Tensor) -> Tensor:
    return eq(_magnitude(input), math.inf) if input.dtype.is_float else ne(input, input)


@public(method=True)
def isfinite(input: Tensor) -> Tensor:
    return logical_not(logical_or(isnan(input), isinf(input)))


def _need_one_dtype(input: Tensor, other: Tensor) -> None:
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{SCALAR_NAMES[input.dtype]} did not match {SCALAR_NAMES[other.dtype]}")


@public(method=True)
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """|input - other| <= atol + rtol · |other|, elementwise. Raises RuntimeError for different
    dtypes and negative tolerances."""
    need_tensors("isclose", input=input, other=other)
    _need_one_dtype(input, other)
    for name, bound in (("rtol", rtol), ("atol", atol)):
        if bound < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {bound}")
    equal = eq(input, other)
    if equal_nan:
        equal = logical_or(equal, logical_and(isnan(input), isnan(other)))
    x, y = floating(input), floating(other)
    apart = _magnitude(x - y)
    near = logical_and(isfinite(apart), apart <= atol + _magnitude(y * rtol))
    return logical_or(equal, near)


@public(method=True)
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@public(method=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    need_tensors("equal", input=input, other=other)
    if input._sizes != other._sizes:
        return False
    return bool(eq(input, other).all())


def _magnitude(x: Tensor) -> Tensor:
    return CONTEXT.apply(e.abs, (x,), {})[0]
