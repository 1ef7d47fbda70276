"""The Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.exp_family import ExponentialFamily
from frontend.distributions.probabilities import OfProbability
from frontend.distributions.utils import (
    broadcast_all,
)
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import tensor
from frontend.functions.pointwise import where
from frontend.functions.sampling import bernoulli
from frontend.functions.shape import expand
from frontend.nn.functional.loss_pairs import binary_cross_entropy_with_logits


class Bernoulli(OfProbability, ExponentialFamily):
    """1 with probability `probs`, or sigmoid(`logits`), else 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._set_given(probs, logits)
        super().__init__(self._given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likely = (self.probs >= 0.5).to(self.probs.dtype)
        return where(self.probs == 0.5, math.nan, likely)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return bernoulli(expand(self.probs, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1 along a new first dimension, for all of the batch."""
        shape = (2, *(1,) * len(self._batch_shape))
        values = tensor([0.0, 1.0], dtype=self._given.dtype).reshape(shape)
        return values.expand(2, *self._batch_shape) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp().log1p()
