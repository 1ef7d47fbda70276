"""`frontend.distributions`: probability distributions, named as PyTorch's."""

from frontend.distributions import constraints
from frontend.distributions.bernoulli import Bernoulli
from frontend.distributions.categorical import Categorical
from frontend.distributions.continuous import Exponential, Normal, Uniform
from frontend.distributions.distribution import Distribution
from frontend.distributions.kl import kl_divergence, register_kl

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Normal", "Uniform", "constraints",
    "kl_divergence", "register_kl",
]  # fmt: skip
