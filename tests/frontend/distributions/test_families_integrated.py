"""Densities and divergences of families, by sums over fine steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend import distributions as D
from frontend import tensor

CASES: dict[str, tuple[Any, float, float]] = {
    "gumbel": (D.Gumbel(tensor(0.5), tensor(1.5)), -10, 60),
    "log normal": (D.LogNormal(tensor(0.2), tensor(0.4)), 1e-6, 30),
    "weibull": (D.Weibull(tensor(1.5), tensor(2.0)), 1e-6, 20),
    "kumaraswamy": (D.Kumaraswamy(tensor(2.0), tensor(3.0)), 1e-6, 1 - 1e-6),
    "continuous bernoulli": (D.ContinuousBernoulli(tensor(0.3)), 1e-6, 1 - 1e-6),
    "half normal": (D.HalfNormal(tensor(1.5)), 0.0, 20),
}


@pytest.mark.parametrize("name", CASES)
def test_density_mean_and_entropy(name: str) -> None:
    distribution, low, high = CASES[name]
    x = np.linspace(low, high, 200001)
    density = np.exp(distribution.log_prob(tensor(x)).numpy().astype(np.float64))
    step = x[1] - x[0]
    assert abs(density.sum() * step - 1) < 1e-3
    assert abs((density * x).sum() * step - float(distribution.mean)) < 2e-3
    surprise = np.where(density > 0, -np.log(np.maximum(density, 1e-300)), 0.0)
    assert abs((density * surprise).sum() * step - float(distribution.entropy())) < 2e-3
    if name == "kumaraswamy":
        assert abs(x[density.argmax()] - float(distribution.mode)) < 1e-3
    q = D.Normal(tensor(0.5), tensor(2.0))
    if name in ("gumbel", "continuous bernoulli"):
        other = q.log_prob(tensor(x)).numpy()
        apart = (density * (-surprise - other)).sum() * step
        assert abs(apart - float(D.kl_divergence(distribution, q))) < 2e-3
