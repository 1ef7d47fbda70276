"""Sorting and running functions against NumPy and loops, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 7))
TIES = RANDOM.integers(-2, 3, (4, 7)).astype(np.float64)
NAN = np.where(RANDOM.random((4, 7)) < 0.3, np.nan, TIES)


def agree(call: Callable[..., Any], expected: Any, *arrays: Any) -> None:
    """Eager and compiled give `expected`: one array, or one per result."""
    tensors = [torch.tensor(array) for array in arrays]
    for run in (call, torch.compile(call)):
        results = run(*tensors)
        for actual, wanted in zip(
            results if isinstance(results, tuple) else (results,),
            expected if isinstance(expected, tuple) else (expected,),
            strict=True,
        ):
            np.testing.assert_allclose(actual.numpy(), wanted, rtol=1e-12, atol=1e-12)


def ordered(x: np.ndarray, descending: bool) -> np.ndarray:
    """Positions that sort the rows, by Python's stable sort with NaN above all."""
    return np.array([
        sorted(range(len(row)), key=lambda i: (np.isnan(row[i]), np.nan_to_num(row[i])),
               reverse=descending)
        for row in x
    ])  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("x", [X, TIES, NAN], ids=["distinct", "ties", "nan"])
def test_sort(x: np.ndarray, descending: bool) -> None:
    indices = ordered(x, descending)
    values = np.take_along_axis(x, indices, 1)
    agree(lambda x: torch.sort(x, descending=descending), (values, indices), x)
    agree(lambda x: x.t().sort(0, descending), (values.T, indices.T), x)
    agree(lambda x: x.argsort(1, descending), indices, x)
    agree(lambda x: x.topk(3, largest=descending), (values[:, :3], indices[:, :3]), x)
    if not descending:
        agree(lambda x: x.kthvalue(2), (values[:, 1], indices[:, 1]), x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [0, 1, 2, 33])
def test_sizes_and_dtypes(size: int) -> None:
    for dtype in (np.int32, np.int64, np.float32, np.bool_):
        x = RANDOM.integers(-3, 3, (size, 2)).astype(dtype)
        expected = np.argsort(x, axis=0, kind="stable")
        agree(lambda x: x.sort(0), (np.take_along_axis(x, expected, 0), expected), x)
        agree(lambda x: x.cumsum(0), np.cumsum(x, 0, dtype=np.float64), x)
    half = torch.tensor([3.0, 1.5, -2.0]).half().sort()
    assert half.values.dtype is torch.float16 and half.indices.tolist() == [2, 1, 0]


def test_running_functions() -> None:
    agree(lambda x: x.cumsum(0), np.cumsum(X, 0), X)
    agree(lambda x: torch.cumprod(x, 1), np.cumprod(X, 1), X)
    agree(lambda x: (x * 300).logcumsumexp(1), np.logaddexp.accumulate(X * 300, 1), X)
    agree(lambda x: x.cumsum(1, dtype=torch.int64), np.cumsum(TIES, 1), TIES)
    best = np.maximum.accumulate(NAN, 1)
    indices = np.zeros(NAN.shape, int)
    for row in range(4):
        for i in range(1, 7):
            before = NAN[row, indices[row, i - 1]]
            takes = np.isnan(NAN[row, i]) or NAN[row, i] >= before
            indices[row, i] = i if takes else indices[row, i - 1]
    agree(lambda x: torch.cummax(x, 1), (best, indices), NAN)
    agree(lambda x: (-x).cummin(1), (-best, indices), NAN)


def test_f32_sums_have_the_same_bits_eager_and_compiled() -> None:
    x = torch.tensor(RANDOM.standard_normal((3, 1000)).astype(np.float32))
    for dim in (0, 1):
        compiled = torch.compile(lambda x, dim=dim: x.cumsum(dim))(x)
        np.testing.assert_array_equal(compiled.numpy(), x.cumsum(dim).numpy())


