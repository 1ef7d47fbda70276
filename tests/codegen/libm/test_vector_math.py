"""Vector functions: error bounds over all magnitudes, special values, and equal bits everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from graphc.codegen import target
from graphc.codegen.libm import vector_math
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.ir.types import DType

COUNT = 1 << 16
Reference = Callable[[np.ndarray], np.ndarray]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1.0) / (1.0 + power)


REFERENCES: dict[str, tuple[Reference, float]] = {
    "exp": (np.exp, 1.2),
    "exp2": (np.exp2, 1.2),
    "expm1": (np.expm1, 1.6),
    "log": (np.log, 0.9),
    "log2": (np.log2, 1.3),
    "log10": (np.log10, 1.3),
    "log1p": (np.log1p, 1.7),
    "sigmoid": (_sigmoid, 2.9),
    "tanh": (np.tanh, 4.8),
    "erf": (np.vectorize(math.erf, otypes=[float]), 6.0),
    "rsqrt": (lambda x: 1.0 / np.sqrt(x), 1.5),
}


def unary(name: str, count: int, lanes: int) -> Kernel:
    b = LoopBuilder(name)
    x, y = b.buffer("x", DType.f32, count, "read"), b.buffer("y", DType.f32, count, "write")
    with b.loop(b.begin, b.end) as loop:
        index = b.index(0, (loop.variable, lanes))
        b.store(y, index, getattr(vector_math, name)(b, b.load(x, index, lanes)))
    return b.finish(count // lanes)


def native(kernel: Kernel, x: np.ndarray, on: target.Target | None = None) -> np.ndarray:
    y = np.empty_like(x)
    jit.call_kernel(kernel, [x, y], target=on)
    return y


def ulps(have: np.ndarray, exact: np.ndarray) -> float:
    """Worst error in spacings of f32; NaN and inf must be where they belong."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(have), np.isnan(exact))
    infinite = np.isinf(rounded) | np.isinf(have)
    np.testing.assert_array_equal(have[infinite], rounded[infinite])
    plain = ~(infinite | np.isnan(exact))
    error = np.abs(have[plain].astype(np.float64) - exact[plain])
    return float((error / np.spacing(np.abs(rounded[plain])).astype(np.float64)).max())


def all_magnitudes() -> np.ndarray:
    """Floats of every sign and exponent, evenly spread over the bit patterns."""
    patterns = np.linspace(0, 2**32 - 1, COUNT).astype(np.uint32)
    return patterns.view(np.float32)


@pytest.mark.parametrize("name", REFERENCES)
def test_error_bounds(name: str) -> None:
    reference, bound = REFERENCES[name]
    kernel = unary(name, COUNT, 16)
    dense = np.linspace(-18.0, 18.0, COUNT).astype(np.float32)
    tail = np.linspace(-190.0, 100.0, COUNT).astype(np.float32)
    with np.errstate(all="ignore"):
        for x in (all_magnitudes(), dense, tail):
            assert ulps(native(kernel, x), reference(x.astype(np.float64))) <= bound


