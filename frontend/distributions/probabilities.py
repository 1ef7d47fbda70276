"""What distributions share that are given by probabilities, or by their log-odds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributions.distribution import Distribution
from frontend.distributions.utils import (
    broadcast_all,
    logits_to_probs,
    one_of,
    probs_to_logits,
)
from frontend.engine.tensors.tensor import Tensor


class OfProbability(Distribution):
    """What is given by `probs`, or by `logits`, their log-odds."""

    parameters: tuple[str, ...] = ("_given",)

    def _set_given(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        """Take the one that is given; the `others`, in one shape with it."""
        one_of(probs, logits)
        self._is_probs = probs is not None
        self._given, *rest = broadcast_all(probs if self._is_probs else logits, *others)
        self.__dict__["probs" if self._is_probs else "logits"] = self._given
        return tuple(rest)

    def __getattr__(self, name: str) -> Any:
        # The parameter that was not given follows from the other.
        if name == "probs" and "_given" in self.__dict__:
            return logits_to_probs(self._given, is_binary=True)
        if name == "logits" and "_given" in self.__dict__:
            return probs_to_logits(self._given, is_binary=True)
        raise AttributeError(name)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = super().expand(batch_shape, _instance)
        expanded.__dict__["probs" if self._is_probs else "logits"] = expanded._given
        return expanded

    @property
    def param_shape(self) -> Any:
        return self._given.shape
