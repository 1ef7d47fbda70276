"""The Bernoulli distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.creation import tensor
from frontend.distributions import constraints
from frontend.distributions.constraints import Constraint
from frontend.distributions.distribution import Distribution, broadcast_all
from frontend.functions.pointwise import clamp, sigmoid
from frontend.functions.shape import expand
from frontend.nn.functional.loss_pairs import binary_cross_entropy_with_logits
from frontend.sampling import bernoulli
from frontend.state import no_grad
from frontend.tensor import Tensor


def one_of(probs: Any, logits: Any) -> None:
    """Raise ValueError unless exactly one is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


def clamped(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's eps."""
    eps = float(np.finfo(probs.dtype.computes_as.numpy).eps)
    return clamp(probs, min=eps, max=1 - eps)


class Bernoulli(Distribution):
    """1 with probability `probs`, or sigmoid(`logits`), else 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    parameters = ("_given",)
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        one_of(probs, logits)
        self._is_probs = probs is not None
        (self._given,) = broadcast_all(probs if self._is_probs else logits)
        self.__dict__["probs" if self._is_probs else "logits"] = self._given
        super().__init__(self._given.shape, validate_args=validate_args)

    def __getattr__(self, name: str) -> Any:
        # The parameter that was not given follows from the other.
        if name == "probs":
            return sigmoid(self._given)
        if name == "logits":
            kept = clamped(self._given)
            return kept.log() - (-kept).log1p()
        raise AttributeError(name)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Bernoulli:
        made = super().expand(batch_shape)
        made.__dict__["probs" if self._is_probs else "logits"] = made._given
        return made

    @property
    def support(self) -> Constraint:
        return constraints.boolean

    @property
    def mean(self) -> Tensor:
        return self.probs

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
