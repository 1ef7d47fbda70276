"""Distributions of extremes: Gumbel's, Weibull's, Pareto's and the generalised one of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.constraints import Constraint
from frontend.distributions.distribution import Distribution
from frontend.distributions.exponential import Exponential
from frontend.distributions.transformed_distribution import TransformedFamily
from frontend.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from frontend.distributions.uniform import Uniform
from frontend.distributions.utils import broadcast_all, eps_of, euler_constant, tiny
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full_like, ones_like
from frontend.functions.pointwise import clamp, where
from frontend.functions.random import uniform


class Gumbel(TransformedFamily):
    """Gumbel's distribution of the greatest of many, around `loc`, as wide as `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    parameters = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        self._set_up(validate_args)

    def _base_and_transforms(self) -> Any:
        one = ones_like(self.scale)
        base = Uniform(full_like(self.loc, tiny(self.loc)), one - eps_of(self.loc), False)
        log = ExpTransform().inv
        outer = AffineTransform(self.loc, -self.scale)
        return base, [log, AffineTransform(0, -one), log, outer]

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev**2

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class Weibull(TransformedFamily):
    """Weibull's distribution of lifetimes: `scale` times the root of degree `concentration` of an
    exponential number."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    parameters = ("scale", "concentration")

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self._set_up(validate_args)

    def _base_and_transforms(self) -> Any:
        root = PowerTransform(self.concentration.reciprocal())
        base = Exponential(ones_like(self.scale), False)
        return base, [root, AffineTransform(0, self.scale)]

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        squares = (1 + 2 * inverse).lgamma().exp() - (2 * (1 + inverse).lgamma()).exp()
        return self.scale**2 * squares

    def entropy(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1


class Pareto(TransformedFamily):
    """Pareto's distribution: from `scale` on, falling as the power `alpha`."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    parameters = ("scale", "alpha")

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        self._set_up(validate_args)

    def _base_and_transforms(self) -> Any:
        return Exponential(self.alpha, False), [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        alpha = clamp(self.alpha, min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        alpha = clamp(self.alpha, min=2)
        return self.scale**2 * alpha / ((alpha - 1) ** 2 * (alpha - 2))

    def entropy(self) -> Tensor:
        inverse = self.alpha.reciprocal()
        return (self.scale * inverse).log() + (1 + inverse)


class GeneralizedPareto(Distribution):
    """What exceeds a threshold `loc`: of width `scale` and of the tail `concentration` (0: as the
    exponential distribution's; below 0 there is a greatest value)."""

    arg_constraints = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real
    }  # fmt: skip
    parameters = ("loc", "scale", "concentration")
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        below = self.concentration < 0
        highest = self.loc - self.scale / where(below, self.concentration, -1.0)
        return constraints.interval(self.loc, where(below, highest, math.inf))

    def _tail(self) -> tuple[Tensor, Tensor]:
        """Where the tail is exponential, and the concentration, 1 there."""
        k = self.concentration
        exponential = k.abs() <= eps_of(k)
        return exponential, where(exponential, 1.0, k)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = uniform(self._extended_shape(sample_shape), self.loc.dtype)
        return self.icdf(drawn)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the share above `value`."""
        exponential, k = self._tail()
        z = (value - self.loc) / self.scale
        return where(exponential, -z, -(k * z).log1p() / k)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        exponential, k = self._tail()
        z = (value - self.loc) / self.scale
        density = where(exponential, -z, -(1 + 1 / k) * (k * z).log1p()) - self.scale.log()
        inside = (z >= 0) & (1 + self.concentration * z > 0)
        return where(inside, density, -math.inf)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the share up to `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        exponential, k = self._tail()
        above = (-value).log1p()
        z = where(exponential, -above, (-k * above).expm1() / k)
        return self.loc + self.scale * z

    @property
    def mean(self) -> Tensor:
        finite = self.concentration < 1
        k = where(finite, self.concentration, 0.5)
        return where(finite, self.loc + self.scale / (1 - k), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.concentration < 0.5
        k = where(finite, self.concentration, 0.25)
        return where(finite, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.inf)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
