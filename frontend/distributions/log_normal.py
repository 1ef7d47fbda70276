"""The log-normal distribution."""

from __future__ import annotations

from typing import Any

from frontend.distributions import constraints
from frontend.distributions.normal import Normal
from frontend.distributions.transformed_distribution import TransformedFamily
from frontend.distributions.transforms import ExpTransform
from frontend.distributions.utils import broadcast_all
from frontend.engine.tensors.tensor import Tensor


class LogNormal(TransformedFamily):
    """exp of normal numbers of mean `loc` and standard deviation `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    parameters = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        self._set_up(validate_args)

    def _base_and_transforms(self) -> Any:
        return Normal(self.loc, self.scale, False), [ExpTransform()]

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
