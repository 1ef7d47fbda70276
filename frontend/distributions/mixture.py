"""Mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.categorical import Categorical
from frontend.distributions.constraints import Constraint
from frontend.distributions.distribution import Distribution
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.reduce import log_softmax, logsumexp
from frontend.functions.shape import expand


class MixtureSameFamily(Distribution):
    """One of K distributions of one family, `component_distribution` of batch shape [*, K], each
    chosen as `mixture_distribution`, a Categorical of K classes, says."""

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution,
        validate_args: bool | None = None,
    ):  # fmt: skip
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "The Mixture distribution needs to be an instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of "
                "torch.distributions.Distribution"
            )
        *batch, components = component_distribution.batch_shape
        count = mixture_distribution.param_shape[-1]
        for one, other in zip(reversed(mixture_distribution.batch_shape), reversed(batch)):
            if 1 not in (one, other) and one != other:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is "
                    f"not compatible with `component_distribution.batch_shape`({batch})"
                )
        if count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = super().expand(batch_shape, _instance)
        parts = self._component_distribution, self._mixture_distribution
        count = parts[0].batch_shape[-1]
        expanded._component_distribution = parts[0].expand((*batch_shape, count))
        expanded._mixture_distribution = parts[1].expand(batch_shape)
        return expanded

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    def _shares(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * len(self._event_shape))

    @property
    def _axis(self) -> int:
        """Where in samples of the components the K of them lie."""
        return -1 - len(self._event_shape)

    @property
    def mean(self) -> Tensor:
        return (self._shares() * self._component_distribution.mean).sum(self._axis)

    @property
    def variance(self) -> Tensor:
        shares, parts = self._shares(), self._component_distribution
        away = parts.mean - self.mean.unsqueeze(self._axis)
        return (shares * (parts.variance + away**2)).sum(self._axis)

    def cdf(self, x: Tensor) -> Tensor:
        parts = self._component_distribution.cdf(self._padded(x))
        return (parts * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        self._validate_sample(x)
        parts = self._component_distribution.log_prob(self._padded(x))
        return logsumexp(parts + log_softmax(self._mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            count = len(self._event_shape)
            shape = (*chosen.shape, *(1,) * (1 + count))
            places = expand(chosen.reshape(shape), (*chosen.shape, 1, *self._event_shape))
            return drawn.gather(self._axis, places).squeeze(self._axis)

    def _padded(self, x: Tensor) -> Tensor:
        return x.unsqueeze(self._axis)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
