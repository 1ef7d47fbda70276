"""The scalar algebra on NumPy arrays: what an op's `scalar` rule means when it runs eagerly and in
the reference interpreter. codegen has the same methods on loop values."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from graphc.ir.dims import Extent, fixed
from graphc.ops import conversion
from graphc.system import c_function

Array = np.ndarray[Any, Any]


_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of the standard library (NumPy has none of these) on arrays, computed in f64."""
    objects = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(objects(x.astype(np.float64)), x.dtype)


def _lgamma(x: float) -> float:
    """log |Γ(x)| by the C library where there is one: Python's own loses digits near its zeros."""
    return float(_c_lgamma()(x))


@cache
def _c_lgamma() -> Any:
    import ctypes

    function = c_function("lgamma")
    if function is None:
        return math.lgamma
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
    return function


class NumpyAlgebra:
    """Methods named after what they compute; arrays in, array out, the dtype kept."""

    @staticmethod
    def constant(value: float | int | bool, like: Array) -> Any:
        return like.dtype.type(value)

    @staticmethod
    def extent(size: Extent) -> Any:
        """A size as an i64."""
        return np.asarray(fixed(size), np.int64)

    @staticmethod
    def flatten(index: tuple[Array, ...], shape: tuple[int, ...]) -> Any:
        """The row-major flat position of a coordinate, as i64."""
        # From the last axis on: the short rows are added up before they are repeated.
        flat: Any = np.int64(0)
        step = 1
        for coordinate, dim in zip(reversed(index), reversed(shape), strict=True):
            flat = coordinate * step + flat
            step *= dim
        return flat

    xor = staticmethod(np.bitwise_xor)
    bit_or = staticmethod(np.bitwise_or)
    bit_and = staticmethod(np.bitwise_and)
    bit_not = staticmethod(np.invert)
    shift_left = staticmethod(np.left_shift)
    shift_right = staticmethod(np.right_shift)

    @staticmethod
    def width(x: Array) -> int:
        """Bits of an element."""
        return 8 * int(x.dtype.itemsize)

    @staticmethod
    def rotl(x: Array, count: int) -> Any:
        """The bits of each element rotated to the left, 0 < count < width."""
        unsigned = _UNSIGNED[x.dtype.itemsize]
        bits = x.view(unsigned)
        left = np.left_shift(bits, unsigned(count))
        right = np.right_shift(bits, unsigned(8 * x.dtype.itemsize - count))
        left |= right
        return left.view(x.dtype)

    @staticmethod
    def lshr(x: Array, count: int) -> Any:
        unsigned = _UNSIGNED[x.dtype.itemsize]
        return np.right_shift(x.view(unsigned), unsigned(count)).view(x.dtype)

    add = staticmethod(np.add)
    sub = staticmethod(np.subtract)
    mul = staticmethod(np.multiply)
    div = staticmethod(np.divide)
    floordiv = staticmethod(np.floor_divide)
    mod = staticmethod(np.remainder)
    neg = staticmethod(np.negative)
    abs = staticmethod(np.abs)
    floor = staticmethod(np.floor)
    ceil = staticmethod(np.ceil)
    round = staticmethod(np.rint)
    trunc = staticmethod(np.trunc)
    fmod = staticmethod(np.fmod)
    signbit = staticmethod(np.signbit)
    copysign = staticmethod(np.copysign)
    sqrt = staticmethod(np.sqrt)
    exp = staticmethod(np.exp)
    exp_of_nonpositive = staticmethod(np.exp)
    exp2 = staticmethod(np.exp2)
    expm1 = staticmethod(np.expm1)
    log = staticmethod(np.log)
    log2 = staticmethod(np.log2)
    log10 = staticmethod(np.log10)
    log1p = staticmethod(np.log1p)
    log1p_of_fraction = staticmethod(np.log1p)
    sin = staticmethod(np.sin)
    cos = staticmethod(np.cos)
    tan = staticmethod(np.tan)
    asin = staticmethod(np.arcsin)
    acos = staticmethod(np.arccos)
    atan = staticmethod(np.arctan)
    atan2 = staticmethod(np.arctan2)
    sinh = staticmethod(np.sinh)
    cosh = staticmethod(np.cosh)
    tanh = staticmethod(np.tanh)
    asinh = staticmethod(np.arcsinh)
    acosh = staticmethod(np.arccosh)
    atanh = staticmethod(np.arctanh)
    hypot = staticmethod(np.hypot)
    erf = staticmethod(_by_element(math.erf))
    erfc = staticmethod(_by_element(math.erfc))
    lgamma = staticmethod(_by_element(_lgamma))
    minimum = staticmethod(np.minimum)
    maximum = staticmethod(np.maximum)
    eq = staticmethod(np.equal)
    ne = staticmethod(np.not_equal)
    lt = staticmethod(np.less)
    le = staticmethod(np.less_equal)
    gt = staticmethod(np.greater)
    ge = staticmethod(np.greater_equal)
    logical_and = staticmethod(np.logical_and)
    logical_or = staticmethod(np.logical_or)
    logical_xor = staticmethod(np.logical_xor)
    logical_not = staticmethod(np.logical_not)
    select = staticmethod(np.where)

    @staticmethod
    def pow(x: Array, y: Array) -> Any:
        if x.dtype == np.float32:
            # NumPy's own f32 power is off by some ULP where it uses AVX-512.
            return np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
        if x.dtype.kind == "f":
            return np.power(x, y)
        # Of integers: 1 / x**-y rounded towards 0 where y is negative, and 0 where x is 0.
        one = x.dtype.type(1)
        flipped = np.where(x == -one, one - (y & one) * 2, 0)
        below = np.where(x == one, one, flipped).astype(x.dtype)
        return np.where(y < 0, below, np.power(x, np.maximum(y, 0)))

    @staticmethod
    def sign(x: Array) -> Any:
        # Not np.sign: the sign of NaN is 0, as in PyTorch.
        return np.subtract(np.greater(x, 0), np.less(x, 0), dtype=x.dtype)

    @staticmethod
    def rsqrt(x: Array) -> Any:
        return x.dtype.type(1) / np.sqrt(x)

    @staticmethod
    def sigmoid(x: Array) -> Any:
        decay = np.exp(-np.abs(x))
        return np.where(np.signbit(x), decay, x.dtype.type(1)) / (x.dtype.type(1) + decay)

    @staticmethod
    def wide(x: Array) -> Any:
        return x.astype(np.float64)

    @staticmethod
    def narrow(x: Array, like: Array) -> Any:
        return x.astype(like.dtype)

    convert = staticmethod(conversion.convert)


NUMPY = NumpyAlgebra()
