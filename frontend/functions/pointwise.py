"""Pointwise functions of tensors, after promotion: PyTorch's top-level names and signatures."""

from __future__ import annotations

import math
from typing import Any

from frontend.dispatch import CONTEXT, apply_unary, filled
from frontend.functions.logic import both_bool, isinf, isnan, logical_and, logical_or
from frontend.promotion import (
    aligned,
    binary,
    casted,
    common_shape,
    expanded,
    float_binary,
    floating,
    no_bool_subtract,
    result_type,
)
from frontend.tensor import Tensor
from graphc.errors import DTypeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops import elementwise as e

__all__ = [
    "abs", "add", "addcdiv", "addcmul", "ceil", "clamp", "clone", "cos", "div", "erf", "exp",
    "exp2", "floor", "floor_divide", "lerp", "log", "log1p", "log2", "log10", "maximum",
    "minimum", "mul", "nan_to_num", "neg", "pow", "reciprocal", "relu", "remainder", "round",
    "rsqrt", "rsub", "sigmoid", "sign", "sin", "sqrt", "square", "sub", "tanh", "trunc",
    "where",
]  # fmt: skip
METHODS = (
    "add sub mul div floor_divide remainder neg pow exp log sin cos sqrt rsqrt tanh sigmoid erf "
    "floor ceil round abs sign relu trunc square reciprocal log1p log2 log10 exp2 maximum minimum "
    "clamp lerp addcmul addcdiv nan_to_num clone"
)
IN_PLACE = (
    "add sub mul div floor_divide remainder pow neg exp log sin cos sqrt rsqrt tanh sigmoid erf "
    "floor ceil round abs sign relu trunc reciprocal square clamp lerp addcmul addcdiv nan_to_num"
)

# -- arithmetic ----------------------------------------------------------------------------------


def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha · other. Bool tensors: logical or."""
    if type(alpha) is not int or alpha != 1:
        other = mul(other, alpha) if isinstance(other, Tensor) else other * alpha
    if both_bool(input, other):
        return logical_or(input, other)
    return binary(e.add, input, other)


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input - alpha · other."""
    no_bool_subtract(input, other)
    if type(alpha) is not int or alpha != 1:
        other = mul(other, alpha) if isinstance(other, Tensor) else other * alpha
    return binary(e.sub, input, other)


def rsub(input: Any, other: Any) -> Tensor:
    """other - input."""
    return sub(other, input)


def mul(input: Any, other: Any) -> Tensor:
    """input · other. Bool tensors: logical and."""
    if both_bool(input, other):
        return logical_and(input, other)
    return binary(e.mul, input, other)


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; integers divide to the default float dtype. `rounding_mode` "floor" rounds
    down, "trunc" towards zero."""
    if rounding_mode is None:
        return float_binary(e.div, input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    kind = result_type(input, other)
    if kind.is_float:
        return trunc(binary(e.div, input, other))
    # Rounded down, and one more where that is below a quotient that is not whole.
    down = floor_divide(input, other)
    below = logical_and(down < 0, down * other != input)
    return casted(down + casted(below, kind), kind)


def floor_divide(input: Any, other: Any) -> Tensor:
    """input / other rounded down."""
    return binary(e.floordiv, input, other)


def remainder(input: Any, other: Any) -> Tensor:
    """input modulo other, with the sign of other."""
    return binary(e.mod, input, other)


def neg(input: Tensor) -> Tensor:
    if input.dtype is DType.bool:
        raise DTypeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead.",
            location=user_location(),
        )
    return CONTEXT.apply(e.neg, (input,), {})[0]


def pow(input: Any, exponent: Any) -> Tensor:
    """input to a power. A small whole exponent multiplies; 0.5 is a square root."""
    if isinstance(input, Tensor) and type(exponent) in (int, float):
        simple = _simple_power(input, exponent)
        if simple is not None:
            return simple
    kind = result_type(input, exponent)
    if kind.is_float:
        return binary(e.pow, input, exponent)
    if not isinstance(exponent, Tensor) and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    powered = CONTEXT.apply(e.pow, aligned((input, exponent), DType.f64), {})[0]
    return casted(powered, kind)


def _simple_power(x: Tensor, exponent: Any) -> Tensor | None:
    if exponent == int(exponent) if math.isfinite(exponent) else False:
        whole = int(exponent)
        if not x.dtype.is_float and type(exponent) is float:
            x = floating(x)
        if 1 <= whole <= 16 and x.dtype is not DType.bool:
            return _multiplied(x, whole)
        if whole == 0 and x.dtype is not DType.bool:
            return x * 0 + 1 if x.dtype.is_integer else binary(e.pow, x, 0.0)
        if -4 <= whole < 0 and x.dtype.is_float:
            return float_binary(e.div, 1, _multiplied(x, -whole))
    if exponent == 0.5:
        return sqrt(x)
    return rsqrt(x) if exponent == -0.5 else None


def _multiplied(x: Tensor, times: int) -> Tensor:
    """x to a whole power by repeated squaring."""
    if times == 1:
        return binary(e.mul, x, 1)
    half = x if times // 2 == 1 else _multiplied(x, times // 2)
    square = binary(e.mul, half, half)
    return binary(e.mul, square, x) if times % 2 else square


# -- functions of one operand --------------------------------------------------------------------


def _unary(op: Any, text: str) -> Any:
    def function(input: Tensor) -> Tensor:
        return apply_unary(op, floating(input))

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = f"{text}, elementwise; integers become the default float dtype."
    return function


def _whole(op: Any, text: str) -> Any:
    def function(input: Tensor) -> Tensor:
        if not input.dtype.is_float:
            return input.clone()
        return CONTEXT.apply(op, (input,), {})[0]

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = f"{text}, elementwise; integers are left as they are."
    return function


exp = _unary(e.exp, "e to the power of x")
log = _unary(e.log, "The natural logarithm")
sin = _unary(e.sin, "The sine")
cos = _unary(e.cos, "The cosine")
sqrt = _unary(e.sqrt, "The square root")
rsqrt = _unary(e.rsqrt, "1 / √x")
tanh = _unary(e.tanh, "The hyperbolic tangent")
sigmoid = _unary(e.sigmoid, "1 / (1 + exp(-x))")
erf = _unary(e.erf, "The error function")
floor = _whole(e.floor, "Rounded down")
ceil = _whole(e.ceil, "Rounded up")
round = _whole(e.round, "Rounded to the nearest whole number, halves to even")


def abs(input: Tensor) -> Tensor:
    """The magnitude, elementwise."""
    return CONTEXT.apply(e.abs, (input,), {})[0]


def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign, elementwise."""
    return CONTEXT.apply(e.sign, (input,), {})[0]


