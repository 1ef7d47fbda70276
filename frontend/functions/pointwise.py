"""Arithmetic and choice between two operands, after promotion: PyTorch's top-level names and
signatures. Functions of one operand stand in `unary`, and are names of this module too."""

# ruff: noqa: F401 (the functions of `unary` are used by the name of this module)

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.gradients.non_differentiable import non_differentiable
from frontend.engine.eager.promotion import (
    HALVES,
    aligned,
    binary,
    casted,
    common_shape,
    expanded,
    float_binary,
    floating,
    is_one_number,
    no_bool_subtract,
    result_type,
)
from frontend.engine.eager.uncompiled import meaning
from frontend.engine.tensors.limits import fitting, limits
from frontend.engine.tensors.symbolic_numbers import is_open, known
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import formerly, need_tensors, not_implemented, stored
from frontend.functions.declarations import public
from frontend.functions.logic import (
    bitwise_and,
    bitwise_or,
    both_bool,
    logical_and,
    logical_or,
)
from frontend.functions.unary import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    exp2,
    floor,
    log,
    log1p,
    log2,
    log10,
    neg,
    reciprocal,
    relu,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    tanh,
    trunc,
)
from graphc.errors import DTypeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType, TensorType
from graphc.ops import elementwise as e

_FACTORS = "tensor1, tensor2, *, value"

# -- sums and products ---------------------------------------------------------------------------


@public(method=True, in_place=True)
def add(input: Any, other: Any, *former: Any, alpha: Any = 1, out: Any = None) -> Tensor:
    """input + alpha · other. Bool tensors: logical or. The former `add(input, alpha, other)` is
    taken with a warning, as in PyTorch."""
    if former:
        alpha, (other,) = other, formerly("add", "other, *, alpha", former, 1)
    if alpha.__class__ is not int or alpha != 1:
        other = _scaled(input, other, alpha)
    if both_bool(input, other):
        result = bitwise_or(input, other)
    else:
        result = binary(e.add, input, other)
    return result if out is None else stored(result, out)


@public(method=True, in_place=True)
def sub(input: Any, other: Any, *former: Any, alpha: Any = 1, out: Any = None) -> Tensor:
    """input - alpha · other. The former `sub(input, alpha, other)` is taken with a warning."""
    if former:
        alpha, (other,) = other, formerly("sub", "other, *, alpha", former, 1)
    no_bool_subtract(input, other)
    if alpha.__class__ is not int or alpha != 1:
        other = _scaled(input, other, alpha, negated=True)
    result = binary(e.sub, input, other)
    return result if out is None else stored(result, out)


subtract = sub


def _scaled(input: Any, other: Any, alpha: Any, negated: bool = False) -> Any:
    """alpha · other, in the dtype of the result. `negated`: it is -alpha that has to fit there, as
    PyTorch adds -alpha · other: the least integer has no opposite."""
    kind = result_type(input, other)
    if isinstance(alpha, bool) and kind is not DType.bool:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and not kind.is_float:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    other = casted(other, kind) if isinstance(other, Tensor) else filled(other, kind, ())
    if (
        negated
        and type(alpha) is int
        and not kind.is_float
        and builtins.abs(alpha) == -limits(kind)[0]
    ):
        alpha = -alpha  # the same product, modulo the dtype
    return mul(other, bool(alpha) if kind is DType.bool else fitting(alpha, kind))


