"""Pointwise functions beyond arithmetic: of two operands (angles, logarithms, signs), tests for
infinities, and functions of one operand that are made of several ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.gradients.non_differentiable import non_differentiable
from frontend.engine.eager.promotion import binary, casted, float_binary, floating, result_type
from frontend.engine.eager.uncompiled import real_part
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors, not_implemented, stored
from frontend.functions.declarations import public
from frontend.functions.logic import isnan
from frontend.functions.pointwise import clamp, mul, pow, where
from frontend.functions.unary import exp, exp2, log1p, sin
from graphc.errors import DTypeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops import elementwise as e
from graphc.ops.scalar_functions import special, trigonometric
from graphc.system import IMPORTING

# -- two operands --------------------------------------------------------------------------------


@public(method=True, in_place=True)
def atan2(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The angle between -π and π of the point (other, input); its gradient at the origin is 0."""
    need_tensors("atan2", input=input, other=other)
    return stored(float_binary(trigonometric.atan2, input, other), out)


arctan2 = atan2


def _of_floats(name: str, op: Any, x: Any, y: Any, out: Any) -> Tensor:
    need_tensors(name, input=x, other=y)
    kind = result_type(x, y)
    if not kind.is_float:
        raise not_implemented(f"{name}_cpu", kind)
    return stored(binary(op, x, y), out)


@public(method=True, in_place=True)
def hypot(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """√(input² + other²), without overflow. At least one operand is floating point."""
    return _of_floats("hypot", trigonometric.hypot, input, other, out)


@public(method=True)
def logaddexp(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """log(exp(input) + exp(other)), without overflow. At least one operand is floating point."""
    need_tensors("logaddexp", input=input, other=other)
    if input.is_complex() or other.is_complex():
        return stored(_added_logarithms(input, other), out)
    return _of_floats("logaddexp", special.logaddexp, input, other, out)


def _added_logarithms(x: Tensor, y: Tensor) -> Tensor:
    """logaddexp of complex numbers: the one with the greater real part is taken out."""
    first = real_part(x) >= real_part(y)
    greater, less = where(first, x, y), where(first, y, x)
    return greater + log1p(exp(less - greater))


@public(method=True)
def logaddexp2(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """log2(2^input + 2^other), without overflow. At least one operand is floating point."""
    return _of_floats("logaddexp2", special.logaddexp2, input, other, out)


@public(method=True, in_place="torch")
def xlogy(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """input · log(other), and 0 where input is 0 and other no NaN. One may be a number."""
    if not isinstance(other, Tensor):
        need_tensors("xlogy", input=input)
    return stored(float_binary(special.xlogy, input, other), out)


@public(method=True, in_place=True)
def copysign(input: Tensor, other: Any, *, out: Any = None) -> Tensor:
    """The magnitude of input with the sign of other (a tensor or number), also of -0."""
    need_tensors("copysign", input=input)
    return stored(float_binary(e.copysign, input, other), out)


@public(method=True, in_place=True)
def heaviside(input: Tensor, values: Tensor, *, out: Any = None) -> Tensor:
    """0 where input is negative or NaN, 1 where it is positive, `values` where it is 0. Backward
    through it raises RuntimeError."""
    need_tensors("heaviside", input=input, values=values)
    if input.dtype is not values.dtype:
        raise DTypeError(
            "heaviside is not yet implemented for tensors with different dtypes.",
            location=user_location(),
        )
    step = lambda x, y: where(x == 0, y, casted(x > 0, x.dtype))  # noqa: E731
    return stored(non_differentiable("heaviside", step, input, values), out)


@public(method=True, in_place="torch")
def ldexp(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """input · 2^other. Of a floating `input` and whole `other` in the dtype of `input`, rounded
    once, whether or not 2^other has a value there."""
    need_tensors("ldexp", input=input, other=other)
    if not input.dtype.is_float or other.dtype.is_float or other.dtype.is_complex:
        return mul(input, pow(2.0, other), out=out)
    exponent, result = casted(other, DType.i64), casted(input, DType.f64)
    # A product with a tiny power comes with one behind it that leaves nothing, so that no result
    # is rounded twice.
    for _ in range(3 if input.dtype is DType.f64 else 1):
        step = where(exponent < -1022, -969, clamp(exponent, max=1023))
        result = result * exp2(casted(step, DType.f64))
        exponent = exponent - step
    return stored(casted(result, input.dtype), out)


# -- one operand ---------------------------------------------------------------------------------


@public(method=True, in_place="torch", node="Sinc")
def sinc(input: Tensor, *, out: Any = None) -> Tensor:
    """sin(πx) / πx, and 1 at 0."""
    kind = floating(input).dtype
    x = casted(input, kind if kind.is_complex else kind.computes_as)  # half types round once
    flat = x == 0
    angle = where(flat, 1.0, x) * math.pi
    return stored(casted(where(flat, 1.0, sin(angle) / angle), kind), out)


@public(method=True, in_place="torch")
def logit(input: Tensor, eps: float | None = None, *, out: Any = None) -> Tensor:
    """log(x / (1 - x)), NaN outside of [0, 1]; with `eps` what is below it counts as eps,
    else what is above 1 - eps as that (where eps is above 1/2, everything counts as either)."""
    x = floating(input)
    if eps is not None:
        eps = fitting(eps, x.dtype)
        x = where(x < eps, eps, where(x > 1 - eps, 1 - eps, x))
    return stored(CONTEXT.apply(special.logit, (x,), {})[0], out)


@public(method=True, in_place="torch", node="Deg2Rad")
def deg2rad(input: Tensor, *, out: Any = None) -> Tensor:
    """Degrees as radians."""
    return stored(floating(input) * (math.pi / 180), out)


@public(method=True, in_place="torch", node="Rad2Deg")
def rad2deg(input: Tensor, *, out: Any = None) -> Tensor:
    """Radians as degrees."""
    return stored(floating(input) * (180 / math.pi), out)


@public(method=True, in_place="torch", node="NanToNum")
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None,
    neginf: float | None = None, *, out: Any = None,
) -> Tensor:  # fmt: skip
    """NaN (by default 0) and infinities (by default the greatest and least number of the dtype)
    replaced by numbers."""
    need_tensors("nan_to_num", input=input)
    if not input.dtype.is_float:
        return stored(input.clone(), out)
    greatest = _greatest(input.dtype)
    high = greatest if posinf is None else posinf
    low = -greatest if neginf is None else neginf
    finite = where(input == math.inf, high, where(input == -math.inf, low, input))
    return stored(where(isnan(input), 0.0 if nan is None else nan, finite), out)


def _greatest(kind: DType) -> float:
    """The greatest number of a float dtype."""
    if not kind.is_storage:
        return float(np.finfo(kind.numpy).max)
    with IMPORTING:
        import ml_dtypes

    return float(ml_dtypes.finfo(kind.numpy).max)


# -- tests ---------------------------------------------------------------------------------------


def _is_number(input: Tensor, number: float) -> Tensor:
    if input.dtype.is_float:
        return input == number
    return filled(False, DType.bool, input._sizes).clone()


@public(method=True)
def isposinf(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether each element is +infinity."""
    need_tensors("isposinf", input=input)
    return stored(_is_number(input, math.inf), out)


@public(method=True)
def isneginf(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether each element is -infinity."""
    need_tensors("isneginf", input=input)
    return stored(_is_number(input, -math.inf), out)
