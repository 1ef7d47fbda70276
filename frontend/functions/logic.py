"""Comparisons, logic, and tests of values: elementwise, after promotion."""

from __future__ import annotations

import math
from typing import Any

from frontend.dispatch import CONTEXT
from frontend.promotion import binary, casted, result_type
from frontend.tensor import Tensor
from graphc.errors import DTypeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops import elementwise as e

__all__ = [
    "allclose", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "eq", "equal", "ge",
    "gt", "isclose", "isfinite", "isinf", "isnan", "le", "logical_and", "logical_not",
    "logical_or", "logical_xor", "lt", "ne",
]  # fmt: skip
METHODS = (
    "eq ne lt le gt ge logical_and logical_or logical_xor logical_not bitwise_and bitwise_or "
    "bitwise_xor bitwise_not isnan isinf isfinite isclose allclose equal"
)


def both_bool(x: Any, y: Any) -> bool:
    """Whether both are bool, as tensors or numbers."""
    left = x.tensor_type.dtype is DType.bool if isinstance(x, Tensor) else isinstance(x, bool)
    if not left:
        return False
    return y.tensor_type.dtype is DType.bool if isinstance(y, Tensor) else isinstance(y, bool)


def eq(input: Any, other: Any) -> Tensor:
    return binary(e.eq, input, other)


def ne(input: Any, other: Any) -> Tensor:
    return binary(e.ne, input, other)


def _ordered(op: Any, name: str) -> Any:
    def function(input: Any, other: Any) -> Tensor:
        if both_bool(input, other):
            input, other = (
                casted(x, DType.i32) if isinstance(x, Tensor) else int(x) for x in (input, other)
            )
        return binary(op, input, other)

    function.__name__ = function.__qualname__ = name
    return function


lt = _ordered(e.lt, "lt")
le = _ordered(e.le, "le")
gt = _ordered(e.gt, "gt")
ge = _ordered(e.ge, "ge")


def truth(x: Any) -> Any:
    """A tensor as bool: whether each element differs from 0."""
    if not isinstance(x, Tensor):
        return bool(x)
    return x if x.dtype is DType.bool else casted(ne(x, 0), DType.bool)


def logical_and(input: Tensor, other: Any) -> Tensor:
    return binary(e.logical_and, truth(input), truth(other))


def logical_or(input: Tensor, other: Any) -> Tensor:
    return binary(e.logical_or, truth(input), truth(other))


def logical_xor(input: Tensor, other: Any) -> Tensor:
    return binary(e.logical_xor, truth(input), truth(other))


def logical_not(input: Tensor) -> Tensor:
    return CONTEXT.apply(e.logical_not, (truth(input),), {})[0]


def _bitwise(name: str, logical: Any) -> Any:
    def function(input: Any, other: Any) -> Tensor:
        if result_type(input, other) is not DType.bool:
            raise DTypeError(
                f"bitwise_{name} is for bool tensors only, got {input!r} and {other!r}",
                hint=f"logical_{name}, or convert with .bool()",
                location=user_location(),
            )
        return logical(input, other)

    function.__name__ = function.__qualname__ = f"bitwise_{name}"
    return function


bitwise_and = _bitwise("and", logical_and)
bitwise_or = _bitwise("or", logical_or)
bitwise_xor = _bitwise("xor", logical_xor)


def bitwise_not(input: Tensor) -> Tensor:
    """`~x`: logical not of bools, -x - 1 of integers."""
    return logical_not(input) if input.dtype is DType.bool else -input - 1


def isnan(input: Tensor) -> Tensor:
    return ne(input, input)


def isinf(input: Tensor) -> Tensor:
    return eq(_magnitude(input), math.inf) if input.dtype.is_float else ne(input, input)


def isfinite(input: Tensor) -> Tensor:
    return logical_not(logical_or(isnan(input), isinf(input)))


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """|input - other| <= atol + rtol · |other|, elementwise."""
    close = logical_or(input == other, logical_and(
        isfinite(input - other), _magnitude(input - other) <= atol + rtol * _magnitude(other)
    ))  # fmt: skip
    return logical_or(close, logical_and(isnan(input), isnan(other))) if equal_nan else close


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close."""
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}")
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    if input.tensor_type.shape != other.tensor_type.shape:
        return False
    return bool(eq(input, other).all())


def _magnitude(x: Tensor) -> Tensor:
    return CONTEXT.apply(e.abs, (x,), {})[0]
