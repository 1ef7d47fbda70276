"""The inverse of gamma numbers."""

from __future__ import annotations

import math
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.gamma import Gamma
from frontend.distributions.transformed_distribution import TransformedFamily
from frontend.distributions.transforms import PowerTransform
from frontend.distributions.utils import broadcast_all
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import where


class InverseGamma(TransformedFamily):
    """1 / x of gamma numbers x of shape `concentration` and of `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    parameters = ("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        self._set_up(validate_args)

    def _base_and_transforms(self) -> Any:
        exponent = -self.rate.new_ones(())
        return Gamma(self.concentration, self.rate, False), [PowerTransform(exponent)]

    @property
    def mean(self) -> Tensor:
        finite = self.concentration > 1
        a = where(finite, self.concentration, 2.0)
        return where(finite, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        finite = self.concentration > 2
        a = where(finite, self.concentration, 3.0)
        return where(finite, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
