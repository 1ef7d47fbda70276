"""The continuous Bernoulli distribution (Loaiza-Ganem and Cunningham, 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.exp_family import ExponentialFamily
from frontend.distributions.probabilities import OfProbability
from frontend.distributions.utils import broadcast_all, clamp_probs
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import where
from frontend.functions.random import uniform
from frontend.nn.functional.loss_pairs import binary_cross_entropy_with_logits


class ContinuousBernoulli(OfProbability, ExponentialFamily):
    """Between 0 and 1, of a density proportional to p^x (1 - p)^(1 - x), of p = `probs` or
    sigmoid(`logits`). Between `lims`, where p is close to 1 / 2 and the formulas divide by almost
    0, their series is taken."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ):  # fmt: skip
        self._set_given(probs, logits)
        if probs is not None:
            if validate_args is not None and validate_args:
                if not bool(self.arg_constraints["probs"].check(self._given).all()):
                    raise ValueError("The parameter probs has invalid values")
            self._given = self.__dict__["probs"] = clamp_probs(self._given)
        self._lims = lims
        super().__init__(self._given.shape, validate_args=validate_args)

    def _parts(self) -> tuple[Tensor, Tensor]:
        """Where p is far from 1 / 2; p there, and the lower limit elsewhere."""
        low, high = self._lims
        far = (self.probs <= low) | (self.probs > high)
        return far, where(far, self.probs, low)

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of what the density is proportional with."""
        far, p = self._parts()
        below = where(p <= 0.5, p, 0.0)
        above = where(p >= 0.5, p, 1.0)
        ratio = where(p <= 0.5, (-2 * below).log1p(), (2 * above - 1).log())
        exact = ((-p).log1p() - p.log()).abs().log() - ratio
        square = (self.probs - 0.5) ** 2
        return where(far, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square)

    @property
    def mean(self) -> Tensor:
        far, p = self._parts()
        exact = p / (2 * p - 1) + 1 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        return where(far, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x)

    @property
    def variance(self) -> Tensor:
        far, p = self._parts()
        exact = p * (p - 1) / (1 - 2 * p) ** 2 + 1 / ((-p).log1p() - p.log()) ** 2
        square = (self.probs - 0.5) ** 2
        return where(far, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = uniform(self._extended_shape(sample_shape), self._given.dtype)
        return self.icdf(drawn)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        lost = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -lost + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        far, p = self._parts()
        exact = (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)
        inside = where(far, exact, value)
        return where(value <= 0, 0.0, where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        far, p = self._parts()
        exact = (value * (2 * p - 1) - p).log1p() - (-p).log1p()
        return where(far, exact / (p.log() - (-p).log1p()), value)

    def entropy(self) -> Tensor:
        no, yes = (-self.probs).log1p(), self.probs.log()
        return self.mean * (no - yes) - self._cont_bern_log_norm() - no

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        low, high = self._lims
        far = (x <= low - 0.5) | (x > high - 0.5)
        cut = where(far, x, low - 0.5)
        exact = (cut.expm1() / cut).abs().log()
        return where(far, exact, 0.5 * x + x**2 / 24.0 - x**4 / 2880.0)
