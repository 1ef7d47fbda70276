"""Functions of f32 computed in f64: errors, special values, the same bits on every target."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
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

COUNT = 1 << 16
BOUND = 0.501
Array = np.ndarray[Any, Any]
ONE = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erfc": np.vectorize(math.erfc, otypes=[float]),
}
TWO = {"atan2": np.arctan2, "hypot": np.hypot, "pow": np.power}
SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38],
    np.float32,
)


@functools.cache
def kernel(name: str, operands: int, count: int, lanes: int) -> Kernel:
    b = LoopBuilder(name)
    buffers = [b.buffer(f"x{i}", DType.f32, count, "read") for i in range(operands)]
    y = b.buffer("y", DType.f32, count, "write")
    with b.loop(b.begin, b.end) as loop:
        index = b.index(0, (loop.variable, lanes))
        b.store(
            y, index, getattr(LoopAlgebra(b), name)(*(b.load(x, index, lanes) for x in buffers))
        )
    return b.finish(count // lanes)


def native(name: str, arrays: Sequence[Array], target: Target | None = None) -> Array:
    y = np.empty_like(arrays[0])
    jit.call_kernel(kernel(name, len(arrays), y.size, 8), [*arrays, y], target=target)
    return y


def check(have: Array, exact: Array, bound: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        rounded = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(have), np.isnan(rounded))
    apart = np.isinf(rounded) | np.isinf(have) | (rounded == 0)
    np.testing.assert_array_equal(have[apart], rounded[apart])
    np.testing.assert_array_equal(np.signbit(have[apart]), np.signbit(rounded[apart]))
    plain = np.isfinite(rounded)
    spacing = np.spacing(np.abs(rounded[plain])).astype(np.float64)
    assert (np.abs(have[plain] - exact[plain]) / spacing).max(initial=0) <= bound


def ranges() -> list[Array]:
    """All magnitudes, around 0, around 1, close to multiples of a right angle."""
    patterns = np.linspace(0, 2**32 - 1, COUNT).astype(np.uint32)
    near_one = 1 + np.arange(-COUNT // 2, COUNT // 2) * 2.0**-23
    drawn = [patterns.view(np.float32), np.linspace(-18, 18, COUNT), np.linspace(-1, 1, COUNT)]
    drawn += [near_one, np.arange(COUNT) * (math.pi / 2), np.resize(SPECIAL, COUNT)]
    return [each.astype(np.float32) for each in drawn]


def pairs() -> list[tuple[Array, Array]]:
    random = np.random.default_rng(0)
    every = np.linspace(0, 2**32 - 1, COUNT).astype(np.uint32).view(np.float32)
    special = np.array([*itertools.product(SPECIAL, SPECIAL)], np.float32).T
    drawn = [
        (every, random.permutation(every)),
        (random.normal(0, 3, COUNT), random.normal(0, 3, COUNT)),
        (random.lognormal(0, 3, COUNT), random.normal(0, 4, COUNT)),
        (random.integers(-9, 9, COUNT), random.integers(-5, 5, COUNT)),
        (np.resize(special[0], COUNT), np.resize(special[1], COUNT)),
    ]
    return [(x.astype(np.float32), y.astype(np.float32)) for x, y in drawn]


@pytest.mark.parametrize("name", ONE)
def test_error_bounds(name: str) -> None:
    with np.errstate(all="ignore"):
        for x in ranges():
            check(native(name, [x]), ONE[name](x.astype(np.float64)), BOUND)


@pytest.mark.parametrize("name", TWO)
def test_error_bounds_of_two_operands(name: str) -> None:
    with np.errstate(all="ignore"):
        for x, y in pairs():
            check(native(name, [x, y]), TWO[name](x.astype(float), y.astype(float)), BOUND)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_close_to_multiples_of_a_right_angle(name: str) -> None:
    """Of all sizes, where most of the digits of the product with 2/pi cancel."""
    hard = [16367173.0 * 2.0**72, 6381956970095103.0 * 2.0**40, 1.5707964, 3.1415927, 3.4028235e38]
    random = np.random.default_rng(0)
    x = np.array(hard + [*np.exp(random.uniform(0, 88, 251))], np.float32)
    check(native(name, [x]), ONE[name](x.astype(np.float64)), BOUND)


def gammas(x: Array) -> Array:
    return np.array([numpy_algebra._lgamma(float(each)) for each in x])


def test_lgamma() -> None:
    random = np.random.default_rng(0)
    near = np.arange(-32, 32) * 2.0**-22
    above = np.concatenate([1 + near, 2 + near, random.uniform(0, 20, 256), 2.0 ** near[:64]])
    for x, bound in ((above, 0.8), (random.uniform(-30, 0, 256), 8.0), (-2.457025 + near, 8.0)):
        x = x.astype(np.float32)
        check(native("lgamma", [x]), gammas(x), bound)
    special = np.array([0, -0.0, -1, -30, 1, 2, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45] * 2)
    want = np.array([np.inf] * 4 + [0, 0, np.inf, np.inf, np.nan, np.inf, np.inf, 103.27893] * 2)
    have = native("lgamma", [special.astype(np.float32)])
    np.testing.assert_array_equal(have[:12], want[:12].astype(np.float32))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", [*ONE, *TWO, "lgamma"])
def test_same_bits_at_every_width_and_target_and_in_the_interpreter(
    name: str, native_target: Target
) -> None:
    columns = [x[::512] for x in ranges()] if name not in TWO else None
    if columns is None:
        x, y = (np.concatenate([pair[side][::512] for pair in pairs()]) for side in (0, 1))
        arrays = [x, y]
    else:
        arrays = [np.concatenate(columns)]
    want = np.empty_like(arrays[0])
    with np.errstate(all="ignore"):
        interpreter.run(kernel(name, len(arrays), want.size, 4), [*arrays, want])
    for lanes in (1, 8):
        have = np.empty_like(want)
        loops = kernel(name, len(arrays), want.size, lanes)
        jit.call_kernel(loops, [*arrays, have], target=native_target)
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.isnan(have), ~numbers)
        np.testing.assert_array_equal(have[numbers].view(np.int32), want[numbers].view(np.int32))


@pytest.mark.parametrize("name", [*ONE, *TWO, "lgamma"])
def test_no_function_of_f32_calls_the_c_library(name: str) -> None:
    assert "call" not in str(kernel(name, 1 + (name in TWO), 64, 8))


def test_pow_of_numpy_has_the_bits_of_native_code() -> None:
    """It goes through f64 too: NumPy's own in f32 is another one on processors with AVX-512."""
    with np.errstate(all="ignore"):
        for x, y in pairs():
            eager = numpy_algebra.NUMPY.pow(x, y)
            numbers = ~np.isnan(eager)
            result = native("pow", [x, y])
            np.testing.assert_array_equal(np.isnan(result), ~numbers)
            np.testing.assert_array_equal(result[numbers].view("u4"), eager[numbers].view("u4"))
