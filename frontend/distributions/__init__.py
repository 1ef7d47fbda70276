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

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Normal", "Uniform",
    "constraints", "kl_divergence", "register_kl",
]  # fmt: skip
