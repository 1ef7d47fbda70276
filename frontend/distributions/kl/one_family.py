"""Pairs of one family, in formulas that lose nothing where the two are close."""

from __future__ import annotations

import math

from frontend.distributions.bernoulli import Bernoulli
from frontend.distributions.categorical import Categorical
from frontend.distributions.continuous_bernoulli import ContinuousBernoulli
from frontend.distributions.counts import Binomial, Geometric, Poisson
from frontend.distributions.exponential import Exponential
from frontend.distributions.extremes import Gumbel, Pareto
from frontend.distributions.gamma import Beta, Dirichlet, Gamma
from frontend.distributions.kl.registry import register_kl
from frontend.distributions.normal import Normal
from frontend.distributions.uniform import Uniform
from frontend.distributions.utils import euler_constant
from frontend.distributions.wide_tails import Cauchy, Laplace
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.logic import logical_or
from frontend.functions.pointwise import where
from frontend.nn.functional.activation import softplus


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    apart = ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + apart - 1 - ratio.log())


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return where(logical_or(q.low > p.low, q.high < p.high), math.inf, result)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    one = where(logical_or(q.probs == 0, p.probs == 0), where(p.probs == 0, 0.0, math.inf), one)
    never = logical_or(q.probs == 1, p.probs == 1)
    return one + where(never, where(p.probs == 1, 0.0, math.inf), zero)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    parts = p.probs * (p.logits - q.logits)
    parts = where(q.probs == 0, math.inf, parts)
    return where(p.probs == 0, 0.0, parts).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    norms = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    chances = (-p.probs).log1p() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + norms + chances


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    once = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, math.inf, p.total_count * once)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    rates = b * (p.rate / q.rate).log() + (q.rate - p.rate) * (a / p.rate)
    return rates + b.lgamma() - a.lgamma() + (a - b) * a.digamma()


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet(), q._dirichlet())


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    squares = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return squares.log() - (4 * p.scale * q.scale).log()


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    far = ((1 + ratio).lgamma() - apart).exp()
    return -ratio.log() + apart + ratio * euler_constant + far - (1 + euler_constant)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, result)
