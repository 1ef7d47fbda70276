"""What each opcode of the loop IR gives, in NumPy: arrays of one element per lane.

In: a `Let` and its operands. Out: the bits opcodes.py states; the interpreter runs these, and the
LLVM text folds constants by them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from graphc.codegen.loop_ir.nodes import LIBM_ARITY, Let
from graphc.codegen.loop_ir.opcodes import TABLE_SIZE
from graphc.errors import LoweringError
from graphc.ir.types import DType
from graphc.ops.conversion import convert
from graphc.ops.kinds.numpy_fma import fma32
from graphc.system import c_function

Array = np.ndarray[Any, Any]


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a*b + c of arrays of one shape: floats rounded once, integers wrap."""
    if a.dtype == np.float32:
        return fma32(a, b, c)
    if a.dtype != np.float64:
        return np.asarray(a * b + c, a.dtype)
    function = libm_function("fma", DType.f64, 3)
    lanes = zip(a.ravel(), b.ravel(), c.ravel(), strict=True)
    return np.array([function(*lane) for lane in lanes], np.float64).reshape(a.shape)


def _fma(statement: Let, a: Array, b: Array, c: Array) -> Array:
    return fused_multiply_add(a, b, c)


@functools.cache
def libm_function(name: str, dtype: DType, arity: int) -> Callable[..., float]:
    """The process's own libm function, the one native code calls."""
    kind = ctypes.c_float if dtype is DType.f32 else ctypes.c_double
    function = c_function(name + ("f" if dtype is DType.f32 else ""))
    if function is None:
        raise LoweringError(f"this system's C library is not at hand, or has no {name}")
    function.restype = kind
    function.argtypes = [kind] * arity
    return cast("Callable[..., float]", function)


def _call(statement: Let, *operands: Array) -> Array:
    name = statement.attribute
    function = libm_function(name, statement.result.type.dtype, LIBM_ARITY[name])
    return np.array([function(*lane) for lane in zip(*operands)], operands[0].dtype)


def _divide(a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient and remainder of integers, truncated."""
    special = (b == 0) | (b == -1)
    safe = np.where(special, 1, b)
    quotient = a // safe
    remainder = a - quotient * safe
    raised = (remainder != 0) & ((a < 0) != (safe < 0))
    quotient, remainder = quotient + raised, remainder - raised * safe
    quotient = np.where(b == -1, -a, np.where(b == 0, 0, quotient))
    return quotient.astype(a.dtype), np.where(special, 0, remainder).astype(a.dtype)


def _div(statement: Let, a: Array, b: Array) -> Array:
    return a / b if a.dtype.kind == "f" else _divide(a, b)[0]


def _rem(statement: Let, a: Array, b: Array) -> Array:
    result: Array = np.fmod(a, b) if a.dtype.kind == "f" else _divide(a, b)[1]
    return result


def _floordiv(statement: Let, a: Array, b: Array) -> Array:
    quotient, remainder = _divide(a, b)
    below: Array = (remainder != 0) & ((remainder < 0) != (b < 0))
    return quotient - below


def _mod(statement: Let, a: Array, b: Array) -> Array:
    remainder = _divide(a, b)[1]
    below: Array = (remainder != 0) & ((remainder < 0) != (b < 0))
    result: Array = remainder + below * b
    return result


def _minimum(statement: Let, a: Array, b: Array) -> Array:
    result: Array = np.where((a < b) | (a != a), a, b)
    return result


def _maximum(statement: Let, a: Array, b: Array) -> Array:
    result: Array = np.where((a > b) | (a != a), a, b)
    return result


def _amount(amount: Array) -> Array:
    return amount & (8 * amount.itemsize - 1)


def _lshr(statement: Let, a: Array, amount: Array) -> Array:
    unsigned = np.dtype(f"u{a.itemsize}")
    shifted: Array = a.view(unsigned) >> _amount(amount).view(unsigned)
    return shifted.view(a.dtype)


def _convert(statement: Let, a: Array) -> Array:
    result: Array = convert(a, statement.result.type.dtype)
    return result


def _dot_pairs(statement: Let, total: Array, a: Array, b: Array) -> Array:
    def halves(pairs: Array, amount: int) -> Array:
        result: Array = ((pairs >> amount) << 16).view(np.float32)
        return result

    odd = fma32(halves(a, 16), halves(b, 16), total)
    return fma32(halves(a, 0), halves(b, 0), odd)


def _dot_quads(statement: Let, total: Array, a: Array, b: Array) -> Array:
    products = a.view(np.uint8).astype(np.int32) * b.view(np.int8)
    result: Array = total + products.reshape(-1, 4).sum(axis=1, dtype=np.int32)
    return result


def _least_pairs(statement: Let, least: Array, pairs: Array) -> Array:
    sizes = (pairs.view(np.uint16) & np.uint16(0x7FFF)) - np.uint16(1)
    result: Array = np.minimum(least.view(np.uint16), sizes).view(np.int32)
    return result


def _insert(statement: Let, a: Array, scalar: Array) -> Array:
    result = a.copy()
    result[statement.attribute] = scalar[0]
    return result


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    def operation(statement: Let, *operands: Array) -> Array:
        result: Array = function(*operands)
        return result

    return operation


OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _div,
    "rem": _rem,
    "floordiv": _floordiv,
    "mod": _mod,
    "neg": _plain(np.negative),
    "abs": _plain(np.abs),
    "fma": _fma,
    "sqrt": _plain(np.sqrt),
    "floor": _plain(np.floor),
    "ceil": _plain(np.ceil),
    "trunc": _plain(np.trunc),
    "round": _plain(np.rint),
    "minimum": _minimum,
    "maximum": _maximum,
    "eq": _plain(np.equal),
    "ne": _plain(np.not_equal),
    "lt": _plain(np.less),
    "le": _plain(np.less_equal),
    "gt": _plain(np.greater),
    "ge": _plain(np.greater_equal),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "not": _plain(np.invert),
    "shl": lambda statement, a, amount: a << _amount(amount),
    "lshr": _lshr,
    "ashr": lambda statement, a, amount: a >> _amount(amount),
    "select": _plain(np.where),
    "convert": _convert,
    "bitcast": lambda statement, a: a.view(statement.attribute.numpy),
    "splat": lambda statement, a: np.repeat(a, statement.attribute),
    "extract": lambda statement, a: a[statement.attribute : statement.attribute + 1],
    "insert": _insert,
    "dot_pairs": _dot_pairs,
    "dot_quads": _dot_quads,
    "least_pairs": _least_pairs,
    "lookup": lambda statement, a: np.array(statement.attribute, np.int32)[a % TABLE_SIZE],
    "shuffle": lambda statement, a, b: np.concatenate((a, b))[list(statement.attribute)],
    "call": _call,
}
