"""Numbers between 0 and 1 in place of a Bernoulli distribution's (Maddison et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.probabilities import OfProbability
from frontend.distributions.relaxed import RelaxedDistribution
from frontend.distributions.transforms import SigmoidTransform
from frontend.distributions.utils import (
    broadcast_all,
    clamp_probs,
)
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.random import uniform
from frontend.functions.shape import expand


class LogitRelaxedBernoulli(OfProbability):
    """The log-odds of `RelaxedBernoulli`'s samples."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        self.temperature = temperature
        self._set_given(probs, logits)
        super().__init__(self._given.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(expand(self.probs, shape))
        with no_grad():
            drawn = clamp_probs(uniform(shape, probs.dtype))
            odds = drawn.log() - (-drawn).log1p()
        return (odds + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value * self.temperature
        return self.temperature.log() + away - 2 * away.exp().log1p()


class RelaxedBernoulli(RelaxedDistribution):
    """Between 0 and 1, the closer to `Bernoulli`'s the lower the `temperature`, a tensor; with the
    gradients that those have not."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    unbounded = LogitRelaxedBernoulli
    transform = SigmoidTransform
