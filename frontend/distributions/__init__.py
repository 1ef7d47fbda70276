"""`frontend.distributions`: probability distributions, named as PyTorch's.

Everything traces into a compiled function. Values are checked where they are known: not in a trace.
"""

from frontend.distributions import constraints
from frontend.distributions.bernoulli import Bernoulli
from frontend.distributions.categorical import Categorical
from frontend.distributions.counts import (
    Binomial,
    Geometric,
    Multinomial,
    NegativeBinomial,
    Poisson,
)
from frontend.distributions.distribution import Distribution
from frontend.distributions.exponential import Exponential
from frontend.distributions.gamma import Beta, Chi2, Dirichlet, Gamma
from frontend.distributions.independent import Independent
from frontend.distributions.kl import kl_divergence, register_kl
from frontend.distributions.mixture import MixtureSameFamily
from frontend.distributions.multivariate_normal import MultivariateNormal
from frontend.distributions.normal import Normal
from frontend.distributions.one_hot import OneHotCategorical, OneHotCategoricalStraightThrough
from frontend.distributions.uniform import Uniform
from frontend.distributions.von_mises import VonMises
from frontend.distributions.wide_tails import Cauchy, FisherSnedecor, Laplace, StudentT
from frontend.namespace.absent import absent_names

_PLANNED = absent_names(
    "distributions",
    "ContinuousBernoulli ExponentialFamily GeneralizedPareto Gumbel HalfCauchy HalfNormal "
    "InverseGamma Kumaraswamy LKJCholesky LogNormal LogisticNormal LowRankMultivariateNormal "
    "Pareto RelaxedBernoulli RelaxedOneHotCategorical TransformedDistribution Weibull Wishart "
    "AbsTransform AffineTransform ComposeTransform ExpTransform PowerTransform SigmoidTransform "
    "SoftmaxTransform StickBreakingTransform TanhTransform Transform",
    "those without transforms are there: Beta, Gamma, MultivariateNormal, …",
)
for _kind in _PLANNED.values():
    _kind.planned = "others come with transforms and their divergences"
globals().update(_PLANNED)

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "Dirichlet", "Distribution",
    "Exponential", "FisherSnedecor", "Gamma", "Geometric", "Independent", "Laplace",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson", "StudentT", "Uniform",
    "VonMises", "constraints", "kl_divergence", "register_kl",
]  # fmt: skip