@public(node="RsubBackward1")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha · input."""
    need_tensors("rsub", input=input)
    return sub(other, input, alpha=alpha)


@public(method=True, in_place=True)
def mul(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """input · other. Bool tensors: logical and."""
    if both_bool(input, other):
        result = bitwise_and(input, other)
    else:
        result = binary(e.mul, input, other)
    return result if out is None else stored(result, out)


multiply = mul


@public(method=True, in_place=True, node="Addcmul")
def addcmul(
    input: Tensor, tensor1: Any, tensor2: Tensor, *former: Any, value: Any = 1, out: Any = None
) -> Tensor:
    """input + value · tensor1 · tensor2. The former `addcmul(input, value, tensor1, tensor2)` is
    taken with a warning, as in PyTorch."""
    if former:
        rest = (tensor2, *former)
        value, (tensor1, tensor2) = tensor1, formerly("addcmul", _FACTORS, rest, 2)
    need_tensors("addcmul", input=input, tensor1=tensor1, tensor2=tensor2)
    kind = result_type(input, tensor1, tensor2)
    _no_bool(kind, "addcmul_cpu_out")
    x, y, z = _wide((input, tensor1, tensor2), kind)
    return stored(casted(x + _times(y * z, value, kind), kind), out)


@public(method=True, in_place=True, node="Addcdiv")
def addcdiv(
    input: Tensor, tensor1: Any, tensor2: Tensor, *former: Any, value: Any = 1, out: Any = None
) -> Tensor:
    """input + value · tensor1 / tensor2. Raises RuntimeError where both are integers. The former
    `addcdiv(input, value, tensor1, tensor2)` is taken with a warning, as in PyTorch."""
    if former:
        rest = (tensor2, *former)
        value, (tensor1, tensor2) = tensor1, formerly("addcdiv", _FACTORS, rest, 2)
    need_tensors("addcdiv", input=input, tensor1=tensor1, tensor2=tensor2)
    if not (tensor1.dtype.is_float or tensor2.dtype.is_float):
        raise DTypeError(
            "Integer division with addcdiv is no longer supported. Write (input + value * "
            "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integers, or (input + value * "
            "tensor1 / tensor2) for floats.",
            location=user_location(),
        )
    kind = result_type(input, tensor1, tensor2)
    x, y, z = _wide((input, tensor1, tensor2), kind)
    return stored(casted(x + _times(y / z, value, kind), kind), out)


def _wide(tensors: tuple[Tensor, ...], kind: DType) -> list[Tensor]:
    """The tensors in `kind`; those of a half type in float32 behind that, in which products and
    sums are not rounded on their way."""
    wide = kind.computes_as if kind.is_float and kind.is_storage else kind
    return [casted(casted(x, kind), wide) for x in tensors]


def _times(x: Tensor, value: Any, kind: DType) -> Tensor:
    """value · x, where a result of this dtype is computed; a whole one of integers."""
    if type(value) is int and value == 1:
        return x
    fitting(value, kind, computed=True)
    return x * (value if kind.is_float else int(value))


@public(method=True, in_place=True, node="Lerp")
def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Any = None) -> Tensor:
    """input + weight · (end - input), exact at the weights 0 and 1. Raises RuntimeError where the
    dtypes differ, but for that of a weight without dimensions, which is promoted;
    NotImplementedError for integers."""
    need_tensors("lerp", input=input, end=end)
    if isinstance(weight, Tensor) and not weight.dim() and end.dtype is input.dtype:
        kind = result_type(input, end, weight)
        input, end, weight = (casted(x, kind) for x in (input, end, weight))
    for name, x in (("end", end), ("weight", weight)):
        if isinstance(x, Tensor) and x.dtype is not input.dtype:
            raise DTypeError(
                f"expected dtype {input.dtype} for `{name}` but got dtype {x.dtype}",
                location=user_location(),
            )
    if not input.dtype.is_float:
        raise not_implemented("lerp_kernel", input.dtype)
    way = end - input
    if isinstance(weight, Tensor):
        between = where(abs(weight) < 0.5, input + weight * way, end - way * (1 - weight))
    else:
        near = builtins.abs(weight) < 0.5
        between = input + way * weight if near else end - way * (1 - weight)
    return stored(between, out)


# -- quotients -----------------------------------------------------------------------------------


@public(method=True, in_place=True)
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Tensor:
    """input / other; integers divide to the default float dtype. `rounding_mode` "floor" rounds
    down, "trunc" towards zero, and both have gradient 0."""
    if rounding_mode is None:
        result = float_binary(e.div, input, other)
        return result if out is None else stored(result, out)
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    kind = result_type(input, other)
    _no_bool(kind, f"div_{rounding_mode}_cpu")
    if rounding_mode == "floor":
        return stored(binary(e.floordiv, input, other), out)
    if kind in HALVES and isinstance(input, Tensor) and is_one_number(other):
        # By one number the quotient is truncated before it is rounded.
        x, y = aligned((casted(input, kind), other), kind.computes_as)
        return stored(casted(trunc(binary(e.div, x, y)), kind), out)
    if kind.is_float:
        return stored(trunc(binary(e.div, input, other)), out)
    whole = binary(e.sub, input, binary(e.fmod, input, other))
    return stored(binary(e.floordiv, whole, other), out)


divide = div


@public(method=True, in_place=True)
def true_divide(dividend: Any, divisor: Any, *, out: Any = None) -> Tensor:
    """dividend / divisor; integers divide to the default float dtype."""
    return div(dividend, divisor, out=out)


def _no_bool(kind: DType, kernel: str) -> None:
    if kind is DType.bool:
        raise not_implemented(kernel, kind)


@public(method=True, in_place=True)
def floor_divide(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """input / other rounded down. Backward through it raises RuntimeError, as in PyTorch;
    `div(rounding_mode="floor")` has gradient 0."""
    _no_bool(result_type(input, other), "div_floor_cpu")
    divided = lambda x, y: binary(e.floordiv, x, y)  # noqa: E731
    return stored(non_differentiable("floor_divide", divided, input, other), out)


@public(method=True, in_place=True)
def remainder(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """input modulo other, with the sign of other."""
    _no_bool(result_type(input, other), "remainder_cpu")
    return stored(binary(e.mod, input, other), out)


@public(method=True, in_place=True)
def fmod(input: Tensor, other: Any, *, out: Any = None) -> Tensor:
    """input modulo other, with the sign of input."""
    need_tensors("fmod", input=input)
    _no_bool(result_type(input, other), "fmod_cpu")
    return stored(binary(e.fmod, input, other), out)


# -- powers --------------------------------------------------------------------------------------


@public(method=True, in_place=True, node="Pow")
def pow(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """input to a power. A small whole exponent multiplies; 0.5 is a square root. Integers stay
    integers, and to a negative power they are 0 but for 1 and -1."""
    if not is_open(exponent) or not exponent > 16:  # how it is computed depends on it
        exponent = known(exponent, "a power of a tensor")
    simple = isinstance(input, Tensor) and type(exponent) in (int, float)
    result = _simple_power(input, exponent) if simple else None
    if result is None:
        kind = result_type(input, exponent)
        if kind is DType.bool and isinstance(exponent, bool):
            result = logical_or(input, filled(not exponent, kind, ()))
            return result if out is None else stored(result, out)
        _no_bool(kind, "pow")
        if not kind.is_float and not isinstance(exponent, Tensor) and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        fitting(exponent, kind)
        result = binary(e.pow, input, exponent)
    return result if out is None else stored(result, out)


def _simple_power(x: Tensor, exponent: Any) -> Tensor | None:
    if math.isfinite(exponent) and exponent == int(exponent):
        whole = int(exponent)
        if not x.dtype.is_float and type(exponent) is float:
            x = floating(x)
        if x.dtype is DType.bool:
            x = casted(x, DType.i64)
        if 1 <= whole <= 16:
            return _multiplied(x, whole)
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
    squared = binary(e.mul, half, half)
    return binary(e.mul, squared, x) if times % 2 else squared


@public(method=True, node="Pow")
def float_power(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """input to a power, in float64, or complex128."""
    kind = DType.c128 if result_type(input, exponent).is_complex else DType.f64
    base, power = (
        casted(x, kind) if isinstance(x, Tensor) else kind.numpy.type(x).item()
        for x in (input, exponent)
    )
    return stored(pow(base, power), out)


# -- choice --------------------------------------------------------------------------------------


@public(method=True)
def maximum(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The greater of two; NaN wins. Equal elements share the gradient."""
    return _extreme("maximum", e.maximum, logical_or, input, other, out)


