"""Points of the simplex in place of one-hot vectors (Maddison et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.categorical import Categorical
from frontend.distributions.one_hot import OverClasses
from frontend.distributions.relaxed import RelaxedDistribution
from frontend.distributions.transforms import ExpTransform
from frontend.distributions.utils import clamp_probs
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.random import uniform
from frontend.functions.reduce import log_softmax, logsumexp
from frontend.functions.shape import expand


class ExpRelaxedCategorical(OverClasses):
    """The logarithms of `RelaxedOneHotCategorical`'s samples."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # those whose exponentials have the sum 1
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        self._categorical = Categorical(probs, logits, validate_args)
        self.temperature = temperature
        shape = self._categorical
        super().__init__(shape.batch_shape, shape.param_shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            gumbel = -(-clamp_probs(uniform(shape, self.logits.dtype)).log()).log()
        return log_softmax((expand(self.logits, shape) + gumbel) / self.temperature, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k, t = self._event_shape[0], self.temperature
        scale = math.lgamma(k) + (k - 1) * t.log()
        score = self.logits - value * t
        return (score - logsumexp(score, -1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(RelaxedDistribution):
    """Points of the simplex, the closer to `OneHotCategorical`'s the lower the `temperature`, a
    tensor; with the gradients that those have not."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    unbounded = ExpRelaxedCategorical
    transform = ExpTransform
