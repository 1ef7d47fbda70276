"""Functions of f64: errors against exact values, special values, the same bits everywhere."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.codegen.elements.algebra import LoopAlgebra
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import Target
from graphc.ir.types import DType
from graphc.ops.kinds import numpy_algebra

Array = np.ndarray[Any, Any]


@functools.cache
def kernel(name: str, operands: int, count: int, lanes: int) -> Kernel:
    b = LoopBuilder(name)
    buffers = [b.buffer(f"x{i}", DType.f64, count, "read") for i in range(operands)]
    y = b.buffer("y", DType.f64, count, "write")
    with b.loop(b.begin, b.end) as loop:
        index = b.index(0, (loop.variable, lanes))
        read = (b.load(x, index, lanes) for x in buffers)
        b.store(y, index, getattr(LoopAlgebra(b), name)(*read))
    return b.finish(count // lanes)


def native(name: str, arrays: Sequence[Array]) -> Array:
    y = np.empty_like(arrays[0])
    jit.call_kernel(kernel(name, len(arrays), y.size, 8), [*arrays, y])
    return y


# Written by exact_points.py: operands, the nearest f64 of the exact value, and what that is off.
FILE = Path(__file__).with_name("exact_points.json")
POINTS = {
    name: np.array([[float.fromhex(x) for x in row] for row in rows]).T
    for name, rows in json.loads(FILE.read_text(encoding="utf-8")).items()
}
BOUNDS = {
    "exp": 1.0, "exp2": 1.0, "expm1": 1.0, "log": 0.6, "log2": 0.6, "log10": 0.6, "log1p": 0.6,
    "sigmoid": 2.0, "sin": 0.8, "cos": 0.8, "tan": 2.0, "asin": 1.5, "acos": 2.0, "atan": 0.8,
    "sinh": 1.6, "cosh": 1.2, "tanh": 2.2, "asinh": 1.0, "acosh": 2.0, "atanh": 1.5, "erf": 2.0,
    "erfc": 3.0, "lgamma": 5.0, "pow": 1.0, "atan2": 0.8, "hypot": 1.2,
}  # fmt: skip
"""Units in the last place of the exact value; docs/arithmetic.md promises these."""
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324,
    1.7e308, -1.7e308, 2.3e-308, 1e-20, -1e-20, 710.0, -746.0, 1024.0, -1075.0, 1e16,
]  # fmt: skip
NUMPY = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power,
    "erf": np.vectorize(math.erf, otypes=[float]), "erfc": np.vectorize(math.erfc, otypes=[float]),
    "sigmoid": lambda x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))),
    "lgamma": np.vectorize(numpy_algebra._lgamma, otypes=[float]),
}  # fmt: skip
TWO = {"pow", "atan2", "hypot"}


def units(have: Array, high: Array, low: Array) -> Array:
    """Errors in units in the last place of the exact value."""
    return np.asarray(np.abs((have - high) - low) / np.spacing(np.abs(high)))


def padded(columns: Sequence[Array]) -> list[Array]:
    """To whole vectors, by points again."""
    size = -(-columns[0].size // 8) * 8
    return [np.resize(column, size) for column in columns]


@pytest.mark.parametrize("name", BOUNDS)
def test_error_bounds(name: str) -> None:
    *operands, high, low = padded(POINTS[name])
    have = native(name, operands)
    plain = np.isfinite(high)
    np.testing.assert_array_equal(have[~plain], high[~plain])
    assert units(have[plain], high[plain], low[plain]).max() <= BOUNDS[name]


def test_lgamma_below_zero() -> None:
    """Beside its zeros it is as far off as the numbers that nearly cancel."""
    x, high, low = padded(POINTS["lgamma below 0"])
    error = np.abs((native("lgamma", [x]) - high) - low)
    assert (error <= 1e-15 * np.maximum(2.0, np.abs(x))).all()


@pytest.mark.parametrize("name", BOUNDS)
def test_special_values(name: str) -> None:
    operands = padded(np.array([*itertools.product(SPECIAL, repeat=1 + (name in TWO))]).T)
    with np.errstate(all="ignore"):
        want = NUMPY.get(name, getattr(np, name, None))(*operands)
    have = native(name, operands)
    np.testing.assert_array_equal(np.isnan(have), np.isnan(want))
    numbers = ~np.isnan(want)
    # 5e-324 is the spacing of the smallest numbers, which may be rounded twice.
    np.testing.assert_allclose(have[numbers], want[numbers], rtol=1e-15, atol=5e-324)
    np.testing.assert_array_equal(np.signbit(have[numbers]), np.signbit(want[numbers]))


def test_exact_where_it_should_be() -> None:
    whole = np.arange(-1022.0, 1024.0 - 6)
    whole = whole[: whole.size // 8 * 8].copy()
    np.testing.assert_array_equal(native("exp2", [whole]), np.ldexp(1.0, whole.astype(int)))
    np.testing.assert_array_equal(native("log2", [np.ldexp(1.0, whole.astype(int))]), whole)
    base, power = (x.ravel().astype(float) for x in np.mgrid[1:17, 0:12])
    np.testing.assert_array_equal(native("pow", [base, power]), base**power)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", BOUNDS)
def test_same_bits_at_every_width_and_target_and_in_the_interpreter(
    name: str, native_target: Target
) -> None:
    operands = padded([np.concatenate([x[:40], np.array(SPECIAL)]) for x in POINTS[name][:-2]])
    want = np.empty_like(operands[0])
    with np.errstate(all="ignore"):
        interpreter.run(kernel(name, len(operands), want.size, want.size), [*operands, want])
    for lanes in (1, 8):
        have = np.empty_like(want)
        loops = kernel(name, len(operands), want.size, lanes)
        jit.call_kernel(loops, [*operands, have], target=native_target)
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.isnan(have), ~numbers)
        np.testing.assert_array_equal(have[numbers].view(np.int64), want[numbers].view(np.int64))


@pytest.mark.parametrize("name", BOUNDS)
def test_no_function_calls_the_c_library(name: str) -> None:
    assert "call" not in str(kernel(name, 1 + (name in TWO), 64, 8))
