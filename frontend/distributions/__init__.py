"""`frontend.distributions`: probability distributions, named as PyTorch's.

Everything traces into a compiled function. Values are checked where they are known: not in a trace.
"""

from frontend.distributions import constraints
from frontend.distributions.bernoulli import Bernoulli
from frontend.distributions.categorical import Categorical
from frontend.distributions.distribution import Distribution
from frontend.distributions.exponential import Exponential
from frontend.distributions.independent import Independent
from frontend.distributions.kl import kl_divergence, register_kl
from frontend.distributions.normal import Normal
from frontend.distributions.uniform import Uniform
from frontend.namespace.absent import absent_names

_PLANNED = absent_names(
    "distributions",
    "Beta Binomial Cauchy Chi2 ContinuousBernoulli Dirichlet ExponentialFamily FisherSnedecor "
    "Gamma GeneralizedPareto Geometric Gumbel HalfCauchy HalfNormal InverseGamma Kumaraswamy "
    "LKJCholesky Laplace LogNormal LogisticNormal LowRankMultivariateNormal MixtureSameFamily "
    "Multinomial MultivariateNormal NegativeBinomial OneHotCategorical "
    "OneHotCategoricalStraightThrough Pareto Poisson RelaxedBernoulli RelaxedOneHotCategorical "
    "StudentT TransformedDistribution VonMises Weibull Wishart AbsTransform AffineTransform "
    "ComposeTransform ExpTransform PowerTransform SigmoidTransform SoftmaxTransform "
    "StickBreakingTransform TanhTransform Transform",
    "there are Bernoulli, Categorical, Exponential, Independent, Normal and Uniform",
)
for _kind in _PLANNED.values():
    _kind.planned = "others come with transforms and their divergences"
globals().update(_PLANNED)

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Normal", "Uniform",
    "constraints", "kl_divergence", "register_kl",
]  # fmt: skip
