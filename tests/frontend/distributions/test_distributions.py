"""Distributions: samples by their statistics, gradients, checks; formulas stand in ../peers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import distributions as D

T = torch.tensor
MADE = {
    "normal": lambda: D.Normal(T([0.5, -1.0]), T([1.0, 2.0])),
    "uniform": lambda: D.Uniform(T([0.0, -1.0]), T([1.0, 3.0])),
    "exponential": lambda: D.Exponential(T([0.5, 3.0])),
    "bernoulli": lambda: D.Bernoulli(T([0.2, 0.7])),
}


@pytest.mark.parametrize("name", MADE)
def test_samples_have_the_mean_and_variance(name: str) -> None:
    torch.manual_seed(0)
    made = MADE[name]()
    drawn = made.sample((20000,))
    assert drawn.shape == (20000, 2) and not drawn.requires_grad
    np.testing.assert_allclose(drawn.mean(0).numpy(), made.mean.numpy(), atol=0.06)
    np.testing.assert_allclose(drawn.var(0).numpy(), made.variance.numpy(), rtol=0.08, atol=0.02)


def test_categories_are_drawn_by_weight() -> None:
    torch.manual_seed(0)
    made = D.Categorical(T([[1.0, 0.0, 3.0], [2.0, 2.0, 0.0]]))
    drawn = made.sample((8000,)).numpy()
    shares = np.stack([(drawn == k).mean(0) for k in range(3)], 1)
    np.testing.assert_allclose(shares, [[0.25, 0, 0.75], [0.5, 0.5, 0]], atol=0.02)
    assert shares[0, 1] == 0 and shares[1, 2] == 0


def test_multinomial() -> None:
    torch.manual_seed(0)
    weights = T([0.0, 1.0, 2.0, 0.0, 5.0])
    assert sorted(torch.multinomial(weights, 3).tolist()) == [1, 2, 4]
    assert torch.multinomial(weights, 4, replacement=True).shape == (4,)
    for bad, message in (
        (T([1.0, -1.0]), "element < 0"), (T([0.0, 0.0]), "sum of probabilities <= 0"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            torch.multinomial(bad, 1)
    with pytest.raises(RuntimeError, match="without replacement"):
        torch.multinomial(weights, 6)
    with pytest.raises(RuntimeError, match="not enough"):
        torch.multinomial(weights, 4)


def test_gradients_flow_through_reparameterised_samples() -> None:
    loc, scale = T(0.5, requires_grad=True), T(2.0, requires_grad=True)
    torch.manual_seed(0)
    drawn = D.Normal(loc, scale).rsample((4,))
    drawn.sum().backward()
    assert loc.grad.item() == 4
    np.testing.assert_allclose(scale.grad.item(), ((drawn - 0.5) / 2).sum().item(), rtol=1e-5)


@pytest.mark.parametrize("name", MADE)
def test_compiled_they_draw_and_score_the_same(name: str) -> None:
    def run() -> Any:
        made = MADE[name]()
        drawn = made.sample((3,))
        return drawn, made.log_prob(drawn), made.entropy()

    torch.manual_seed(1)
    expected = run()
    torch.manual_seed(1)
    for x, y in zip(torch.compile(run)(), expected):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-5, atol=1e-6)


def test_expand() -> None:
    made = D.Normal(T([0.0, 1.0]), 1.0).expand((3, 2))
    assert made.batch_shape == (3, 2) and made.sample().shape == (3, 2)
    again = D.Categorical(T([0.5, 0.5])).expand((4,))
    assert again.sample().shape == (4,) and again.log_prob(T([0, 1, 0, 1])).shape == (4,)
    assert D.Bernoulli(T(0.5)).expand((2,)).probs.shape == (2,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: D.Normal(0.0, -1.0), r"scale \(Tensor of shape \(\)\).*GreaterThan"),
        (lambda: D.Bernoulli(T(1.5)), "probs .*Interval"),
        (lambda: D.Uniform(1.0, 0.0), "not defined when low>= high"),
        (lambda: D.Bernoulli(), "Either `probs` or `logits`"),
        (lambda: D.Categorical(T(0.5)), "at least one-dimensional"),
        (lambda: D.Categorical(T([-1.0, 2.0])), "Simplex"),
        (lambda: D.Normal(0.0, 1.0).log_prob(0.5), "must be a Tensor"),
        (lambda: D.Bernoulli(T(0.5)).log_prob(T(0.3)), "within the support"),
        (lambda: D.Normal(T([0.0, 1.0]), 1.0).log_prob(T([1.0, 2.0, 3.0])), "not broadcastable"),
    ],
)
def test_what_is_out_of_range_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_checks_can_be_left_out() -> None:
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1


def test_divergences_of_unknown_pairs_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="Normal and q type Bernoulli"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Bernoulli(T(0.5)))
