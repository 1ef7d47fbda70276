"""The distribution of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.distribution import Distribution
from frontend.distributions.utils import broadcast_all
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import drawn_numbers
from frontend.functions.pointwise import remainder
from frontend.functions.shape import expand
from frontend.special import i0e, i1e


class VonMises(Distribution):
    """Angles around `loc` with `concentration` (0: all are alike)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    parameters = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """That of the circle: 1 less the length of the mean direction."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            drawn = drawn_numbers.von_mises(expand(self.concentration, shape))
            return remainder(drawn + math.pi + self.loc, 2 * math.pi) - math.pi

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        # cos - 1 with i0e, which is i0 by its exponential, so that neither overflows.
        away = self.concentration * ((value - self.loc).cos() - 1)
        return away - math.log(2 * math.pi) - i0e(self.concentration).log()
