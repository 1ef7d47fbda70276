"""Distributions of counts: Poisson's, binomial, geometric, negative binomial, multinomial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.categorical import Categorical
from frontend.distributions.constraints import Constraint
from frontend.distributions.exp_family import ExponentialFamily
from frontend.distributions.one_hot import OverClasses
from frontend.distributions.probabilities import OfProbability
from frontend.distributions.utils import broadcast_all, tiny
from frontend.engine.tensors.state import computing, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import drawn_numbers
from frontend.functions.pointwise import clamp, where
from frontend.functions.pointwise_composites import xlogy
from frontend.functions.random import uniform
from frontend.functions.ranges import arange
from frontend.functions.shape import expand
from frontend.nn.functional.loss_pairs import binary_cross_entropy_with_logits


class Poisson(ExponentialFamily):
    """How many events of a `rate` occur."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    parameters = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return drawn_numbers.poisson(expand(self.rate, self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()


class Binomial(OfProbability):
    """How many of `total_count` tries succeed, each with probability `probs` or
    sigmoid(`logits`)."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
        "logits": constraints.real,
    }  # fmt: skip
    parameters = ("total_count", "_given")
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        (count,) = self._set_given(probs, logits, total_count)
        self.total_count = count.to(self._given.dtype)
        super().__init__(self._given.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return drawn_numbers.binomial(
                expand(self.total_count, shape), expand(self.probs, shape)
            )

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        count, logits = self.total_count, self.logits
        ways = (count + 1).lgamma() - (value + 1).lgamma() - (count - value + 1).lgamma()
        # log(1 + exp(logits)), without an overflow, and with its derivative at 0
        spread = 0.5 * (logits + logits.abs()) + (-logits.abs()).exp().log1p()
        return ways + value * logits - count * spread

    def entropy(self) -> Tensor:
        if not bool((self.total_count == self.total_count.max()).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All counts along a new first dimension, for all of the batch."""
        total = int(self.total_count.max())
        if not bool((self.total_count.min() == total).all()):
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        shape = (1 + total, *(1,) * len(self._batch_shape))
        values = arange(1 + total, dtype=self._given.dtype).reshape(shape)
        return values.expand(1 + total, *self._batch_shape) if expand else values


class Geometric(OfProbability):
    """How many tries fail before the first success, of probability `probs` or
    sigmoid(`logits`)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._set_given(probs, logits)
        super().__init__(self._given.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and computing():
            if not bool((self.probs > 0).all()):
                raise ValueError(
                    f"Expected parameter probs of distribution {self!r} to be positive but found "
                    f"invalid values:\n{self.probs}"
                )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return self.probs * 0

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            probs = expand(self.probs, shape)
            drawn = clamp(uniform(shape, probs.dtype), min=tiny(probs))
            return (drawn.log() / (-probs).log1p()).floor()

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        certain = ((probs == 1) & (value == 0)).detach()
        return value * (-where(certain, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        logits, probs = self.logits, self.probs
        return binary_cross_entropy_with_logits(logits, probs, reduction="none") / probs


class NegativeBinomial(OfProbability):
    """How many tries succeed, each with probability `probs` or sigmoid(`logits`), before
    `total_count` have failed."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer
    parameters = ("total_count", "_given")

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        (count,) = self._set_given(probs, logits, total_count)
        self.total_count = count.to(self._given.dtype)
        super().__init__(self._given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return clamp(((self.total_count - 1) * self.logits.exp()).floor(), min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Poisson numbers of gamma distributed rates.
        shape = self._extended_shape(sample_shape)
        with no_grad():
            gamma = drawn_numbers.standard_gamma(expand(self.total_count, shape))
            return drawn_numbers.poisson(gamma * self.logits.exp())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        count, logits = self.total_count, self.logits
        plain = count * (-logits).sigmoid().log() + value * logits.sigmoid().log()
        ways = (count + value).lgamma() - (1.0 + value).lgamma() - count.lgamma()
        return plain + where(count + value == 0.0, 0.0, ways)


class Multinomial(OverClasses):
    """How often each of K classes comes in `total_count` draws, with probabilities `probs` [*, K]
    or softmax(`logits`)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical
        super().__init__(shape.batch_shape, shape.param_shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        classes = arange(self._event_shape[0])
        return (drawn.unsqueeze(-1) == classes).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits = where((value == 0) & (self.logits == float("-inf")), 0.0, self.logits)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        once = Categorical(probs=self.probs, validate_args=False).entropy()
        chances = Binomial(n, probs=self.probs, validate_args=False)
        counts = chances.enumerate_support(expand=False)[1:]
        ways = (chances.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * once - (self.probs.new_tensor(float(n)) + 1).lgamma() + ways
