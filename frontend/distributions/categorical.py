"""The categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.distributions import constraints
from frontend.distributions.constraints import Constraint
from frontend.distributions.distribution import Distribution
from frontend.distributions.utils import logits_to_probs, one_of, probs_to_logits
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full
from frontend.functions.pointwise import clamp
from frontend.functions.ranges import arange
from frontend.functions.reduce import logsumexp
from frontend.functions.sampling import multinomial
from frontend.functions.shape import broadcast_tensors


class Categorical(Distribution):
    """One of the classes 0 … K-1, with probabilities `probs` [*, K] (normalised here) or
    softmax(`logits` [*, K])."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        one_of(probs, logits)
        parameter = logits if probs is None else probs
        if parameter.dim() < 1:
            name = "logits" if probs is None else "probs"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = logits - logsumexp(logits, -1, keepdim=True)
        else:
            self.probs = probs / probs.sum(-1, keepdim=True)
        self._num_events = parameter.shape[-1]
        super().__init__(parameter.shape[:-1], validate_args=validate_args)

    def __getattr__(self, name: str) -> Any:
        # The parameter that was not given follows from the other.
        if name == "probs" and "logits" in self.__dict__:
            return logits_to_probs(self.logits)
        if name == "logits" and "probs" in self.__dict__:
            return probs_to_logits(self.probs)
        raise AttributeError(name)

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(name for name in ("probs", "logits") if name in self.__dict__)

    def _own_dims(self, name: str) -> tuple[int, ...]:
        return (self._num_events,)

    @property
    def param_shape(self) -> Any:
        return self.__dict__[self.parameters[0]].shape

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        count = math.prod(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = multinomial(rows, count, True).transpose(0, 1)
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        index = value.long().unsqueeze(-1)
        index, logits = broadcast_tensors(index, self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        least = float(np.finfo(self.logits.dtype.computes_as.numpy).min)
        return -(clamp(self.logits, min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All classes along a new first dimension, for all of the batch."""
        shape = (self._num_events, *(1,) * len(self._batch_shape))
        values = arange(self._num_events).reshape(shape)
        return values.expand(self._num_events, *self._batch_shape) if expand else values
