"""Initialisation: bounds, moments, and PyTorch's defaults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.nn import init
from graphc.errors import TraceError


def test_gains() -> None:
    gains = {"linear": 1, "conv2d": 1, "sigmoid": 1, "tanh": 5 / 3, "relu": math.sqrt(2),
             "leaky_relu": math.sqrt(2 / 1.0001), "selu": 0.75}  # fmt: skip
    for name, gain in gains.items():
        assert init.calculate_gain(name) == pytest.approx(gain, rel=1e-12)
    assert init.calculate_gain("leaky_relu", 1) == 1
    with pytest.raises(ValueError, match="Unsupported nonlinearity foo"):
        init.calculate_gain("foo")
    with pytest.raises(ValueError, match="negative_slope x not a valid number"):
        init.calculate_gain("leaky_relu", "x")


def test_fans() -> None:
    assert init._calculate_fan_in_and_fan_out(torch.zeros(3, 5)) == (5, 3)
    assert init._calculate_fan_in_and_fan_out(torch.zeros(3, 5, 2, 4)) == (40, 24)
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.kaiming_uniform_(torch.zeros(3))
    with pytest.raises(ValueError, match=r"Mode x not supported, please use one of \['fan_in'"):
        init.kaiming_uniform_(torch.zeros(3, 2), mode="x")


SHAPE = (300, 200)


@pytest.mark.parametrize(
    ("fill", "bound"),
    [
        (lambda w: init.uniform_(w, -2, 2), 2),
        (lambda w: init.kaiming_uniform_(w, a=math.sqrt(5)), 1 / math.sqrt(200)),
        (lambda w: init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(6 / 200)),
        (lambda w: init.kaiming_uniform_(w, mode="fan_out"), math.sqrt(6 / 300)),
        (lambda w: init.xavier_uniform_(w, gain=2), 2 * math.sqrt(6 / 500)),
    ],
)
def test_uniform_fills(fill: Callable[[Any], Any], bound: float) -> None:
    torch.manual_seed(0)
    w = torch.zeros(*SHAPE, requires_grad=True)
    assert fill(w) is w and w.is_leaf and w.requires_grad
    values = w.detach().numpy()
    assert bound * 0.999 < np.abs(values).max() <= bound * (1 + 1e-6)
    assert values.mean() == pytest.approx(0, abs=0.02 * bound)
    assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize(
    ("fill", "mean", "std"),
    [
        (lambda w: init.normal_(w, 3, 2), 3, 2),
        (lambda w: init.kaiming_normal_(w, nonlinearity="relu"), 0, math.sqrt(2 / 200)),
        (lambda w: init.xavier_normal_(w), 0, math.sqrt(2 / 500)),
    ],
)
def test_normal_fills(fill: Callable[[Any], Any], mean: float, std: float) -> None:
    torch.manual_seed(0)
    values = fill(torch.zeros(*SHAPE)).numpy()
    assert values.mean() == pytest.approx(mean, abs=0.02 * std)
    assert values.std() == pytest.approx(std, rel=0.02)
    inside = (np.abs(values - mean) < std).mean()
    assert inside == pytest.approx(0.6827, abs=0.01)


def test_constants() -> None:
    w = torch.zeros(2, 3, requires_grad=True)
    assert (init.ones_(w) == 1).all() and (init.constant_(w, 7) == 7).all()
    assert (init.zeros_(w) == 0).all() and w.grad_fn is None
    with pytest.warns(UserWarning, match="zero-element tensors is a no-op"):
        init.kaiming_uniform_(torch.zeros(0, 1))


@pytest.mark.parametrize(
    ("layer", "bound"), [(nn.Linear(200, 300), 200), (nn.Conv2d(20, 300, 3), 180)]
)
def test_defaults_of_linear_and_convolution(layer: Any, bound: int) -> None:
    for values in (layer.weight.detach().numpy(), layer.bias.detach().numpy()):
        limit = 1 / math.sqrt(bound)
        assert 0.95 * limit < np.abs(values).max() <= limit * (1 + 1e-6)
        assert values.std() == pytest.approx(limit / math.sqrt(3), rel=0.15)


def test_other_defaults() -> None:
    torch.manual_seed(0)
    assert nn.Embedding(300, 100).weight.detach().numpy().std() == pytest.approx(1, rel=0.02)
    norm = nn.LayerNorm(4)
    assert (norm.weight == 1).all() and (norm.bias == 0).all()


def test_the_seed_decides_the_weights() -> None:
    def drawn() -> np.ndarray:
        torch.manual_seed(5)
        return nn.Linear(3, 4).weight.detach().numpy()

    np.testing.assert_array_equal(drawn(), drawn())


# -- the other fills -----------------------------------------------------------------------------


def test_truncated_normal() -> None:
    torch.manual_seed(0)
    values = init.trunc_normal_(torch.zeros(*SHAPE), 1.0, 2.0, -1.0, 2.0).numpy()
    assert values.min() >= -1 and values.max() <= 2
    # The distribution function at some points, against that of the normal one within the bounds.
    cumulative = lambda x: 0.5 * (1 + math.erf((x - 1) / 2 / math.sqrt(2)))  # noqa: E731
    low, high = cumulative(-1), cumulative(2)
    for x in (-0.5, 0.0, 0.7, 1.6):
        want = (cumulative(x) - low) / (high - low)
        assert (values < x).mean() == pytest.approx(want, abs=0.01)
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(torch.zeros(3), mean=9.0)


@pytest.mark.parametrize("shape", [(20, 30), (30, 20), (8, 3, 2, 2), (5, 5)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    w = init.orthogonal_(torch.zeros(*shape, dtype=torch.float64), gain=2)
    matrix = w.numpy().reshape(shape[0], -1)
    product = matrix @ matrix.T if shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)
    with pytest.raises(TraceError, match="orthogonal_"):
        torch.trace(lambda x: init.orthogonal_(x), torch.zeros(*shape))


def test_sparse() -> None:
    torch.manual_seed(0)
    values = init.sparse_(torch.zeros(100, 50), 0.25, std=2).numpy()
    assert ((values == 0).sum(0) == 25).all()
    assert values[values != 0].std() == pytest.approx(2, rel=0.05)
    rows = (values == 0).mean(1)
    assert rows.min() > 0.02 and rows.max() < 0.6


def test_eye_and_dirac() -> None:
    assert init.eye_(torch.ones(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    x = np.random.default_rng(0).standard_normal((1, 4, 9, 9)).astype(np.float32)
    weight = init.dirac_(torch.ones(4, 4, 3, 3))
    same = nn.functional.conv2d(torch.tensor(x), weight, padding=1)
    np.testing.assert_array_equal(same.numpy(), x)
    grouped = init.dirac_(torch.ones(4, 2, 3), groups=2).numpy()
    assert grouped[:, :, 1].tolist() == [[1, 0], [0, 1]] * 2
    assert (grouped[:, :, [0, 2]] == 0).all()


FILLS: dict[str, Callable[..., Any]] = {
    "uniform_": init.uniform_,
    "normal_": init.normal_,
    "trunc_normal_": init.trunc_normal_,
    "xavier_uniform_": init.xavier_uniform_,
    "xavier_normal_": init.xavier_normal_,
    "kaiming_uniform_": init.kaiming_uniform_,
    "kaiming_normal_": init.kaiming_normal_,
    "orthogonal_": init.orthogonal_,
    "sparse_": lambda w, generator: init.sparse_(w, 0.3, generator=generator),
}


@pytest.mark.parametrize("name", FILLS)
def test_a_generator_decides_and_the_default_one_is_left_alone(name: str) -> None:
    state = torch.get_rng_state().tolist()
    layers = [
        FILLS[name](torch.zeros(4, 5), generator=torch.Generator().manual_seed(7)).numpy()
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*layers)
    assert layers[0].any() and torch.get_rng_state().tolist() == state


def test_older_names_warn() -> None:
    with pytest.warns(FutureWarning, match="`nn.init.xavier_uniform` is now deprecated in favor"):
        init.xavier_uniform(torch.zeros(2, 3))
    with pytest.warns(FutureWarning, match="`nn.init.constant_`"):
        assert init.constant(torch.zeros(2), 3).tolist() == [3, 3]
