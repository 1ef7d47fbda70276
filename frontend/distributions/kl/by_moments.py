"""Pairs of two families: the mean of log q under p, which follows from few moments of p, and p's
entropy."""

from __future__ import annotations

import math
from typing import Any

from frontend.distributions.bernoulli import Bernoulli
from frontend.distributions.continuous_bernoulli import ContinuousBernoulli
from frontend.distributions.counts import Poisson
from frontend.distributions.exponential import Exponential
from frontend.distributions.extremes import Gumbel, Pareto
from frontend.distributions.gamma import Beta, Gamma
from frontend.distributions.kl.registry import register_kl
from frontend.distributions.normal import Normal
from frontend.distributions.uniform import Uniform
from frontend.distributions.utils import euler_constant
from frontend.distributions.wide_tails import Laplace
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.logic import logical_or
from frontend.functions.pointwise import where
from frontend.functions.pointwise_composites import xlogy


def mean_log(p: Any) -> Tensor:
    """The mean of log x under p."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.alpha.reciprocal() + p.scale.log()
    assert isinstance(p, Uniform)
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1


def mean_exponential(p: Any, rate: Tensor) -> Tensor:
    """The mean of exp(-rate x) under p."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + rate)
    if isinstance(p, Gamma):
        return (1 + rate / p.rate) ** -p.concentration
    if isinstance(p, Normal):
        return (-p.loc * rate + 0.5 * (p.scale * rate) ** 2).exp()
    assert isinstance(p, Uniform)
    width = rate * (p.high - p.low)
    return ((-p.low * rate).exp() - (-p.high * rate).exp()) / width


def within(p: Any, low: Any, high: Any, result: Tensor) -> Tensor:
    """The result; infinity where a uniform p has values outside."""
    if not isinstance(p, Uniform):
        return result
    return where(logical_or(p.low < low, p.high > high), math.inf, result)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
@register_kl(Uniform, Normal)
def _normal(p: Any, q: Normal) -> Tensor:
    squares = p.variance + (p.mean - q.loc) ** 2
    return -p.entropy() + (q.scale * math.sqrt(2 * math.pi)).log() + 0.5 * squares / q.scale**2


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _exponential(p: Any, q: Exponential) -> Tensor:
    return within(p, 0.0, math.inf, -p.entropy() - q.rate.log() + q.rate * p.mean)


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
@register_kl(Pareto, Gamma)
@register_kl(Uniform, Gamma)
def _gamma(p: Any, q: Gamma) -> Tensor:
    a = q.concentration
    norm = a.lgamma() - a * q.rate.log()
    result = -p.entropy() + norm - (a - 1) * mean_log(p) + q.rate * p.mean
    return within(p, 0.0, math.inf, result)


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _gumbel(p: Any, q: Gumbel) -> Tensor:
    rate = q.scale.reciprocal()
    above = (q.loc * rate).exp() * mean_exponential(p, rate)
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) * rate + above


@register_kl(Uniform, Pareto)
def _pareto(p: Uniform, q: Pareto) -> Tensor:
    norm = q.alpha.log() + q.alpha * q.scale.log()
    return within(p, q.scale, math.inf, -p.entropy() - norm + (q.alpha + 1) * mean_log(p))


@register_kl(Uniform, Beta)
def _beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    rest = _mean_log_between(1 - p.high, 1 - p.low)
    result = -p.entropy() + norm - (a - 1) * mean_log(p) - (b - 1) * rest
    return within(p, 0.0, 1.0, result)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    norm = q._cont_bern_log_norm() + (-q.probs).log1p()
    return within(p, 0.0, 1.0, -p.entropy() - p.mean * q.logits - norm)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _uniform(p: Any, q: Uniform) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return where(logical_or(q.low > 0, q.high < 1), math.inf, result)


@register_kl(Normal, Laplace)
def _laplace(p: Normal, q: Laplace) -> Tensor:
    apart = p.loc - q.loc
    relative = apart / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * relative**2).exp()
    distance = near + apart * (math.sqrt(0.5) * relative).erf()
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(Bernoulli, Poisson)
def _poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)
