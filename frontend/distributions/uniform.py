"""The uniform distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.constraints import Constraint
from frontend.distributions.distribution import Distribution
from frontend.distributions.utils import broadcast_all
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.logic import logical_and
from frontend.functions.pointwise import clamp, log
from frontend.functions.random import uniform


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    parameters = ("low", "high")
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        return {
            "low": constraints.less_than(self.high), "high": constraints.greater_than(self.low),
        }  # fmt: skip

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return self.high * math.nan

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = uniform(self._extended_shape(sample_shape), self.low.dtype)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = logical_and(self.low <= value, self.high > value).to(self.low.dtype)
        return log(inside) - log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return clamp((value - self.low) / (self.high - self.low), min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return log(self.high - self.low)
