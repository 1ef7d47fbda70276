"""Pairs made of other distributions, and exponential families."""

from __future__ import annotations

from frontend.autograd import grad
from frontend.distributions.exp_family import ExponentialFamily, natural_parameters
from frontend.distributions.half_distributions import HalfNormal
from frontend.distributions.independent import Independent
from frontend.distributions.kl.registry import kl_divergence, register_kl, unknown_pair
from frontend.distributions.one_hot import OneHotCategorical
from frontend.distributions.transformed_distribution import TransformedDistribution
from frontend.distributions.utils import _sum_rightmost
from frontend.engine.tensors.tensor import Tensor


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "no divergence of Independent distributions with different numbers of dimensions"
        )
    return p.summed(kl_divergence(p.base_dist, q.base_dist))


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise unknown_pair(p, q)
    base = kl_divergence(p.base_dist, q.base_dist)
    return _sum_rightmost(base, base.dim() - max(len(p.batch_shape), len(q.batch_shape)))


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise unknown_pair(p, q)
    # The Bregman divergence of the log-normaliser F: F's gradient is the mean of t(x).
    own = natural_parameters(p)
    norm = p._log_normalizer(*own)
    result = q._log_normalizer(*q._natural_params) - norm
    means = grad(norm.sum(), own, create_graph=True)
    for mine, other, mean in zip(own, q._natural_params, means):
        part = (other - mine) * mean
        result = result - _sum_rightmost(part, part.dim() - result.dim())
    return result
