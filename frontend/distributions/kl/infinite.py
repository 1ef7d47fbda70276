"""Pairs of which the first has values that the second never has."""

from __future__ import annotations

import math

from frontend.distributions.bernoulli import Bernoulli
from frontend.distributions.continuous_bernoulli import ContinuousBernoulli
from frontend.distributions.counts import Binomial, Poisson
from frontend.distributions.distribution import Distribution
from frontend.distributions.exponential import Exponential
from frontend.distributions.extremes import Gumbel, Pareto
from frontend.distributions.gamma import Beta, Gamma
from frontend.distributions.kl.registry import register_kl
from frontend.distributions.normal import Normal
from frontend.distributions.uniform import Uniform
from frontend.distributions.wide_tails import Laplace
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full_like

_BEYOND: tuple[tuple[tuple[type, ...], tuple[type, ...]], ...] = (
    (
        (Normal, Laplace, Gumbel),
        (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    ),
    ((Exponential, Gamma), (Beta, ContinuousBernoulli, Pareto, Uniform)),
    ((Pareto,), (Beta, ContinuousBernoulli, Uniform)),
    ((Beta, ContinuousBernoulli), (Pareto,)),
    ((Poisson,), (Bernoulli, Binomial)),
)


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    return full_like(p.mean + q.mean, math.inf)


for _wide, _narrow in _BEYOND:
    for _left in _wide:
        for _right in _narrow:
            register_kl(_left, _right)(_infinite)
