"""Classes as vectors of which one element is 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.categorical import Categorical
from frontend.distributions.distribution import Distribution
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.ranges import arange, eye


class OverClasses(Distribution):
    """What is drawn by way of a `Categorical`, whose parameters are its own."""

    _categorical: Categorical

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        return self._categorical.param_shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = super().expand(batch_shape, _instance)
        expanded._categorical = self._categorical.expand(batch_shape)
        return expanded


class OneHotCategorical(OverClasses):
    """`Categorical` with one-hot samples [*, K]."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical
        super().__init__(shape.batch_shape, shape.param_shape[-1:], validate_args=validate_args)

    def _one_hot(self, classes: Tensor) -> Tensor:
        return (classes.unsqueeze(-1) == arange(self._event_shape[0])).to(self.probs.dtype)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All classes along a new first dimension, for all of the batch."""
        n = self._event_shape[0]
        values = eye(n, dtype=self.probs.dtype).reshape(n, *(1,) * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Its samples have the gradients of the probabilities (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())