@public(method=True)
def minimum(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The smaller of two; NaN wins. Equal elements share the gradient."""
    return _extreme("minimum", e.minimum, logical_and, input, other, out)


def _extreme(name: str, op: Any, of_bools: Any, x: Tensor, y: Tensor, out: Any) -> Tensor:
    need_tensors(name, input=x, other=y)
    result = of_bools(x, y) if both_bool(x, y) else binary(op, x, y)
    return result if out is None else stored(result, out)


@public(method=True, node="Fmax")
def fmax(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The greater of two; a number wins over NaN. Of equal elements the first has the gradient."""
    return _number_extreme("fmax", maximum, input, other, out)


@public(method=True, node="Fmin")
def fmin(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The smaller of two; a number wins over NaN. Of equal elements the first has the gradient."""
    return _number_extreme("fmin", minimum, input, other, out)


def _number_extreme(name: str, extreme: Any, x: Tensor, y: Tensor, out: Any) -> Tensor:
    need_tensors(name, input=x, other=y)
    if not result_type(x, y).is_float:
        return extreme(x, y, out=out)
    better = x >= y if name == "fmax" else x <= y
    return stored(where(logical_or(better, y != y), x, y), out)


@public(method=True, in_place="torch")
def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
    """Elements below `min` become `min`, above `max` become `max`: both numbers, or both
    tensors."""
    need_tensors("clamp", input=input)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    present = [x for x in (min, max) if x is not None]
    if len({isinstance(x, Tensor) for x in present}) > 1:
        raise TypeError(
            "clamp() received an invalid combination of arguments: 'min' and 'max' must be both "
            "numbers or both tensors"
        )
    kind = result_type(input, *present)
    if kind is DType.bool and len(present) == 1 and isinstance(present[0], Tensor):
        low, high = (x if x is None else x.int() for x in (min, max))
        return stored(clamp(input.int(), low, high).bool(), out)
    _no_bool(kind, "clamp_cpu")
    if not kind.is_computed:
        meaning(e.clamp, (TensorType(kind, ()),))  # a dtype without it is refused before a bound is
    for bound in present:
        fitting(bound, kind)
    least, greatest = limits(kind)
    low, high = least if min is None else min, greatest if max is None else max
    clamped = CONTEXT.apply(e.clamp, aligned((input, low, high), kind), {})[0]
    return clamped if out is None else stored(clamped, out)


clip = clamp


@public(method=True, in_place="torch", node="ClampMin")
def clamp_min(input: Tensor, min: Any, *, out: Any = None) -> Tensor:
    """Elements below `min` become `min`."""
    return clamp(input, min=min, out=out)


@public(method=True, in_place="torch", node="ClampMax")
def clamp_max(input: Tensor, max: Any, *, out: Any = None) -> Tensor:
    """Elements above `max` become `max`."""
    return clamp(input, max=max, out=out)


@public()
def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """`input` where `condition` holds, else `other`; `where(condition)` gives the positions, as
    `nonzero(as_tuple=True)` does."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    need_tensors("where", condition=condition)
    if condition.dtype is not DType.bool:
        raise DTypeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype}",
            location=user_location(),
        )
    kind = result_type(input, other)
    shape = common_shape(condition, input, other)
    x, y = (
        expanded(casted(v, kind), shape)
        if isinstance(v, Tensor)
        else filled(fitting(v, kind, computed=True), kind, shape)
        for v in (input, other)
    )
    chosen = CONTEXT.apply(e.where, (expanded(condition, shape), x, y), {})[0]
    return chosen if out is None else stored(chosen, out)


# -- conversion ----------------------------------------------------------------------------------


@public(method=True)
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own memory; gradients flow through it."""
    return CONTEXT.apply(e.cast, (input,), {"dtype": input.dtype})[0]
