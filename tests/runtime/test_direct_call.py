"""A built-in function that calls executables, and what it leaves to Python."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.eager.kernels.gradient_rule import GradientRule
from frontend.engine.eager.kernels.native_ops import NativeOp
from graphc.errors import GraphError, IndexRangeError
from graphc.ir.types import TensorType
from graphc.ops.elementwise import add, mul
from graphc.ops.indexing import gather

PLAIN = TensorType.parse("f32[3,4]")


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def python_calls(function: Any, *arrays: Any) -> int:
    """Functions of Python's that a call runs."""
    seen: list[str] = []
    sys.setprofile(lambda frame, event, _: event == "call" and seen.append(frame.f_code.co_name))
    try:
        function(*arrays)
    finally:
        sys.setprofile(None)
    return len(seen)


def test_what_was_seen_runs_no_python() -> None:
    native = NativeOp(add, (PLAIN, PLAIN), {})
    x, y = numbers(3, 4), numbers(3, 4)
    wide = np.broadcast_to(np.float32(2), (3, 4))
    turned = numbers(4, 3).T
    for left, right in [(x, y), (x, wide), (turned, y)]:
        for _ in range(3):
            assert np.array_equal(native.call(left, right), left + right)
        assert python_calls(native.call, left, right) == 0


def test_what_does_not_fit_goes_to_python() -> None:
    native = NativeOp(add, (PLAIN, PLAIN), {})
    x = numbers(3, 4)
    native.call(x, x)
    sliced = numbers(3, 8)[:, ::2]  # copied
    assert np.array_equal(native.call(sliced, x), sliced + x)
    assert python_calls(native.call, sliced, x) > 0
    for wrong in [(x, x.astype(np.float64)), (x, [1.0])]:
        with pytest.raises((GraphError, AttributeError), match=r"add|flags"):
            native.call(*wrong)
    assert np.array_equal(native.call(x, x), x + x)


def test_several_results_are_a_tuple() -> None:
    rule = GradientRule(mul, (True, True), (True,))
    native = NativeOp(rule, (PLAIN,) * 4, {})
    gradient, x, y = numbers(3, 4) - 5, numbers(3, 4), numbers(3, 4) + 1
    for _ in range(3):
        of_x, of_y = native.call(gradient, x * y, x, y)
        assert np.array_equal(of_x, gradient * y) and np.array_equal(of_y, gradient * x)
    assert python_calls(native.call, gradient, x * y, x, y) == 0


def test_a_failed_check_is_pythons_error_and_leaves_nothing() -> None:
    table, places = numbers(5, 2), np.array([[4, 0], [1, 1]])
    types = (TensorType.of(table), TensorType.of(places))
    native = NativeOp(gather, types, gather.canonical({"axis": 0}))
    native.call(table, places)
    float32 = table.dtype
    before = sys.getrefcount(float32)
    for _ in range(100):
        with pytest.raises(IndexRangeError, match="5"):
            native.call(table, np.array([[1, 5], [0, 0]]))
    assert sys.getrefcount(float32) < before + 20
    assert native.call(table, places).tolist() == [[8, 1], [2, 3]]


def test_results_are_given_back() -> None:
    native = NativeOp(add, (PLAIN, PLAIN), {})
    x = numbers(3, 4)
    native.call(x, x)
    float32 = x.dtype
    before = sys.getrefcount(float32)
    for _ in range(100):
        out = native.call(x, x)
        assert out.base is None and sys.getrefcount(out) == 2
    assert sys.getrefcount(float32) < before + 20


def test_threads_share_one_function() -> None:
    x = torch.rand(64, 64)
    want = (x @ x).numpy()
    wrong: list[int] = []

    def work() -> None:
        for _ in range(300):
            if not np.array_equal((x @ x).numpy(), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
