"""Kullback–Leibler divergences of pairs of distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from frontend.distributions.bernoulli import Bernoulli
from frontend.distributions.categorical import Categorical
from frontend.distributions.distribution import Distribution
from frontend.distributions.exponential import Exponential
from frontend.distributions.independent import Independent
from frontend.distributions.normal import Normal
from frontend.distributions.uniform import Uniform
from frontend.functions.creation import full_like
from frontend.functions.logic import logical_or
from frontend.functions.pointwise import where
from frontend.nn.functional.activation import softplus
from frontend.tensors.tensor import Tensor

_KNOWN: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator for a function of two distributions of these types (or subclasses)."""

    def decorate(function: Any) -> Any:
        _KNOWN[type_p, type_q] = function
        return function

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q) per batch element. Raises NotImplementedError for a pair that is not registered."""
    for left in type(p).__mro__:
        for right in type(q).__mro__:
            if (left, right) in _KNOWN:
                return _KNOWN[left, right](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


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


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    apart = (p.high + p.low) / 2 - q.loc
    second_moment = width**2 / 12 + apart**2
    return (math.sqrt(2 * math.pi) * q.scale / width).log() + 0.5 * second_moment / q.scale**2


@register_kl(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Tensor:
    mean = p.rate.reciprocal()
    second_moment = 2 * mean**2 - 2 * mean * q.loc + q.loc**2
    return (p.rate * q.scale * math.sqrt(2 * math.pi)).log() - 1 + 0.5 * second_moment / q.scale**2


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return where(p.low < 0, math.inf, result)


@register_kl(Normal, Uniform)
@register_kl(Normal, Exponential)
@register_kl(Exponential, Uniform)
def _beyond_the_support(p: Distribution, q: Distribution) -> Tensor:
    return full_like(p.mean + q.mean, math.inf)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "no divergence of Independent distributions with different numbers of dimensions"
        )
    return p.summed(kl_divergence(p.base_dist, q.base_dist))