GRADIENTS: dict[str, Callable[..., Any]] = {
    "sort": lambda x: x.sort(0, descending=True).values.pow(2),
    "topk": lambda x: x.topk(2).values.pow(2),
    "kthvalue": lambda x: x.kthvalue(3, 0).values.pow(2),
    "cumsum": lambda x: x.cumsum(1).pow(2),
    "cumprod": lambda x: x.cumprod(1).pow(2),
    "cummax": lambda x: x.cummax(1).values.pow(2),
    "logcumsumexp": lambda x: x.logcumsumexp(0).pow(2),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    call = GRADIENTS[name]
    x = torch.tensor(X, requires_grad=True)
    assert torch.autograd.gradcheck(call, (x,))
    (eager,) = torch.autograd.grad(call(x).sum(), x)
    (compiled,) = torch.autograd.grad(torch.compile(call)(x).sum(), x)
    np.testing.assert_allclose(compiled.numpy(), eager.numpy(), rtol=1e-12)


def test_the_gradient_of_cumprod_beside_zeros() -> None:
    lines = [[2.0, 0, 3, 4], [0, 1, 2, 3], [1, 2, 0, 0], [1, 2, 3, 0], [0, 0, 0, 0]]
    x = torch.tensor(lines, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0, 2, 3, 4], dtype=torch.float64)
    (actual,) = torch.autograd.grad((x.cumprod(1) * weights).sum(), x)
    for line, gradient in zip(lines, actual.tolist(), strict=True):
        expected = [
            sum(w * np.prod([line[k] for k in range(j + 1) if k != i])
                for j, w in enumerate([1, 2, 3, 4]) if j >= i)
            for i in range(4)
        ]  # fmt: skip
        assert gradient == expected


@pytest.mark.sampled(16)
@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 100])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(count: int, right: bool) -> None:
    line = np.sort(RANDOM.integers(-20, 20, count) * 0.5)
    x = np.concatenate([RANDOM.integers(-25, 25, 30) * 0.5, [np.inf, -np.inf, np.nan]])
    expected = np.searchsorted(line, x, "right" if right else "left")
    agree(lambda line, x: torch.searchsorted(line, x, right=right), expected, line, x)
    wide = x.reshape(3, 11)
    expected = expected.reshape(3, 11)
    agree(lambda line, x: torch.bucketize(x, line, right=right), expected, line, wide)
    lines = np.stack([line, line + 1, line])
    rows = np.stack([np.searchsorted(a, b, "right" if right else "left")
                     for a, b in zip(lines, wide, strict=True)])  # fmt: skip
    agree(lambda line, x: torch.searchsorted(line, x, right=right), rows, lines, wide)


def test_isin() -> None:
    tests = np.array([1.0, np.nan, -2, -2, 7])
    agree(lambda x, t: torch.isin(x, t), np.isin(NAN, tests), NAN, tests)
    agree(lambda x: torch.isin(x, 1, invert=True), NAN != 1, NAN)
    assert torch.isin(torch.tensor([1]), torch.tensor([])).tolist() == [False]


def test_named_results() -> None:
    in_order = torch.tensor([3.0, 1.0]).sort()
    assert isinstance(in_order, tuple) and in_order.values.tolist() == in_order[0].tolist() == [
        1,
        3,
    ]
    assert repr(in_order) == (
        "torch.return_types.sort(\nvalues=tensor([1., 3.]),\nindices=tensor([1, 0]))"
    )
    assert isinstance(in_order, torch.return_types.sort)


def test_errors() -> None:
    x = torch.zeros(2, 3)
    for call, error, message in (
        (lambda: x.topk(4), RuntimeError, "selected index k out of range"),
        (lambda: x.kthvalue(4), RuntimeError, "selected number k out of range for dimension 1"),
        (lambda: x[:, :0].kthvalue(1), IndexError, "Expected reduction dim 1 to have non-zero"),
        (lambda: x.cummax(2), IndexError, "Dimension out of range"),
        (lambda: torch.searchsorted(x, x[0]), RuntimeError, "boundaries tensor"),
        (lambda: torch.sort(3), TypeError, "argument 'input' .* must be Tensor, not int"),
        (lambda: x.int().logcumsumexp(0), NotImplementedError, "not implemented for 'Int'"),
    ):
        with pytest.raises(error, match=message):
            call()
    with pytest.raises(IndexError, match="sorter index 3 out of range"):
        torch.searchsorted(x[0], x[0], sorter=torch.tensor([0, 1, 3]))


def test_a_trace_refuses_what_depends_on_data() -> None:
    count = lambda x: x.long().bincount()  # noqa: E731
    for call in (torch.unique, torch.unique_consecutive, count):
        with pytest.raises(TraceError, match="needs the value of a tensor"):
            torch.compile(call, fullgraph=True)(torch.ones(3))
