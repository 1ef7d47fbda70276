"""Distributions: samples by their statistics, gradients, checks; formulas stand in ../peers."""

from __future__ import annotations

import copy
import pickle
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
    "independent": lambda: D.Independent(D.Normal(T([0.5, -1.0]), T([1.0, 2.0])), 1),
}


@pytest.mark.parametrize("name", MADE)
def test_samples_have_the_mean_and_variance(name: str) -> None:
    torch.manual_seed(0)
    distribution = MADE[name]()
    drawn = distribution.sample((20000,))
    assert drawn.shape == (20000, 2) and not drawn.requires_grad
    np.testing.assert_allclose(drawn.mean(0).numpy(), distribution.mean.numpy(), atol=0.06)
    np.testing.assert_allclose(
        drawn.var(0).numpy(), distribution.variance.numpy(), rtol=0.08, atol=0.02
    )


def test_categories_are_drawn_by_weight() -> None:
    torch.manual_seed(0)
    distribution = D.Categorical(T([[1.0, 0.0, 3.0], [2.0, 2.0, 0.0]]))
    drawn = distribution.sample((8000,)).numpy()
    shares = np.stack([(drawn == k).mean(0) for k in range(3)], 1)
    np.testing.assert_allclose(shares, [[0.25, 0, 0.75], [0.5, 0.5, 0]], atol=0.02)
    assert shares[0, 1] == 0 and shares[1, 2] == 0


def test_gradients_flow_through_reparameterised_samples() -> None:
    loc, scale = T(0.5, requires_grad=True), T(2.0, requires_grad=True)
    torch.manual_seed(0)
    drawn = D.Normal(loc, scale).rsample((4,))
    drawn.sum().backward()
    assert loc.grad.item() == 4
    np.testing.assert_allclose(scale.grad.item(), ((drawn - 0.5) / 2).sum().item(), rtol=1e-5)
    low, high, rate = (T(x, requires_grad=True) for x in (1.0, 3.0, 2.0))
    drawn = D.Uniform(low, high).rsample((4,))
    drawn.sum().backward()
    share = ((drawn.detach() - 1) / 2).sum().item()
    np.testing.assert_allclose([low.grad.item(), high.grad.item()], [4 - share, share], rtol=1e-5)
    drawn = D.Exponential(rate).rsample((4,))
    drawn.sum().backward()
    np.testing.assert_allclose(rate.grad.item(), -drawn.sum().item() / 2, rtol=1e-5)
    assert not D.Normal(loc, scale).sample().requires_grad


def test_a_policy_gradient_step_is_the_same_compiled() -> None:
    """What reinforcement learning does: sample an action, weigh its log-probability."""
    curves = []
    for compiled in (False, True):
        torch.manual_seed(0)
        policy = torch.nn.Linear(3, 4)
        optimizer = torch.optim.SGD(policy.parameters(), lr=0.5)

        def step(x: Any, policy: Any = policy, optimizer: Any = optimizer) -> Any:
            chosen = D.Categorical(logits=policy(x))
            action = chosen.sample()
            gain = (chosen.log_prob(action) * (action == 2)).mean()
            loss = -gain - 0.01 * chosen.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        curves.append([run(torch.ones(16, 3)).item() for _ in range(10)])
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-4, atol=1e-6)
    assert len(run.specializations) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MADE)
def test_compiled_they_draw_and_score_the_same(name: str) -> None:
    def run() -> Any:
        distribution = MADE[name]()
        drawn = distribution.sample((3,))
        return (
            drawn,
            distribution.log_prob(drawn),
            distribution.entropy(),
            D.kl_divergence(distribution, distribution),
        )

    torch.manual_seed(1)
    expected = run()
    torch.manual_seed(1)
    for x, y in zip(torch.compile(run)(), expected):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-5, atol=1e-6)


def test_expand() -> None:
    expanded = D.Normal(T([0.0, 1.0]), 1.0).expand((3, 2))
    assert expanded.batch_shape == (3, 2) and expanded.sample().shape == (3, 2)
    again = D.Categorical(T([0.5, 0.5])).expand((4,))
    assert again.sample().shape == (4,) and again.log_prob(T([0, 1, 0, 1])).shape == (4,)
    assert D.Bernoulli(T(0.5)).expand((2,)).probs.shape == (2,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: D.Normal(0.0, -1.0), r"scale \(Tensor of shape \(\)\).*GreaterThan"),
        (lambda: D.Bernoulli(T(1.5)), "probs .*Interval"),
        (lambda: D.Uniform(1.0, 0.0), "constraint LessThan"),
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


def test_values_are_not_checked_in_a_trace_but_shapes_are() -> None:
    def score(x: Any) -> Any:
        return D.Normal(torch.zeros(2), torch.ones(2)).log_prob(x)

    run = torch.compile(score)
    assert torch.isnan(run(T([np.nan, 1.0]))[0])
    with pytest.raises(ValueError, match="not broadcastable"):
        run(T([1.0, 2.0, 3.0]))


def test_copies() -> None:
    for name, make in MADE.items():
        distribution = make()
        for other in (copy.deepcopy(distribution), pickle.loads(pickle.dumps(distribution))):
            assert repr(other) == repr(distribution), name
            assert torch.equal(other.entropy(), distribution.entropy())


def test_lazy_properties_are_computed_once() -> None:
    from frontend.distributions.utils import lazy_property

    class Slow:
        calls = 0

        @lazy_property
        def value(self) -> int:
            self.calls += 1
            return 7

    slow = Slow()
    assert (slow.value, slow.value, slow.calls) == (7, 7, 1)


def test_a_factor_that_a_derived_class_gives() -> None:
    """As gpytorch's normal distribution of a covariance that is computed when it is asked for."""

    class Lazy(D.MultivariateNormal):
        def __init__(self, loc: Any, factor: Any):
            self.loc, self.factor = loc, factor
            D.Distribution.__init__(self, (), loc.shape, validate_args=False)

        @property
        def _unbroadcasted_scale_tril(self) -> Any:
            return self.factor

    loc, factor = torch.tensor([1.0, 2.0]), torch.tensor([[2.0, 0.0], [0.5, 1.0]])
    whole = D.MultivariateNormal(loc, scale_tril=factor)
    lazy, x = Lazy(loc, factor), torch.tensor([0.3, 0.4])
    assert lazy.log_prob(x).tolist() == whole.log_prob(x).tolist()
    assert lazy.variance.tolist() == whole.variance.tolist()
    assert lazy.covariance_matrix.tolist() == whole.covariance_matrix.tolist()