def relu(input: Tensor) -> Tensor:
    """max(x, 0); the gradient at 0 is 0."""
    return CONTEXT.apply(e.relu, (input,), {})[0]


def trunc(input: Tensor) -> Tensor:
    """Rounded towards zero."""
    if not input.dtype.is_float:
        return input.clone()
    return where(input < 0, ceil(input), floor(input))


def square(input: Tensor) -> Tensor:
    return binary(e.mul, input, input)


def reciprocal(input: Tensor) -> Tensor:
    return float_binary(e.div, 1, input)


def log1p(input: Tensor) -> Tensor:
    """log(1 + x), exact also where x is small (by Kahan's correction)."""
    x = floating(input)
    y = x + 1
    exact = log(y) * x / where(y == 1, 1.0, y - 1)
    return where(y == 1, x, where(isinf(y), log(y), exact))


def log2(input: Tensor) -> Tensor:
    return log(input) * (1 / math.log(2))


def log10(input: Tensor) -> Tensor:
    return log(input) * (1 / math.log(10))


def exp2(input: Tensor) -> Tensor:
    return exp(floating(input) * math.log(2))


# -- two operands, choice ------------------------------------------------------------------------


def maximum(input: Tensor, other: Tensor) -> Tensor:
    """The greater of two; NaN wins. Equal elements share the gradient."""
    return binary(e.maximum, input, other)


def minimum(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of two; NaN wins. Equal elements share the gradient."""
    return binary(e.minimum, input, other)


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Elements below `min` become `min`, above `max` become `max` (numbers or tensors)."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    present = [x for x in (input, min, max) if x is not None]
    kind = result_type(*present)
    low = (-math.inf if kind.is_float else -(2 ** (8 * kind.itemsize - 1))) if min is None else min
    high = (math.inf if kind.is_float else 2 ** (8 * kind.itemsize - 1) - 1) if max is None else max
    return CONTEXT.apply(e.clamp, aligned((input, low, high), kind), {})[0]


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where `condition` holds, else `other`; `where(condition)` gives the positions, as
    `nonzero(as_tuple=True)` does."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if condition.dtype is not DType.bool:
        raise DTypeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype}",
            location=user_location(),
        )
    kind = result_type(input, other)
    shape = common_shape(condition, input, other)
    x, y = (
        expanded(casted(v, kind), shape) if isinstance(v, Tensor) else filled(v, kind, shape)
        for v in (input, other)
    )
    return CONTEXT.apply(e.where, (expanded(condition, shape), x, y), {})[0]


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight · (end - input)."""
    return input + (end - input) * weight


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value · tensor1 · tensor2."""
    product = tensor1 * tensor2
    return input + (product if type(value) is int and value == 1 else product * value)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value · tensor1 / tensor2."""
    quotient = tensor1 / tensor2
    return input + (quotient if type(value) is int and value == 1 else quotient * value)


def nan_to_num(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and infinities replaced by numbers (the greatest and least of the dtype by default)."""
    import numpy as np

    limits = np.finfo(input.dtype.numpy)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    finite = where(input == math.inf, high, where(input == -math.inf, low, input))
    return where(isnan(input), nan, finite)


# -- conversion ----------------------------------------------------------------------------------


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own memory; gradients flow through it."""
    return CONTEXT.apply(e.cast, (input,), {"dtype": input.dtype})[0]