INF, NAN = math.inf, math.nan
SPECIAL = {
    "exp": [
        (0, 1),
        (-0.0, 1),
        (INF, INF),
        (-INF, 0),
        (89, INF),
        (-104, 0),
        (1e30, INF),
        (-131.4, 0),
        (-140, 0),
        (-175.7, 0),
        (-180, 0),
        (-1e30, 0),
    ],
    "exp2": [
        (0, 1),
        (-0.0, 1),
        (3, 8),
        (-140, 2**-140),
        (INF, INF),
        (-INF, 0),
        (128, INF),
        (-151, 0),
        (1e30, INF),
        (-253.4, 0),
        (-300, 0),
        (-1e30, 0),
    ],
    "expm1": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -1), (1e-40, 1e-40), (-1e-45, -1e-45)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (INF, INF)],
    "log2": [(1, 0), (8, 3), (2**-140, -140), (0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF)],
    "log10": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (INF, INF)],
    "log1p": [(0, 0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (1e-40, 1e-40)],
    "sigmoid": [(0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (-1e30, 0), (1e30, 1)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e-40, 1e-40), (-9, -1), (1e30, 1)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (-4.1, -1), (1e30, 1)],
    "rsqrt": [(4, 0.5), (0, INF), (-0.0, -INF), (INF, 0), (-1, NAN)],
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str) -> None:
    pairs = (SPECIAL[name] + [(NAN, NAN)] * 16)[:16]
    x, want = np.array(pairs, np.float32).T.copy()
    have = native(unary(name, 16, 8), x)
    np.testing.assert_array_equal(have, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(have[number]), np.signbit(want[number]))


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_results_stay_within_their_bounds(name: str) -> None:
    y = native(unary(name, COUNT, 16), np.linspace(-20, 20, COUNT).astype(np.float32))
    assert np.abs(y).max() == 1.0
    if name == "sigmoid":
        assert y.min() > 0.0


@pytest.mark.parametrize(
    ("name", "start", "limit"),
    [("tanh", 6.0, vector_math.TANH_LIMIT), ("erf", 3.0, vector_math.ERF_LIMIT)],
)
def test_fits_are_one_at_their_limit_and_nowhere_more_before_it(
    name: str, start: float, limit: float
) -> None:
    """Every float there is: the argument is clamped, the result is not."""
    first, last = np.array([start, limit], np.float32).view(np.int32)
    x = np.arange(last - (last - first) // 16 * 16 + 1, last + 1, dtype=np.int32).view(np.float32)
    y = native(unary(name, x.size, 16), x)
    assert y[-1] == y.max() == 1.0


def test_exp_of_nonpositive_has_the_bits_of_exp() -> None:
    x = np.concatenate([-np.abs(all_magnitudes()), np.linspace(-200, 0, COUNT, dtype=np.float32)])
    have = native(unary("exp_of_nonpositive", x.size, 16), x)
    want = native(unary("exp", x.size, 16), x)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(have), ~numbers)
    np.testing.assert_array_equal(have[numbers].view(np.int32), want[numbers].view(np.int32))


def test_log1p_of_fraction() -> None:
    spread = np.linspace(0, np.float32(1).view(np.int32), COUNT).astype(np.int32).view(np.float32)
    for x in (spread, np.linspace(0, 1, COUNT, dtype=np.float32)):
        have = native(unary("log1p_of_fraction", COUNT, 16), x)
        assert ulps(have, np.log1p(x.astype(np.float64))) <= 1.5
    special = np.array([0, 1, 1e-40, NAN], np.float32)
    have = native(unary("log1p_of_fraction", 4, 4), special)
    np.testing.assert_array_equal(have, np.log1p(special))


@pytest.mark.parametrize("name", REFERENCES)
def test_same_bits_at_every_width_and_in_the_interpreter(name: str) -> None:
    x = all_magnitudes()[::128].copy()
    want = np.empty_like(x)
    with np.errstate(all="ignore"):
        run(unary(name, x.size, x.size), [x, want])
    numbers = ~np.isnan(want)
    for lanes in (1, 8, 16):
        have = native(unary(name, x.size, lanes), x)
        np.testing.assert_array_equal(np.isnan(have), ~numbers)
        np.testing.assert_array_equal(have[numbers].view(np.int32), want[numbers].view(np.int32))


@pytest.mark.parametrize("name", [name for name in REFERENCES if name != "rsqrt"])
def test_same_bits_on_every_target(name: str) -> None:
    x = all_magnitudes()[::64].copy()
    kernel = unary(name, x.size, 16)
    want = native(kernel, x)
    for each in target.executable():
        have = native(kernel, x, each)
        np.testing.assert_array_equal(have.view(np.int32), want.view(np.int32), err_msg=each.name)
