"""Bits, comparisons and logic against NumPy, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch

RANDOM = np.random.default_rng(0)
I = RANDOM.integers(-(2**40), 2**40, (3, 5))  # noqa: E741
J = RANDOM.integers(-9, 70, (3, 5))


def agree(call: Callable[..., Any], expected: Any, *arrays: Any) -> None:
    tensors = [torch.tensor(array) for array in arrays]
    for run in (call, torch.compile(call)):
        actual = run(*tensors).numpy()
        np.testing.assert_array_equal(actual, expected)
        assert actual.dtype == np.asarray(expected).dtype


def shifted(x: np.ndarray, amount: np.ndarray, left: bool) -> np.ndarray:
    """In Python's unbounded integers, brought back to the width."""
    width = 8 * x.itemsize
    out = []
    for a, n in zip(x.ravel().tolist(), amount.ravel().tolist(), strict=True):
        inside = 0 <= n < width
        whole = (a << n if inside else 0) if left else a >> (n if inside else width - 1)
        out.append((whole + (1 << (width - 1))) % (1 << width) - (1 << (width - 1)))
    return np.array(out, x.dtype).reshape(x.shape)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_bits(dtype: Any) -> None:
    i, j = I.astype(dtype), J.astype(dtype)
    agree(lambda i, j: i & j, i & j, i, j)
    agree(lambda i, j: torch.bitwise_or(i, j), i | j, i, j)
    agree(lambda i, j: i ^ j, i ^ j, i, j)
    agree(lambda i, j: ~i, ~i, i, j)
    agree(lambda i, j: i << j, shifted(i, j, True), i, j)
    agree(lambda i, j: i >> j, shifted(i, j, False), i, j)
    agree(lambda i, j: 6 & i | True, 6 & i | 1, i, j)
    agree(lambda i, j: 1 << j, shifted(np.ones_like(j), j, True), i, j)


def test_bools_and_promotion() -> None:
    p, q = I > 0, J > 0
    agree(lambda p, q: (p & q) | (p ^ True), (p & q) | ~p, p, q)
    agree(lambda p, j: p & j, p & J, p, J)
    agree(lambda i, j: i & j, I.astype(np.int32) & J, I.astype(np.int32), J)
    byte = torch.tensor([200, 3], dtype=torch.uint8)
    assert (byte << 1).tolist() == [144, 6] and (~byte).tolist() == [55, 252]
    assert (byte << 1).dtype is torch.uint8


def test_in_place() -> None:
    x = torch.tensor([6, 3])
    y = x
    x &= 5
    x <<= 2
    x |= 1
    assert y is x and x.tolist() == [17, 5]
    assert x.bitwise_xor_(1).tolist() == [16, 4] and x.bitwise_right_shift_(1).tolist() == [8, 2]
    assert torch.tensor([1.0, 2.0]).ge_(2).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="Long can't be cast to the desired output type Bool"):
        torch.tensor([True]).bitwise_and_(torch.tensor([1]))


def test_isclose() -> None:
    x = np.array([1.0, np.inf, -np.inf, np.nan, 0.0])
    y = np.array([1.000001, np.inf, np.inf, np.nan, 1e-9])
    agree(lambda x, y: torch.isclose(x, y), np.isclose(x, y), x, y)
    agree(lambda x, y: x.isclose(y, equal_nan=True), np.isclose(x, y, equal_nan=True), x, y)
    agree(lambda i, j: i.isclose(j), np.isclose(J, J + 1), J, J + 1)
    assert not torch.allclose(torch.tensor(x), torch.tensor(y))


def test_errors() -> None:
    x = torch.ones(2)
    for call, error, message in (
        (lambda: x & 1, NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'"),
        (lambda: x << 1, NotImplementedError, "\"lshift_cpu\" not implemented for 'Float'"),
        (lambda: ~x, TypeError, "only implemented on integer and Boolean-type tensors"),
        (lambda: torch.logical_and(x, 1), TypeError, "argument 'other' .* must be Tensor, not int"),
        (lambda: torch.isclose(x, x.double()), RuntimeError, "Float did not match Double"),
        (lambda: torch.isclose(x, x, atol=-1), RuntimeError, "atol must be greater than or equal"),
        (lambda: torch.tensor([1]) & "a", TypeError, "str"),
    ):
        with pytest.raises(error, match=message):
            call()
