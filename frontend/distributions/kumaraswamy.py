"""Kumaraswamy's distribution."""

from __future__ import annotations

from typing import Any

from frontend.distributions import constraints
from frontend.distributions.transformed_distribution import TransformedFamily
from frontend.distributions.transforms import AffineTransform, PowerTransform
from frontend.distributions.uniform import Uniform
from frontend.distributions.utils import broadcast_all, euler_constant
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full_like, ones_like, zeros_like
from frontend.functions.pointwise import where


class Kumaraswamy(TransformedFamily):
    """Close to the beta distribution of the same shapes, with a formula for its shares."""

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    parameters = ("concentration1", "concentration0")

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        self._set_up(validate_args)

    def _base_and_transforms(self) -> Any:
        a, b = self.concentration1, self.concentration0
        base = Uniform(zeros_like(b), ones_like(b), False)
        roots = PowerTransform(b.reciprocal()), PowerTransform(a.reciprocal())
        return base, [roots[0], AffineTransform(1.0, -1.0), roots[1]]

    def _moment(self, n: int) -> Tensor:
        b, first = self.concentration0, 1 + n / self.concentration1
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        known = (a >= 1) & (b >= 1) & ((a > 1) | (b > 1))
        value = a.reciprocal() * ((a - 1).log() - (a * b - 1).log())
        return where(known, value.exp(), full_like(a, float("nan")))

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        outer = (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic
        return outer - a.log() - b.log()
