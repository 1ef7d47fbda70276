"""Distributions with wide tails: Cauchy's, Laplace's, Student's t, and Fisher and Snedecor's F."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.distribution import Distribution
from frontend.distributions.gamma import Chi2, Gamma
from frontend.distributions.location_scale import LocationScale
from frontend.distributions.utils import broadcast_all, tiny
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full
from frontend.functions.pointwise import clamp, where
from frontend.functions.random import normal_numbers, uniform
from frontend.functions.unary import atan, sign, tan


class Cauchy(LocationScale):
    """Cauchy's (Lorentz') distribution around `loc`, half as high at `scale` from there."""

    @property
    def mean(self) -> Tensor:
        return full(self._extended_shape(), math.nan, dtype=self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        return full(self._extended_shape(), math.inf, dtype=self.loc.dtype)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = uniform(self._extended_shape(sample_shape), self.loc.dtype)
            standard = tan((drawn - 0.5) * math.pi)
        return self.loc + standard * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        away = ((value - self.loc) / self.scale) ** 2
        return -math.log(math.pi) - self.scale.log() - away.log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Laplace(LocationScale):
    """Laplace's distribution around `loc`, which falls by a factor of e in `scale`."""

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = 2 * uniform(self._extended_shape(sample_shape), self.loc.dtype) - 1
            # -1 can be drawn, of which there is no logarithm.
            standard = -sign(drawn) * (-clamp(drawn.abs(), max=1 - 2.0**-24)).log1p()
        return self.loc + self.scale * standard

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        away = value - self.loc
        return 0.5 - 0.5 * sign(away) * (-away.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * sign(term) * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class StudentT(Distribution):
    """Student's t of `df` degrees of freedom, moved by `loc` and scaled by `scale`."""

    arg_constraints = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    parameters = ("df", "loc", "scale")
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        df = where(finite, self.df, 3.0)
        infinite = where(self.df > 1, math.inf, math.nan).to(df.dtype)
        return where(finite, self.scale**2 * df / (df - 2), infinite)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # A normal number over the root of a mean of squares of others.
        with no_grad():
            normal = normal_numbers(self._extended_shape(sample_shape), self.df.dtype)
        squares = Chi2(self.df, False).rsample(sample_shape)
        return self.loc + self.scale * normal * (squares / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y, df = (value - self.loc) / self.scale, self.df
        norm = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi)
        norm = norm + (0.5 * df).lgamma() - (0.5 * (df + 1.0)).lgamma()
        return -0.5 * (df + 1.0) * (y**2.0 / df).log1p() - norm

    def entropy(self) -> Tensor:
        df = self.df
        log_beta = (0.5 * df).lgamma() + math.lgamma(0.5) - (0.5 * (df + 1)).lgamma()
        bend = 0.5 * (df + 1) * ((0.5 * (df + 1)).digamma() - (0.5 * df).digamma())
        return self.scale.log() + bend + 0.5 * df.log() + log_beta


class FisherSnedecor(Distribution):
    """The ratio of two means of squares, of `df1` and `df2` normal numbers."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    parameters = ("df1", "df2")
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        finite = self.df2 > 2
        df2 = where(finite, self.df2, 3.0)
        return where(finite, df2 / (df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        finite, df1 = self.df2 > 4, self.df1
        df2 = where(finite, self.df2, 5.0)
        variance = 2 * df2**2 * (df1 + df2 - 2) / (df1 * (df2 - 2) ** 2 * (df2 - 4))
        return where(finite, variance, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        first = Gamma(self.df1 * 0.5, self.df1, False).rsample(sample_shape)
        second = Gamma(self.df2 * 0.5, self.df2, False).rsample(sample_shape)
        ratio = first / second
        return clamp(ratio, min=tiny(ratio))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        shape = half1 * ratio.log() + (half1 - 1) * value.log()
        return norm + shape - (half1 + half2) * (ratio * value).log1p()
