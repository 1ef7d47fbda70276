"""Operators that compute one element at a time, with NumPy's broadcasting."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.dtypes import float32, int64
from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.declarations import onnx_op
from frontend.onnx.importing.element_types import DTYPES, cast_to, dtype_of
from frontend.onnx.importing.errors import OnnxError, OnnxNotHere
from frontend.onnx.importing.graphs import OnnxNode
from frontend.onnx.importing.numbers import FloatSizes
from frontend.onnx.importing.unsigned import divided, on_unsigned


def _unary(name: str, function: Callable[[Any], Any], numbers: Any = None) -> None:
    onnx_op(name, on_numbers=_number_of_one(numbers) if numbers else None)(_of_one(function))


def _number_of_one(function: Any) -> Callable[..., Any]:
    def computed(x: Any, **_: Any) -> Any:
        """Of a size only what Python says of it: its negative."""
        if x.dtype == object and function is not np.negative:
            return NotImplemented
        return function(x)

    return computed


def _of_one(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def computed(x: Tensor, *, consumed_inputs: Any = None) -> Any:
        return function(x)

    return computed


for _name, _function in {
    "Abs": on_unsigned(operator.abs), "Acos": torch.acos, "Acosh": torch.acosh,
    "Asin": torch.asin, "Asinh": torch.asinh, "Atan": torch.atan, "Atanh": torch.atanh,
    "BitwiseNot": on_unsigned(torch.bitwise_not), "Cos": torch.cos, "Cosh": torch.cosh,
    "Erf": torch.erf, "Exp": torch.exp, "IsNaN": torch.isnan, "Log": torch.log,
    "Reciprocal": torch.reciprocal, "Relu": lambda x: x.clamp(min=0), "Round": torch.round,
    "Sigmoid": torch.sigmoid, "Sign": on_unsigned(torch.sign), "Sin": torch.sin,
    "Sinh": torch.sinh, "Tan": torch.tan, "Tanh": torch.tanh,
}.items():  # fmt: skip
    _unary(_name, _function)

_ufunc: Any
for _name, _function, _ufunc in (
    ("Ceil", torch.ceil, np.ceil), ("Floor", torch.floor, np.floor),
    ("Neg", on_unsigned(torch.neg), np.negative), ("Sqrt", torch.sqrt, np.sqrt),
    ("Not", torch.logical_not, np.logical_not),
):  # fmt: skip
    _unary(_name, _function, _ufunc)


@onnx_op("Identity", on_numbers=lambda x: x)
def identity(x: Tensor) -> Any:
    return x


@onnx_op("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    wide = x.to(float32) if x.dtype.itemsize == 1 else x
    if not detect_negative:
        return wide == float("inf") if detect_positive else torch.isinf(wide) & False
    return torch.isinf(wide) if detect_positive else wide == float("-inf")


# -- two operands --------------------------------------------------------------------------------


def _aligned(x: Tensor, y: Tensor, broadcast: int, axis: int | None) -> Tensor:
    """The second operand as operator sets before 7 broadcast it: from `axis` on."""
    if broadcast and axis is not None and y.dim() and x.dim() > y.dim():
        return y.reshape(*y.shape, *[1] * (x.dim() - axis % x.dim() - y.dim()))
    return y


def _binary(name: str, function: Callable[[Any, Any], Any], numbers: Any = None) -> None:
    def computed(
        x: Tensor, y: Tensor, *, broadcast: int = 0, axis: int | None = None,
        consumed_inputs: Any = None,
    ) -> Any:  # fmt: skip
        return function(x, _aligned(x, y, broadcast, axis))

    def on_numbers(x: Any, y: Any, **_: Any) -> Any:
        return numbers(x, y)

    onnx_op(name, on_numbers=on_numbers if numbers else None)(computed)


def _kept(function: Any) -> Callable[[Any, Any], Any]:
    """A function of NumPy arrays whose results have the operands' type."""

    def kept(x: Any, y: Any) -> Any:
        result = function(x, y)
        return result if object in (x.dtype, y.dtype) else np.asarray(result, x.dtype)

    return kept


def _quotient(x: Tensor, y: Tensor) -> Any:
    if x.dtype.is_float or x.dtype.is_complex:
        return x / y
    return divided(lambda a, b: a.div(b, rounding_mode="trunc"), x, y)


def _number_quotient(x: Any, y: Any) -> Any:
    if x.dtype == object or y.dtype == object:
        return x / y if x.dtype.kind == "f" or y.dtype.kind == "f" else x // y
    return x / y if x.dtype.kind == "f" else np.trunc(x / y).astype(x.dtype)


for _name, _both, _ufunc in (
    ("Add", on_unsigned(operator.add), _kept(np.add)),
    ("Sub", on_unsigned(operator.sub), _kept(np.subtract)),
    ("Mul", on_unsigned(operator.mul), _kept(np.multiply)),
    ("Div", _quotient, _number_quotient),
    ("Equal", on_unsigned(operator.eq), np.equal),
    ("Greater", on_unsigned(operator.gt, True), np.greater),
    ("GreaterOrEqual", on_unsigned(operator.ge, True), np.greater_equal),
    ("Less", on_unsigned(operator.lt, True), np.less),
    ("LessOrEqual", on_unsigned(operator.le, True), np.less_equal),
    ("And", torch.logical_and, np.logical_and), ("Or", torch.logical_or, np.logical_or),
    ("Xor", torch.logical_xor, np.logical_xor),
    ("BitwiseAnd", on_unsigned(torch.bitwise_and), None),
    ("BitwiseOr", on_unsigned(torch.bitwise_or), None),
    ("BitwiseXor", on_unsigned(torch.bitwise_xor), None),
):  # fmt: skip
    _binary(_name, _both, _ufunc)


@onnx_op("Mod", on_numbers=lambda x, y, fmod=0: NotImplemented if fmod else _kept(np.mod)(x, y))
def mod(x: Tensor, y: Tensor, *, fmod: int = 0) -> Any:
    return divided(torch.fmod if fmod else torch.remainder, x, y, remainder=True)


@onnx_op("Pow")
def power(x: Tensor, y: Tensor, *, broadcast: int = 0, axis: int | None = None) -> Any:
    y = _aligned(x, y, broadcast, axis)
    if x.dtype.is_float and not y.dtype.is_float:
        y = y.to(x.dtype)
    return on_unsigned(torch.pow)(x, y).to(x.dtype)


@onnx_op("BitShift")
def bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Any:
    """Signed integers to the right with their sign. By less than 0, or by the width or more, what
    is left is the sign alone, or 0."""
    width, signed = x.dtype.itemsize * 8, x.dtype.numpy.kind == "i"
    bits, by = x.to(int64), y.to(int64)
    inside = (by >= 0) & (by < width)
    by = torch.where(inside, by, 0)
    if direction == "LEFT":
        return torch.where(inside, torch.bitwise_left_shift(bits, by), 0).to(x.dtype)
    if direction != "RIGHT":
        raise OnnxError(f"direction {direction!r} is neither LEFT nor RIGHT")
    shifted = torch.bitwise_right_shift(bits, by)
    if width == 64 and not signed:  # no sign comes in from above
        zeros = torch.bitwise_left_shift(torch.full_like(bits, -1), (64 - by).clamp(max=63))
        shifted = torch.where(by == 0, bits, shifted & ~zeros)
    gone = torch.where(bits < 0, -1, 0) if signed else 0
    return torch.where(inside, shifted, gone).to(x.dtype)


# -- several operands ----------------------------------------------------------------------------


@onnx_op("Max", on_numbers=lambda *xs, **_: functools.reduce(np.maximum, xs))
def maximum_of(*xs: Tensor, consumed_inputs: Any = None) -> Any:
    return functools.reduce(on_unsigned(torch.maximum, True), xs)


@onnx_op("Min", on_numbers=lambda *xs, **_: functools.reduce(np.minimum, xs))
def minimum_of(*xs: Tensor, consumed_inputs: Any = None) -> Any:
    return functools.reduce(on_unsigned(torch.minimum, True), xs)


@onnx_op("Sum")
def total(*xs: Tensor, consumed_inputs: Any = None) -> Any:
    return functools.reduce(operator.add, xs)


@onnx_op("Mean")
def mean(*xs: Tensor, consumed_inputs: Any = None) -> Any:
    return functools.reduce(operator.add, xs) / len(xs)


@onnx_op("Where", on_numbers=lambda c, x, y: np.where(c.astype(bool), x, y))
def choose(condition: Tensor, x: Tensor, y: Tensor) -> Any:
    return torch.where(condition, x, y)


@onnx_op("Clip")
def clip(
    x: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, consumed_inputs: Any = None
) -> Any:
    if min is not None:
        x = on_unsigned(torch.maximum, True)(x, min.to(x.dtype))
    return x if max is None else on_unsigned(torch.minimum, True)(x, max.to(x.dtype))


# -- casts ---------------------------------------------------------------------------------------


_WIDE_FLOATS = (1, 11)
"""Those that all sizes fit in."""


def _cast_numbers(x: Any, to: Any, **_: Any) -> Any:
    if x.dtype == object:
        if to in _WIDE_FLOATS:
            return FloatSizes(x, DTYPES[to])
        return x if to in (6, 7) else NotImplemented
    known = DTYPES.get(to) if isinstance(to, int) else None
    kinds = "fiub"
    if known is None or to > 16 or known.is_complex or x.dtype.kind not in kinds or to in (10, 16):
        return NotImplemented
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        return NotImplemented
    return x.astype(known.numpy)


@onnx_op("Cast", on_numbers=_cast_numbers)
def cast(x: Tensor, *, to: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    if isinstance(to, str):  # operator sets before 6
        raise OnnxNotHere(f"an element type by the name {to!r}", hint="export opset 6 or later")
    return cast_to(x, to, bool(saturate), round_mode)


@onnx_op("CastLike")
def cast_like(
    x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up", node: OnnxNode
) -> Any:
    kind = node.input_types[1]
    if not kind:
        kind = next(number for number, dtype in DTYPES.items() if dtype is like.dtype)
    return cast_to(x, kind, bool(saturate), round_mode)


@onnx_op("BitCast")
def bit_cast(x: Tensor, *, to: int) -> Any:
    if to > 16:
        raise OnnxNotHere("bits of types of less than 8", hint="")
    dtype = dtype_of(to)
    if dtype.itemsize != x.dtype.itemsize:
        raise ValueError(f"{x.dtype} and {dtype} have not as many bits")
    if not (dtype.is_float or x.dtype.is_float):  # integers wrap, and have these bits then
        return x.to(dtype)
    return x.view(dtype)


@onnx_op("Size", on_numbers=lambda x: np.asarray(x.size))
def size(x: Tensor) -> Any:
    return np.array(functools.reduce(operator.mul, x.shape, 1))
