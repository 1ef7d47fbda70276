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
from tests.frontend.layer_cases.activations import ACTIVATIONS, CANCELLING, Activation

FAR = np.array([-700.0, -90.0, -30.0, -3.0, -0.4, -1e-9, 1e-9, 0.4, 3.0, 30.0, 90.0, 700.0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", ACTIVATIONS, ids=str)
def test_each_value_is_exact_also_far_from_zero(case: Activation) -> None:
    function = case.make(nn)
    x = np.concatenate([FAR, np.random.default_rng(0).standard_normal(20)])
    lost = case.layer in CANCELLING
    for run in (function, torch.compile(function)):
        actual, least = run(torch.tensor(x)).numpy(), 1e-14 if lost else 1e-300
        np.testing.assert_allclose(actual, case.definition(x), 2e-13, least)
        single = x.astype(np.float32)
        expected = case.definition(single.astype(np.float64)).astype(np.float32)
        actual, least = run(torch.tensor(single)).numpy(), 1e-6 if lost else 1e-44
        np.testing.assert_allclose(actual, expected, 2e-6, least)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", ACTIVATIONS, ids=str)
def test_gradients(case: Activation, check_gradient: Callable[..., None]) -> None:
    check_gradient(case.make(nn), np.random.default_rng(3).standard_normal((4, 6)) * 2)


def test_the_gradient_of_tanhshrink_near_zero() -> None:
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
    results = [run(leaves[0]), torch.compile(run)(leaves[1])]
    eager, compiled = (result.detach().numpy() for result in results)
    np.testing.assert_allclose(compiled, eager, rtol=1e-12)
    for out in results:
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
        run = torch.compile(lambda x, hard=hard: F.gumbel_softmax(x, hard=hard, dim=0))
        np.testing.assert_allclose(run(logits).numpy(), want, rtol=1e-5, atol=1e-7)


def test_tanhshrink_takes_no_bools() -> None:
    with pytest.raises(TypeError, match=r"Subtraction, the `-` operator, with a bool tensor"):
        F.tanhshrink(torch.tensor([True]))


@pytest.mark.parametrize(("dtype", "greatest"), [("float16", 65504), ("float32", 3.40282e38)])
def test_softshrink_by_what_the_dtype_has(dtype: str, greatest: float) -> None:
    x = torch.ones(2, dtype=getattr(torch, dtype))
    assert F.softshrink(x, greatest).tolist() == [0, 0]
    for lambd in (-1.0, greatest * 1.01, math.inf, math.nan):
        with pytest.raises(RuntimeError, match=r"lambda must be in range \[0, .* for input dtype"):
            F.softshrink(x, lambd)
