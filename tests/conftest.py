"""What tests of several packages share."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.samples import unsampled

# Tests compile what they test: kernels kept by an earlier run could hide a bug.
os.environ["GRAPHC_CACHE"] = "off"
# Several processes run tests side by side already.
os.environ["GRAPHC_PROCESSES"] = "1"
# A pass that breaks a rule of the IR is named, whatever the test is about.
os.environ["GRAPHC_VERIFY"] = "1"
# Memory nobody wrote to shows: with glibc every block is filled when it is handed out (as f32
# -1.498) and when it is freed (3.0), so that an element left unwritten is no zero by chance.
with contextlib.suppress(OSError, AttributeError):
    M_PERTURB = -6
    ctypes.CDLL("libc.so.6").mallopt(M_PERTURB, 0x40)
# Texts for files are not cut to the width of somebody's terminal.
os.environ.pop("COLUMNS", None)
# Thousands of collected tests would live through every collection of cycles: they are left out of
# them (tests that call gc.collect() took seconds), and there are fewer.
gc.set_threshold(50_000, 20, 50)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before pytest's own, which deselects what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in unsampled(items):
        item.add_marker(pytest.mark.slow)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `native_target` runs for each named target this machine can execute."""
    if "native_target" in metafunc.fixturenames:
        from graphc.codegen.target import executable

        metafunc.parametrize("native_target", executable(), ids=lambda target: target.name)


def _same_bits(actual: Any, expected: Any, label: str = "") -> None:
    """Equal arrays, signs of zeros included; NaNs are equal whatever their payload."""
    assert len(actual) == len(expected), label
    for x, y in zip(actual, expected, strict=True):
        assert x.dtype == y.dtype, label
        if x.dtype == ml_dtypes.bfloat16:  # NumPy's comparison does not know its NaN
            x, y = x.astype(np.float32), y.astype(np.float32)
        np.testing.assert_array_equal(x, y, err_msg=label, strict=True)
        if x.dtype.kind == "f":
            numbers = ~np.isnan(y)
            np.testing.assert_array_equal(np.signbit(x[numbers]), np.signbit(y[numbers]), label)


@pytest.fixture(scope="session")
def same_bits() -> Callable[..., None]:
    return _same_bits
