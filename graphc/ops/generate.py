"""Ops whose elements are functions of their own position: iota, and counter-based random numbers.

Randomness is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers:
as easy as 1, 2, 3", 2011). Element i of a draw depends on (seed, counter + i) alone, so any order,
any fusion and any recomputation give the same numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError
from graphc.ir.dims import Extent
from graphc.ir.types import DType, Shape, TensorType
from graphc.ops.kinds.generate import Generate
from graphc.ops.kinds.op import FLOATS, NUMBERS, Types

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_KEY_PARITY = 0x1BD11BDA


def threefry(s: Any, key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Threefry-2x32-20 in the algebra `s` on i32 words (arithmetic wraps)."""
    parity = s.xor(s.xor(key[0], key[1]), s.constant(_KEY_PARITY, key[0]))
    keys = (key[0], key[1], parity)
    x, y = s.add(counter[0], keys[0]), s.add(counter[1], keys[1])
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x = s.add(x, y)
            y = s.xor(s.rotl(y, rotation), x)
        x = s.add(x, keys[(block + 1) % 3])
        y = s.add(s.add(y, keys[(block + 2) % 3]), s.constant(block + 1, y))
    return x, y


def _words(s: Any, value: Any) -> tuple[Any, Any]:
    """The low and high 32-bit word of an i64."""
    return s.convert(value, DType.i32), s.convert(s.lshr(value, 32), DType.i32)


def _uniform_result(types: Types, *, shape: Shape, dtype: DType = DType.f32) -> Types:
    if len(types) != 1 or types[0] != TensorType(DType.i64, (2,)):
        raise DTypeError(f"random_uniform takes one state i64[2], got {', '.join(map(str, types))}")
    if dtype not in FLOATS:
        raise DTypeError(f"random_uniform makes f32 or f64, not {dtype.value}")
    return (TensorType(dtype, shape), types[0])


def _uniform_element(
    s: Any, index: Any, read: Any, types: Types, *, shape: Shape, dtype: DType
) -> tuple[Any, Any]:
    seed, counter = read(0, (0,)), read(0, (1,))

    def number() -> Any:
        flat = s.flatten(index, shape)
        x, _ = threefry(s, _words(s, seed), _words(s, s.add(flat, counter)))
        # 24 random bits make every multiple of 2^-24 in [0, 1) equally likely, in either dtype.
        bits = s.convert(s.lshr(x, 8), dtype)
        return s.mul(bits, s.constant(2.0**-24, bits))

    def state() -> Any:
        advanced = s.add(counter, s.extent(math.prod(shape)))
        return s.select(s.eq(index[0], s.constant(0, index[0])), seed, advanced)

    return number, state


random_uniform = Generate(
    "random_uniform",
    _uniform_result,
    _uniform_element,
    cost=100,
    vjp=None,
    samples=lambda m: [
        m(np.array([7, 0]), shape=(3, 5)), m(np.array([2**40 + 3, 2**33]), shape=(70,)),
        m(np.array([7, 0]), shape=()), m(np.array([-1, 5]), shape=(0, 2)),
    ],
)  # fmt: skip
random_uniform.results = 2


def _iota_result(types: Types, *, shape: Shape, axis: int, dtype: DType) -> Types:
    if types:
        raise AttributeValueError("iota takes no operands")
    if dtype not in NUMBERS:
        raise DTypeError(f"iota makes numbers to compute with, not {dtype.value}", hint="cast it")
    if not 0 <= axis < len(shape):
        raise AttributeValueError(f"iota of shape {list(shape)}, axis {axis}")
    return (TensorType(dtype, shape),)


iota = Generate(
    "iota",
    _iota_result,
    lambda s, index, read, types, *, shape, axis, dtype: (
        lambda: s.convert(index[axis], dtype),
    ),
    vjp=None,
    samples=lambda m: [
        m(shape=(3, 5), axis=1, dtype=DType.i64), m(shape=(3, 50), axis=0, dtype=DType.f32),
        m(shape=(0,), axis=0, dtype=DType.i32),
    ],
)  # fmt: skip


def _extent_result(types: Types, *, size: Extent, dtype: DType) -> Types:
    if types:
        raise AttributeValueError("extent takes no operands")
    if dtype not in NUMBERS:
        raise DTypeError(f"extent makes numbers to compute with, not {dtype.value}", hint="cast it")
    return (TensorType(dtype, ()),)


extent = Generate(
    "extent",
    _extent_result,
    lambda s, index, read, types, *, size, dtype: (lambda: s.convert(s.extent(size), dtype),),
    vjp=None,
    samples=lambda m: [m(size=5, dtype=DType.i64), m(size=0, dtype=DType.f32)],
)
"""A size as a 0-d value; of a size known only at run time, that of the call."""


def iota_like(handle: Any, shape: Shape, axis: int, dtype: DType = DType.i64) -> Any:
    """An iota in the context of `handle`: 0, 1, 2, … along `axis`."""
    attributes = {"shape": shape, "axis": axis, "dtype": dtype}
    return handle.context.apply(iota, (), attributes)[0]
