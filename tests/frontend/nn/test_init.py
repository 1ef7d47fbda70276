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
