"""`frontend.distributions`: probability distributions, named as PyTorch's.

Everything traces into a compiled function. Values are checked where they are known: not in a trace.

distribution is what all share, exp_family what exponential families do; constraints says what
parameters and samples satisfy, constraint_registry which transforms lead there, transforms/ has
these, kl/ divergences, utils helpers.

Of numbers: normal and uniform, exponential, gamma (chi-squared, beta, Dirichlet too),
inverse_gamma, kumaraswamy, log_normal, extremes, wide_tails, half_distributions, von_mises
(location_scale is what some share). Of counts and classes: bernoulli, continuous_bernoulli,
categorical, one_hot, counts (probabilities is what these share), and relaxed, relaxed_bernoulli,
relaxed_categorical in place of them. Of vectors and matrices: multivariate_normal,
lowrank_multivariate_normal (by covariance), logistic_normal, wishart, lkj_cholesky. Of others:
independent, mixture, transformed_distribution.
"""

from frontend.distributions import constraints, transforms
from frontend.distributions.bernoulli import Bernoulli
from frontend.distributions.categorical import Categorical
from frontend.distributions.constraint_registry import biject_to, transform_to
from frontend.distributions.continuous_bernoulli import ContinuousBernoulli
from frontend.distributions.counts import (
    Binomial,
    Geometric,
    Multinomial,
    NegativeBinomial,
    Poisson,
)
from frontend.distributions.distribution import Distribution
from frontend.distributions.exp_family import ExponentialFamily
from frontend.distributions.exponential import Exponential
from frontend.distributions.extremes import GeneralizedPareto, Gumbel, Pareto, Weibull
from frontend.distributions.gamma import Beta, Chi2, Dirichlet, Gamma
from frontend.distributions.half_distributions import HalfCauchy, HalfNormal
from frontend.distributions.independent import Independent
from frontend.distributions.inverse_gamma import InverseGamma
from frontend.distributions.kl import kl_divergence, register_kl
from frontend.distributions.kumaraswamy import Kumaraswamy
from frontend.distributions.lkj_cholesky import LKJCholesky
from frontend.distributions.log_normal import LogNormal
from frontend.distributions.logistic_normal import LogisticNormal
from frontend.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from frontend.distributions.mixture import MixtureSameFamily
from frontend.distributions.multivariate_normal import MultivariateNormal
from frontend.distributions.normal import Normal
from frontend.distributions.one_hot import OneHotCategorical, OneHotCategoricalStraightThrough
from frontend.distributions.relaxed_bernoulli import RelaxedBernoulli
from frontend.distributions.relaxed_categorical import RelaxedOneHotCategorical
from frontend.distributions.transformed_distribution import TransformedDistribution
from frontend.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from frontend.distributions.uniform import Uniform
from frontend.distributions.von_mises import VonMises
from frontend.distributions.wide_tails import Cauchy, FisherSnedecor, Laplace, StudentT
from frontend.distributions.wishart import Wishart

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform",
    "Categorical", "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution",
    "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal",
    "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily",
    "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "constraints", "identity_transform",
    "kl_divergence", "register_kl", "transform_to", "transforms",
]  # fmt: skip
