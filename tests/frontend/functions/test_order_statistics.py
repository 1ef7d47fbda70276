"""Medians, modes, quantiles and counts against NumPy, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((5, 8))
TIES = RANDOM.integers(0, 4, (5, 8)).astype(np.float64)
NAN = np.where(RANDOM.random((5, 8)) < 0.3, np.nan, X)


def agree(call: Callable[..., Any], expected: Any, *arrays: Any) -> None:
    tensors = [torch.tensor(array) for array in arrays]
    for run in (call, torch.compile(call)):
        np.testing.assert_allclose(run(*tensors).numpy(), expected, rtol=1e-12)


def lower_median(line: np.ndarray) -> float:
    return np.nan if not len(line) or np.isnan(line).any() else np.sort(line)[(len(line) - 1) // 2]


@pytest.mark.parametrize("x", [X, TIES, NAN], ids=["distinct", "ties", "nan"])
def test_medians(x: np.ndarray) -> None:
    agree(lambda x: x.median(), lower_median(x.ravel()), x)
    agree(lambda x: x.nanmedian(), lower_median(x[~np.isnan(x)]), x)
    for axis in (0, 1):
        lines = np.moveaxis(x, axis, -1)
        agree(lambda x, a=axis: x.median(a).values, [lower_median(line) for line in lines], x)
        kept = [lower_median(line[~np.isnan(line)]) for line in lines]
        agree(lambda x, a=axis: x.nanmedian(a, keepdim=True).values.squeeze(a), kept, x)
    median = torch.tensor(x).median(1)
    np.testing.assert_array_equal(
        torch.tensor(x).gather(1, median.indices[:, None])[:, 0].numpy(), median.values.numpy()
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles(method: str) -> None:
    q = np.array([0.0, 0.21, 0.5, 0.77, 1.0])
    for x in (X, TIES):
        expected = np.quantile(x, q, axis=1, method=method)
        agree(lambda x, q: x.quantile(q, 1, interpolation=method), expected, x, q)
    expected = np.nanquantile(NAN, q, axis=0, keepdims=True, method=method)
    agree(lambda x, q: x.nanquantile(q, 0, True, interpolation=method), expected, NAN, q)
    whole = np.quantile(X, 0.3, method=method)
    agree(lambda x: torch.quantile(x, 0.3, interpolation=method), whole, X)
    assert np.isnan(torch.tensor(NAN).quantile(0.5).item())


def test_modes() -> None:
    def expected(line: np.ndarray) -> tuple[float, int]:
        values, counts = np.unique(line, return_counts=True)
        value = values[counts.argmax()]
        return value, int(np.flatnonzero(line == value)[-1])

    for dim, lines in ((1, TIES), (0, TIES.T)):
        for run in (lambda x, d=dim: x.mode(d), torch.compile(lambda x, d=dim: x.mode(d))):
            values, indices = run(torch.tensor(TIES))
            assert list(zip(values.tolist(), indices.tolist(), strict=True)) == [
                expected(line) for line in lines
            ]


def test_gradients() -> None:
    x = torch.tensor(X, requires_grad=True)
    q = torch.tensor([0.2, 0.55], dtype=torch.float64)
    for call in (
        lambda x: x.median().pow(2), lambda x: x.median(1).values.pow(2),
        lambda x: x.quantile(q, 1).pow(2), lambda x: x.mode(1).values.pow(2),
        lambda x: x.nanquantile(0.3).pow(2),
    ):  # fmt: skip
        assert torch.autograd.gradcheck(call, (x,))
    ties = torch.tensor([1.0, 2.0, 2.0, 2.0, 5.0], requires_grad=True)
    ties.median().backward()
    np.testing.assert_allclose(ties.grad.numpy(), [0, 1 / 3, 1 / 3, 1 / 3, 0])


def test_unique() -> None:
    x = torch.tensor(TIES)
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert values.tolist() == [0, 1, 2, 3] and int(counts.sum()) == 40
    np.testing.assert_array_equal(values[inverse].numpy(), TIES)
    rows = torch.tensor([[2, 1], [0, 5], [2, 1], [2, 1]])
    unique, places = torch.unique(rows, dim=0, return_inverse=True)
    assert unique.tolist() == [[0, 5], [2, 1]] and places.tolist() == [1, 0, 1, 1]
    unique, runs, lengths = rows.unique_consecutive(True, True, dim=0)
    assert unique.tolist() == [[2, 1], [0, 5], [2, 1]]
    assert runs.tolist() == [0, 1, 2, 2] and lengths.tolist() == [1, 1, 2]
    assert torch.unique_consecutive(torch.tensor([1, 1, 3, 1])).tolist() == [1, 3, 1]
    assert torch.tensor([]).unique().shape == torch.tensor([]).unique_consecutive().shape == (0,)


def test_counting() -> None:
    x = torch.tensor([0, 3, 3, 1])
    assert x.bincount().tolist() == [1, 1, 0, 2]
    assert torch.bincount(x, torch.tensor([0.5, 1, 2, 4]), 6).tolist() == [0.5, 4, 0, 3, 0, 0]
    assert torch.tensor([], dtype=torch.int64).bincount(minlength=2).tolist() == [0, 0]
    bins, _ = np.histogram(X, 7, (-1, 1.5))
    assert torch.tensor(X).histc(7, -1, 1.5).tolist() == bins.tolist()
    bins, _ = np.histogram(X, 4)
    assert torch.tensor(X).histc(4).tolist() == bins.tolist()
    bins, _ = np.histogram(X, 7, (-1, 1.5))
    assert torch.compile(lambda x: x.histc(7, -1, 1.5))(torch.tensor(X)).tolist() == bins.tolist()


def test_errors() -> None:
    x = torch.ones(2, 3)
    for call, error, message in (
        (lambda: x.quantile(2.0), RuntimeError, r"must be in the range \[0, 1\] but got 2.0"),
        (lambda: x.quantile(torch.tensor([0.5, 1.5])), RuntimeError, "q values must be in the"),
        (lambda: x.long().quantile(0.5), RuntimeError, "must be either float or double"),
        (lambda: x[:0].median(0), IndexError, "reduction dim 0 to have non-zero size"),
        (lambda: x[:, :0].mode(), IndexError, "reduction dim 1 to have non-zero size"),
        (lambda: torch.tensor([-1]).bincount(), RuntimeError, "non-negative integral"),
        (lambda: x.histc(3, 2, 1), RuntimeError, "max must be larger than min"),
    ):
        with pytest.raises(error, match=message):
            call()
    with pytest.raises(RuntimeError, match="q values must be in the range"):
        torch.compile(lambda x, q: x.quantile(q))(x, torch.tensor([-0.1]))
