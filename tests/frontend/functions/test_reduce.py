"""Reductions against NumPy in float64: dimensions, empty tensors, ties, gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import frontend as torch

X = np.random.default_rng(0).standard_normal((3, 4, 5))
INF, NAN = math.inf, math.nan


def both(function: Any, *arguments: Any) -> Any:
    return function(*arguments), torch.compile(function)(*arguments)


def logsumexp(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> np.ndarray:
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


NAMES: dict[str, Any] = {
    "sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "nansum": np.nansum,
    "var": lambda x, **k: np.var(x, ddof=1, **k), "std": lambda x, **k: np.std(x, ddof=1, **k),
    "logsumexp": logsumexp,
    "any": lambda x, **k: np.any(x > 0, **k), "all": lambda x, **k: np.all(x > -9, **k),
}  # fmt: skip


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dim", [0, -1, (0, 2), (1,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_against_numpy(name: str, dim: Any) -> None:
    function = getattr(torch, name)
    want = NAMES[name](X, axis=dim, keepdims=True)
    change = {"any": lambda x: x > 0, "all": lambda x: x > -9}.get(name, lambda x: x)
    call = lambda x: (function(change(x), dim), function(change(x), dim, keepdim=True))  # noqa: E731
    for plain, kept in both(call, torch.tensor(X)):
        np.testing.assert_allclose(kept.numpy(), want, 1e-12)
        np.testing.assert_allclose(plain.numpy(), want.reshape(plain.shape), 1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("p", [0.5, 1, 2, 3, INF, -INF])
def test_norms(p: float) -> None:
    x = X[0]
    call = lambda x: (torch.norm(x, p, 1), x.norm(p, keepdim=True))  # noqa: E731
    for rows, whole in both(call, torch.tensor(x)):
        np.testing.assert_allclose(rows.numpy(), np.linalg.norm(x, p, 1), 1e-12)
        np.testing.assert_allclose(whole.numpy(), [[np.linalg.norm(x.ravel(), p)]], 1e-12)


@pytest.mark.parametrize("name", ["mean", "var", "std", "logsumexp", "prod", "amax"])
def test_gradients(name: str) -> None:
    x = torch.tensor(X[0], requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: getattr(torch, name)(x, 1), (x,))


def test_sums_to_a_bool() -> None:
    x = torch.tensor([[1.0, -1.0], [0.0, 0.0]])
    names = (torch.sum, torch.nansum, torch.prod)
    for result in both(lambda x: [f(x, 1, dtype=torch.bool) for f in names], x):
        assert [y.tolist() for y in result] == [[True, False]] * 3
    none = torch.zeros(0)
    for result in both(lambda x: (x.sum(dtype=torch.bool), torch.prod(x, dtype=torch.bool)), none):
        assert [y.item() for y in result] == [False, True]


def test_positions() -> None:
    x = torch.tensor([[1.0, 3, 3], [NAN, 5, NAN]])
    for result in both(lambda x: (x.argmax(1), x.argmin(1, keepdim=True), x.argmax()), x):
        assert [y.tolist() for y in result] == [[1, 0], [[0], [0]], 3]
    values, places = torch.max(torch.tensor([[1, 3, 3]]), dim=1)
    assert (values.tolist(), places.tolist()) == ([3], [1])
    low, high = torch.aminmax(torch.tensor([3, 1, 2]))
    assert (low.item(), high.item()) == (1, 3)


def test_ties_share_the_gradient_and_nan_takes_it() -> None:
    def slopes(function: Any, *values: float) -> list[float]:
        x = torch.tensor(values, dtype=torch.float32, requires_grad=True)
        function(x).backward()
        return x.grad.tolist()

    assert slopes(torch.max, 1, 3, 3) == [0, 0.5, 0.5]
    assert slopes(lambda x: torch.max(x, 0).values, 1, 3, 3) == [0, 1, 0]
    assert slopes(torch.max, 1, NAN, NAN, 5) == [0, 0.5, 0.5, 0]
    assert slopes(torch.std, 2, 2, 2) == [0, 0, 0]
    assert slopes(torch.norm, 0, 0) == [0, 0]
    assert slopes(torch.prod, 2, 0, 3) == [0, 6, 0]
    assert slopes(lambda x: torch.logsumexp(x, 0), -INF, 0, 0) == [0, 0.5, 0.5]


def test_no_elements() -> None:
    x = torch.zeros(0, 3)
    assert x.sum().item() == 0 and x.prod().item() == 1
    assert math.isnan(x.mean().item())
    assert x.logsumexp(0).tolist() == [-INF] * 3
    assert x.amax(1).shape == (0,)
    for call in (lambda: x.amax(0), lambda: x.argmax(), lambda: x.max(0), lambda: x.max()):
        with pytest.raises(IndexError, match="Expected reduction dim"):
            call()
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert math.isnan(torch.var(torch.tensor([1.0])).item())


def test_dtypes() -> None:
    whole, truth = torch.tensor([[1, 2]]), torch.tensor([True, False])
    assert whole.sum().dtype is torch.int64 and truth.sum().item() == 1
    assert torch.sum(whole.int(), dtype=torch.float64).dtype is torch.float64
    assert torch.any(torch.tensor([0, 3], dtype=torch.uint8)).dtype is torch.uint8
    assert whole.sum(dim=()).item() == 3 and whole.any(dim=()).shape == (1, 2)
    assert whole.mean(dtype=torch.float32).item() == 1.5
    for call, words in (
        (whole.mean, "could not infer output dtype"),
        (whole.var, "only support floating point"),
        (whole.nanmean, "expected input to have floating point"),
        (whole.norm, "Expected a floating point or complex tensor"),
        (truth.argmax, "does not support bool input"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
    with pytest.raises(NotImplementedError, match="softmax"):
        torch.softmax(whole, 1)


def test_the_mean_and_sum_of_what_is_no_nan() -> None:
    x = torch.tensor([[1.0, NAN, 3], [NAN, NAN, NAN]])
    for total, level in both(lambda x: (x.nansum(1), x.nanmean(1)), x):
        assert total.tolist() == [4, 0]
        np.testing.assert_array_equal(level.numpy(), [2, NAN])


def test_spread_with_the_mean() -> None:
    x = torch.tensor(X[0])
    spread, level = torch.std_mean(x, 1, keepdim=True)
    np.testing.assert_allclose(spread.numpy(), X[0].std(1, ddof=1, keepdims=True))
    np.testing.assert_allclose(level.numpy(), X[0].mean(1, keepdims=True))
    np.testing.assert_allclose(torch.var(x, False).item(), X[0].var())
    np.testing.assert_allclose(torch.var_mean(x, 0, correction=2)[0].numpy(), X[0].var(0, ddof=2))


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF])
def test_distances(p: float) -> None:
    x, y = X[0], X[1, :3]
    difference = np.abs(x[:, None] - y)
    want = np.linalg.norm(difference, p, -1)
    for actual in both(lambda x, y: torch.cdist(x, y, p=p), torch.tensor(x), torch.tensor(y)):
        np.testing.assert_allclose(actual.numpy(), want, 1e-12)
    one = torch.dist(torch.tensor(x[:3]), torch.tensor(y), p)
    np.testing.assert_allclose(one.item(), np.linalg.norm((x[:3] - y).ravel(), p), 1e-12)


def test_dimensions_out_of_range() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 2"):
        x.sum(2)
    with pytest.raises(RuntimeError, match="dim 1 appears multiple times"):
        x.sum((1, -1))
    with pytest.raises(TypeError, match="must be int, not tuple"):
        x.prod((0, 1))
