"""Kullback–Leibler divergences of pairs of distributions: a table by their classes.

registry is the table; one_family has pairs of one family, by_moments of two, vectors normal ones,
composed those made of others, infinite those whose divergence is.
"""

from frontend.distributions.kl import by_moments, composed, infinite, one_family, vectors
from frontend.distributions.kl.registry import (
    _KL_REGISTRY,  # noqa: F401
    kl_divergence,
    register_kl,
)

__all__ = ["kl_divergence", "register_kl"]

del by_moments, composed, infinite, one_family, vectors  # imported for what they register
