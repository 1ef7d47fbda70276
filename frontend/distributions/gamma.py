"""The gamma distribution and those made of gamma numbers: chi-squared, beta, Dirichlet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.exp_family import ExponentialFamily
from frontend.distributions.utils import broadcast_all, tiny
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.bessel_and_gamma import igamma
from frontend.functions.drawn_numbers import standard_gamma
from frontend.functions.pointwise import clamp
from frontend.functions.pointwise_composites import xlogy
from frontend.functions.shape import expand, stack
from graphc.ir.types import DType


class Gamma(ExponentialFamily):
    """The gamma distribution of shape `concentration` and of `rate` (the inverse of the scale)."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    parameters = ("concentration", "rate")
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return clamp((self.concentration - 1) / self.rate, min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(expand(self.concentration, shape)) / expand(self.rate, shape)
        return clamp(value, min=tiny(value))

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return xlogy(a, rate) + xlogy(a - 1, value) - rate * value - a.lgamma()

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The chi-squared distribution of `df` degrees of freedom: Gamma(df / 2, 1 / 2)."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Points of the simplex of shapes `concentration` [*, K]: K gamma numbers over their sum."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    parameters = ("concentration",)
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def _own_dims(self, name: str) -> tuple[int, ...]:
        return tuple(self._event_shape)

    @property
    def _total(self) -> Tensor:
        return self.concentration.sum(-1, keepdim=True)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self._total

    @property
    def mode(self) -> Tensor:
        above = clamp(self.concentration - 1, min=0)
        mode = above / above.sum(-1, keepdim=True)
        corner = (self.concentration < 1).all(-1, keepdim=True)
        greatest = self.concentration.argmax(-1, keepdim=True)
        at_greatest = above.new_zeros(above.shape).scatter(-1, greatest, 1.0)
        return at_greatest.where(corner, mode)

    @property
    def variance(self) -> Tensor:
        a, total = self.concentration, self._total
        return a * (total - a) / (total**2 * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # In f64, which has numbers for small shapes that f32 has not.
        a = self.concentration
        shapes = casted(expand(a, self._extended_shape(sample_shape)), DType.f64)
        numbers = standard_gamma(shapes)
        return casted(numbers / numbers.sum(-1, keepdim=True), a.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return xlogy(a - 1, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, total, count = self.concentration, self.concentration.sum(-1), self._event_shape[0]
        away = (count - total) * total.digamma() + ((a - 1.0) * a.digamma()).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - away

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """The beta distribution of the shapes `concentration1` and `concentration0`."""

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    parameters = ("concentration1", "concentration0")
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(stack([self.concentration1, self.concentration0], -1), False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet().mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet().rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._dirichlet().log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet().entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
