"""The scalar algebra on NumPy arrays: what an op's `scalar` rule means when it runs eagerly and in
the reference interpreter. codegen has the same methods on loop values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.ir.types import DType

Array = np.ndarray[Any, Any]

_erf_objects = np.frompyfunc(math.erf, 1, 1)


class NumpyAlgebra:
    """Methods named after what they compute; arrays in, array out, the dtype kept."""

    @staticmethod
    def constant(value: float | int | bool, like: Array) -> Any:
        return like.dtype.type(value)

    @staticmethod
    def flatten(index: tuple[Array, ...], shape: tuple[int, ...]) -> Any:
        """The row-major flat position of a coordinate, as i64."""
        flat: Any = np.int64(0)
        for coordinate, dim in zip(index, shape, strict=True):
            flat = flat * dim + coordinate
        return flat

    xor = staticmethod(np.bitwise_xor)
    bit_or = staticmethod(np.bitwise_or)

    @staticmethod
    def shl(x: Array, count: int) -> Any:
        return np.left_shift(x, x.dtype.type(count))

    @staticmethod
    def lshr(x: Array, count: int) -> Any:
        unsigned = x.view(f"u{x.dtype.itemsize}")
        return np.right_shift(unsigned, unsigned.dtype.type(count)).view(x.dtype)

    add = staticmethod(np.add)
    sub = staticmethod(np.subtract)
    mul = staticmethod(np.multiply)
    div = staticmethod(np.divide)
    floordiv = staticmethod(np.floor_divide)
    mod = staticmethod(np.remainder)
    neg = staticmethod(np.negative)
    abs = staticmethod(np.abs)
    sign = staticmethod(np.sign)
    floor = staticmethod(np.floor)
    ceil = staticmethod(np.ceil)
    round = staticmethod(np.rint)
    sqrt = staticmethod(np.sqrt)
    exp = staticmethod(np.exp)
    log = staticmethod(np.log)
    sin = staticmethod(np.sin)
    cos = staticmethod(np.cos)
    tanh = staticmethod(np.tanh)
    pow = staticmethod(np.power)
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
    def rsqrt(x: Array) -> Any:
        return x.dtype.type(1) / np.sqrt(x)

    @staticmethod
    def sigmoid(x: Array) -> Any:
        decay = np.exp(-np.abs(x))
        return np.where(np.signbit(x), decay, x.dtype.type(1)) / (x.dtype.type(1) + decay)

    @staticmethod
    def erf(x: Array) -> Any:
        # NumPy has no erf; the standard library's is exact enough to be the reference.
        return np.asarray(_erf_objects(x.astype(np.float64)), x.dtype)

    @staticmethod
    def convert(x: Array, dtype: DType) -> Any:
        if x.dtype.kind == "f" and dtype.is_integer:
            # Saturate, NaN to 0: the same on every machine (C leaves it undefined).
            limits = np.iinfo(dtype.numpy)
            below, above = x <= float(limits.min), x >= float(limits.max)
            inside = np.where(below | above | np.isnan(x), x.dtype.type(0), x).astype(dtype.numpy)
            return np.where(below, limits.min, np.where(above, limits.max, inside)).astype(
                dtype.numpy
            )
        return x.astype(dtype.numpy)


NUMPY = NumpyAlgebra()
