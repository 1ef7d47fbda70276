"""Formulas of distributions against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

P = np.array([0.1, 0.5, 0.9], np.float32)
X = np.array([-1.0, 0.3, 2.0], np.float32)
S = np.array([0.5, 1.0, 3.0], np.float32)
PROBS = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], np.float32)

MAKE: dict[str, tuple[Any, tuple[Any, ...], np.ndarray]] = {
    "normal": (lambda d, a, b: d.Normal(a, b), (X, S), X * 2),
    "uniform": (lambda d, a, b: d.Uniform(a, a + b), (X, S), X + S / 2),
    "exponential": (lambda d, a: d.Exponential(a), (S,), S),
    "bernoulli": (lambda d, a: d.Bernoulli(a), (P,), np.array([0, 1, 1], np.float32)),
    "bernoulli logits": (lambda d, a: d.Bernoulli(logits=a), (X,), np.array([0, 1, 1], np.float32)),
    "categorical": (lambda d, a: d.Categorical(a), (PROBS,), np.array([2, 0])),
    "categorical logits": (lambda d, a: d.Categorical(logits=a), (PROBS,), np.array([2, 0])),
}


@pytest.mark.parametrize("name", MAKE)
def test_log_prob_and_entropy(peer: Any, name: str) -> None:
    make, parameters, value = MAKE[name]
    peer.function(
        lambda t, *p: (
            make(t.distributions, *p).log_prob(t.tensor(value)), make(t.distributions, *p).entropy()
        ),
        *parameters,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["normal", "uniform", "exponential", "bernoulli", "categorical"])
def test_divergence(peer: Any, name: str) -> None:
    make, parameters, _ = MAKE[name]
    others = tuple(p[..., ::-1].copy() for p in parameters)
    if name == "uniform":
        others = (parameters[0] - 1, parameters[1] + 3)
    count = len(parameters)
    peer.function(
        lambda t, *p: t.distributions.kl_divergence(
            make(t.distributions, *p[:count]), make(t.distributions, *p[count:])
        ),
        *parameters,
        *others,
    )


@pytest.mark.parametrize("name", ["normal", "uniform", "exponential"])
def test_cdf_and_its_inverse(peer: Any, name: str) -> None:
    make, parameters, value = MAKE[name]
    peer.function(
        lambda t, *p: (
            make(t.distributions, *p).cdf(t.tensor(value)),
            make(t.distributions, *p).icdf(t.tensor(P)),
        ),
        *parameters,
    )


def test_text(peer: Any) -> None:
    import frontend

    for d, t in ((frontend.distributions, frontend), (peer.torch.distributions, peer.torch)):
        texts = [
            repr(d.Normal(t.tensor(0.0), t.tensor(1.0))), repr(d.Bernoulli(t.ones(3) / 2)),
            repr(d.Categorical(t.ones(2, 3) / 3)),
        ]  # fmt: skip
        if d is frontend.distributions:
            ours = texts
    assert ours == texts
