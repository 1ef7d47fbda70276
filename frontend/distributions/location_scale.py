"""What distributions of a location and a scale share."""

from __future__ import annotations

from typing import Any

from frontend.distributions import constraints
from frontend.distributions.distribution import Distribution
from frontend.distributions.utils import broadcast_all
from frontend.engine.tensors.tensor import Tensor


class LocationScale(Distribution):
    """Of real numbers around `loc`, where most of them are, as far from it as `scale` says."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    parameters = ("loc", "scale")
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc
