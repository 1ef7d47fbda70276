"""The positive halves of distributions around 0."""

from __future__ import annotations

import math
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.normal import Normal
from frontend.distributions.transformed_distribution import TransformedFamily
from frontend.distributions.transforms import AbsTransform
from frontend.distributions.utils import broadcast_all
from frontend.distributions.wide_tails import Cauchy
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full_like, zeros_like
from frontend.functions.pointwise import where


class HalfDistribution(TransformedFamily):
    """|x| of what is distributed around 0 with a `scale`."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    parameters = ("scale",)
    _whole: Any  # the class of x

    def __init__(self, scale: Any, validate_args: bool | None = None):
        (self.scale,) = broadcast_all(scale)
        self._set_up(validate_args)

    def _base_and_transforms(self) -> Any:
        return self._whole(zeros_like(self.scale), self.scale, False), [AbsTransform()]

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(HalfDistribution):
    """|x| of normal x of mean 0 and standard deviation `scale`."""

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)


class HalfCauchy(HalfDistribution):
    """|x| of x of Cauchy's distribution around 0 of `scale`."""

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return full_like(self.scale, math.inf)
