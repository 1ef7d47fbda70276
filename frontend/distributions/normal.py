"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from frontend.distributions.exp_family import ExponentialFamily
from frontend.distributions.location_scale import LocationScale
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.random import normal_numbers


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = normal_numbers(self._extended_shape(sample_shape), self.loc.dtype)
        return self.loc + drawn * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        away = (value - self.loc) ** 2 / (2 * self.variance)
        return -away - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 0.5 * (1 + ((value - self.loc) / self.scale / math.sqrt(2)).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale**2, -0.5 * self.scale.reciprocal() ** 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x**2 / y + 0.5 * (-math.pi / y).log()
