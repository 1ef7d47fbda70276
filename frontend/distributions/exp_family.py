"""Exponential families."""

from __future__ import annotations

from typing import Any

from frontend.autograd import grad
from frontend.distributions.distribution import Distribution
from frontend.distributions.utils import _sum_rightmost
from frontend.engine.tensors.tensor import Tensor


class ExponentialFamily(Distribution):
    """Distributions of a density exp(⟨t(x), θ⟩ - F(θ) + k(x)).

    Subclasses define `_natural_params` θ, `_log_normalizer` F(*θ) and `_mean_carrier_measure`, the
    mean of k(x), which entropy follows from.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        # F's gradient is the mean of t(x).
        parameters = natural_parameters(self)
        result = -self._mean_carrier_measure
        norm = self._log_normalizer(*parameters)
        means = grad(norm.sum(), parameters, create_graph=True)
        result = result + norm
        for parameter, mean in zip(parameters, means):
            result = result - _sum_rightmost(parameter * mean, len(self.event_shape))
        return result


def natural_parameters(family: ExponentialFamily) -> list[Tensor]:
    """The natural parameters, as what gradients can be taken by."""
    return [p if p.requires_grad else p.detach().requires_grad_() for p in family._natural_params]
