"""Activations against their definitions in float64, near and far from 0; in place; drawn ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn

Array = np.ndarray
FAR = np.array([-700.0, -90.0, -30.0, -3.0, -0.4, -1e-9, 1e-9, 0.4, 3.0, 30.0, 90.0, 700.0])


def log1p_exp(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Array) -> Array:
    return np.exp(-log1p_exp(-x))


def elu(x: Array, alpha: float = 1.0, rate: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) * rate))


FORMULAS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "elu": (lambda x: F.elu(x, 1.5), lambda x: elu(x, 1.5)),
    "selu": (F.selu, lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    "celu": (lambda x: F.celu(x, 0.5), lambda x: np.where(x > 0, x, elu(x, 0.5, 2))),
    "silu": (F.silu, lambda x: x * sigmoid(x)),
    "mish": (F.mish, lambda x: x * np.tanh(log1p_exp(x))),
    "softplus": (lambda x: F.softplus(x, 2, 1e9), lambda x: log1p_exp(2 * x) / 2),
    "softplus beyond its threshold": (lambda x: F.softplus(x, 1, -1e9), lambda x: x),
    "logsigmoid": (F.logsigmoid, lambda x: -log1p_exp(-x)),
    "softsign": (F.softsign, lambda x: x / (1 + abs(x))),
    "hardtanh": (lambda x: F.hardtanh(x, -2, 0.5), lambda x: np.clip(x, -2, 0.5)),
    "relu6": (F.relu6, lambda x: np.clip(x, 0, 6)),
    "hardsigmoid": (F.hardsigmoid, lambda x: np.clip(x + 3, 0, 6) / 6),
    "hardswish": (F.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "softshrink": (F.softshrink, lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0)),
    "hardshrink": (F.hardshrink, lambda x: np.where(abs(x) > 0.5, x, 0)),
    "threshold": (lambda x: F.threshold(x, 1, 7), lambda x: np.where(x > 1, x, 7)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_each_value_is_exact_also_far_from_zero(name: str) -> None:
    function, formula = FORMULAS[name]
    x = np.concatenate([FAR, np.random.default_rng(0).standard_normal(20)])
    want = formula(x)
    for run in (function, torch.compile(function)):
        np.testing.assert_allclose(run(torch.tensor(x)).numpy(), want, rtol=1e-13, atol=1e-300)
        single = run(torch.tensor(x.astype(np.float32))).numpy()
        np.testing.assert_allclose(single, formula(x.astype(np.float32)), rtol=2e-6, atol=1e-44)


@pytest.mark.parametrize("name", FORMULAS)
def test_gradients(name: str, check_gradient: Callable[..., None]) -> None:
    check_gradient(FORMULAS[name][0], np.random.default_rng(3).standard_normal((4, 6)) * 2)


def test_tanhshrink(check: Any, check_gradient: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4))
    check(F.tanhshrink(torch.tensor(x)), x - np.tanh(x))
    check_gradient(F.tanhshrink, x)
    leaf = torch.tensor([1e-4], requires_grad=True)
    F.tanhshrink(leaf).backward()
    assert leaf.grad.item() == pytest.approx(1e-8, rel=1e-5)


def test_prelu(check: Any, check_gradient: Any) -> None:
    random = np.random.default_rng(0)
    x, w = random.standard_normal((2, 3, 4)), random.standard_normal(3)
    check(F.prelu(torch.tensor(x), torch.tensor(w)), np.where(x > 0, x, x * w[:, None]))
    check_gradient(F.prelu, x, w)
    check_gradient(F.prelu, x, w[:1])
    assert nn.PReLU(3).weight.tolist() == [0.25] * 3


def test_an_infinite_input_gives_its_slope_no_gradient() -> None:
    x, w = torch.tensor([math.inf]), torch.tensor([0.5], requires_grad=True)
    F.prelu(x, w).sum().backward()
    assert w.grad.item() == 0


@pytest.mark.parametrize("name", ["relu", "elu", "silu", "mish", "hardswish", "leaky_relu"])
def test_in_place_in_a_trace(name: str) -> None:
    def run(x: Any) -> Any:
        y = x * 2
        getattr(F, name)(y, inplace=True)
        return y

    x = np.random.default_rng(0).standard_normal(9)
    leaves = [torch.tensor(x, requires_grad=True) for _ in range(2)]
    made = [run(leaves[0]), torch.compile(run)(leaves[1])]
    np.testing.assert_allclose(made[1].detach().numpy(), made[0].detach().numpy(), rtol=1e-12)
    for out in made:
        out.sum().backward()
    np.testing.assert_allclose(leaves[1].grad.numpy(), leaves[0].grad.numpy(), rtol=1e-12)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        getattr(F, name)(torch.tensor(x, requires_grad=True), inplace=True)


def test_an_argument_changed_in_place() -> None:
    x = torch.tensor([-1.0, 2.0])
    torch.compile(nn.SiLU(inplace=True))(x)
    np.testing.assert_allclose(x.numpy(), F.silu(torch.tensor([-1.0, 2.0])).numpy(), rtol=1e-6)


# -- drawn ---------------------------------------------------------------------------------------


def test_rrelu_draws_slopes_in_training_only() -> None:
    torch.manual_seed(0)
    x = torch.full((2000,), -1.0, requires_grad=True)
    layer = nn.RReLU(0.2, 0.6)
    out = layer(x)
    values = -out.detach().numpy()
    assert 0.2 <= values.min() < 0.21 and 0.59 < values.max() <= 0.6
    assert values.mean() == pytest.approx(0.4, abs=0.01)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), values)
    assert np.allclose(layer.eval()(x).detach().numpy(), -0.4)
    assert (layer.train()(torch.ones(3)) == 1).all()


def test_rrelu_draws_the_same_compiled() -> None:
    x = torch.randn(50)
    layer = nn.RReLU()
    torch.manual_seed(1)
    eager = [layer(x).numpy() for _ in range(2)]
    torch.manual_seed(1)
    compiled = torch.compile(layer)
    for want in eager:
        np.testing.assert_array_equal(compiled(x).numpy(), want)


def test_gumbel_softmax() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([[0.0, math.log(2), math.log(5)]]).repeat(4000, 1).requires_grad_()
    soft = F.gumbel_softmax(logits, tau=0.7)
    np.testing.assert_allclose(soft.detach().numpy().sum(1), 1, rtol=1e-5)
    hard = F.gumbel_softmax(logits, hard=True)
    values = hard.detach().numpy()
    assert set(np.unique(values.round(5))) == {0, 1}
    np.testing.assert_allclose(values.mean(0), np.array([1, 2, 5]) / 8, atol=0.03)
    (hard * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert np.abs(logits.grad.numpy()).sum() > 0
    with pytest.warns(UserWarning, match="`eps` parameter is deprecated"):
        F.gumbel_softmax(logits, eps=1e-3)


def test_gumbel_softmax_draws_the_same_compiled() -> None:
    logits = torch.randn(6, 4)
    for hard in (False, True):
        torch.manual_seed(1)
        want = F.gumbel_softmax(logits, hard=hard, dim=0).numpy()
        torch.manual_seed(1)
        made = torch.compile(lambda x, hard=hard: F.gumbel_softmax(x, hard=hard, dim=0))(logits)
        np.testing.assert_allclose(made.numpy(), want, rtol=1e-5, atol=1e-7)
