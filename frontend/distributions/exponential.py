"""The exponential distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.exp_family import ExponentialFamily
from frontend.distributions.utils import broadcast_all
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros, zeros_like


class Exponential(ExponentialFamily):
    """The exponential distribution of a rate."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    parameters = ("rate",)
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return (self.rate * self.rate).reciprocal()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = zeros(self._extended_shape(sample_shape), dtype=self.rate.dtype).exponential_()
        return drawn / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -(-x).log()
