"""Distributions against PyTorch's: densities, entropies, moments, divergences, gradients, texts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import frontend


def f(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.float32)


X, S, P = f(-1.0, 0.3, 2.0), f(0.5, 1.0, 3.0), f(0.1, 0.5, 0.9)
PROBS = f([0.1, 0.2, 0.7], [0.3, 0.3, 0.4])
BITS = f(0, 1, 1)

# How it is made, of what parameters, and values it is asked about.
MAKE: dict[str, tuple[Any, tuple[np.ndarray, ...], np.ndarray]] = {
    "normal": (lambda d, a, b: d.Normal(a, b), (X, S), X * 2),
    "normal that broadcasts": (lambda d, a, b: d.Normal(a, b), (f(0.5), f([1.0], [2.0])), X),
    "normal of numbers": (lambda d, a: d.Normal(a, 2.0), (f(0.5),), X),
    "uniform": (lambda d, a, b: d.Uniform(a, a + b), (X, S), X + S / 2),
    "exponential": (lambda d, a: d.Exponential(a), (S,), S),
    "bernoulli": (lambda d, a: d.Bernoulli(a), (P,), BITS),
    "bernoulli logits": (lambda d, a: d.Bernoulli(logits=a), (X,), BITS),
    "categorical": (lambda d, a: d.Categorical(a), (PROBS,), np.array([2, 0])),
    "categorical weights": (lambda d, a: d.Categorical(a), (PROBS * 3,), np.array([[2], [0]])),
    "categorical logits": (lambda d, a: d.Categorical(logits=a), (PROBS,), np.array(1)),
    "independent": (
        lambda d, a, b: d.Independent(d.Normal(a, b), 1), (f([0.5, 1.0], [2.0, 3.0]), f(1.0, 2.0)),
        f([0.1, 0.2], [0.3, 0.4]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKE)
def test_log_prob_and_entropy(peer: Any, name: str) -> None:
    make, parameters, value = MAKE[name]

    def call(t: Any, *p: Any) -> Any:
        distribution = make(t.distributions, *p)
        return (
            distribution.log_prob(t.tensor(value)),
            distribution.entropy(),
            distribution.perplexity(),
        )

    peer.function(call, *parameters)


@pytest.mark.parametrize("name", [name for name in MAKE if name != "independent"])
def test_moments_and_parameters(peer: Any, name: str) -> None:
    make, parameters, _ = MAKE[name]
    names = ["mean", "variance", "stddev", "mode"]
    names += ["probs", "logits"] if "bern" in name or "cat" in name else []

    def call(t: Any, *p: Any) -> Any:
        distribution = make(t.distributions, *p)
        return [getattr(distribution, n) for n in names]

    # The variance of categories is NaN, and so would gradients be.
    peer.function(call, *parameters, gradients="cat" not in name and "bern" not in name)


@pytest.mark.parametrize("name", [name for name in MAKE if name != "categorical weights"])
def test_expanded(peer: Any, name: str) -> None:
    make, parameters, value = MAKE[name]

    def call(t: Any, *p: Any) -> Any:
        distribution = make(t.distributions, *p)
        wide = distribution.expand((4, *distribution.batch_shape))
        again = wide.expand((2, *wide.batch_shape))
        return wide.log_prob(t.tensor(value)), wide.entropy(), again.mean

    peer.function(call, *parameters, gradients="cat" not in name)


PAIRS = [
    ("normal", "normal"), ("uniform", "uniform"), ("exponential", "exponential"),
    ("bernoulli", "bernoulli logits"), ("categorical", "categorical logits"),
    ("uniform", "normal"), ("exponential", "normal"), ("uniform", "exponential"),
    ("independent", "independent"),
]  # fmt: skip


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_divergence(peer: Any, names: tuple[str, str]) -> None:
    (make, parameters, _), (other, others, _) = (MAKE[name] for name in names)
    if names[1] == "uniform":
        others = (others[0] - 1, others[1] + 3)
    elif names[0] == names[1]:
        others = tuple(p * 1.5 for p in others)
    if names == ("uniform", "exponential"):
        parameters = (parameters[0] + 2, parameters[1])
    count = len(parameters)
    peer.function(
        lambda t, *p: t.distributions.kl_divergence(
            make(t.distributions, *p[:count]), other(t.distributions, *p[count:])
        ),
        *parameters,
        *others,
    )


def test_divergences_that_are_not_finite(peer: Any) -> None:
    def call(t: Any, low: Any, zero: Any) -> Any:
        d = t.distributions
        return [
            d.kl_divergence(d.Uniform(low, 1.0), d.Uniform(0.5, 2.0)),
            d.kl_divergence(d.Uniform(low - 1, 1.0), d.Exponential(2.0)),
            d.kl_divergence(d.Normal(low, 1.0), d.Uniform(0.0, 1.0)),
            d.kl_divergence(d.Normal(low, 1.0), d.Exponential(1.0)),
            d.kl_divergence(d.Exponential(low + 1), d.Uniform(0.0, 1.0)),
            d.kl_divergence(d.Bernoulli(zero), d.Bernoulli(t.tensor([0.5, 0.5, 1.0, 0.0]))),
            d.kl_divergence(d.Categorical(zero), d.Categorical(t.tensor([0.3, 0.0, 0.7, 0.0]))),
            d.kl_divergence(d.Categorical(t.tensor([0.3, 0.0, 0.7, 0.0])), d.Categorical(zero)),
        ]

    peer.function(call, f(0.0), f(0.0, 1.0, 0.0, 1.0), gradients=False)


@pytest.mark.parametrize("name", ["normal", "uniform", "exponential"])
def test_cdf_and_its_inverse(peer: Any, name: str) -> None:
    make, parameters, value = MAKE[name]

    def call(t: Any, *p: Any) -> Any:
        distribution = make(t.distributions, *p)
        return distribution.cdf(t.tensor(value)), distribution.icdf(t.tensor(P))

    peer.function(call, *parameters)


def test_at_the_ends_of_what_is_possible(peer: Any) -> None:
    def call(t: Any, ends: Any, logits: Any) -> Any:
        d = t.distributions
        coin, one = d.Bernoulli(ends), d.Categorical(ends)
        return [
            coin.log_prob(t.tensor([1.0, 0.0])), coin.variance, coin.probs, coin.logits,
            one.log_prob(t.tensor([0, 1])), one.entropy(), one.logits,
            d.Categorical(logits=logits).entropy(), d.Categorical(logits=logits).probs,
            d.Uniform(0.0, 1.0, validate_args=False).log_prob(t.tensor([-1.0, 0.0, 1.0, 2.0])),
            d.Uniform(0.0, 2.0, validate_args=False).cdf(t.tensor([-1.0, 0.5, 3.0])),
            d.Exponential(ends + 1).log_prob(t.tensor([0.0, 1e10])),
        ]  # fmt: skip

    peer.function(call, f(0.0, 1.0), f(-60.0, 60.0), gradients=False)


@pytest.mark.parametrize("name", MAKE)
def test_texts_shapes_and_support(peer: Any, name: str) -> None:
    make, parameters, _ = MAKE[name]

    def run(t: Any, log: list[Any]) -> Any:
        distribution = make(t.distributions, *map(t.tensor, parameters))
        log.append(
            [repr(distribution), tuple(distribution.batch_shape), tuple(distribution.event_shape)]
        )
        log.append(
            [
                repr(distribution.support),
                distribution.support.is_discrete,
                distribution.support.event_dim,
            ]
        )
        log.append(
            [
                repr(distribution.arg_constraints),
                distribution.has_rsample,
                distribution.has_enumerate_support,
            ]
        )
        for shape in ((), (3,), (2, 0) if "cat" not in name else (2, 1)):
            drawn = distribution.sample(shape)
            log.append([tuple(drawn.shape), str(drawn.dtype), drawn.requires_grad])
        if distribution.has_rsample:
            log.append(tuple(distribution.rsample((2,)).shape))
        if distribution.has_enumerate_support:
            log.append(
                [distribution.enumerate_support(), distribution.enumerate_support(expand=False)]
            )
        return distribution.expand((2, *distribution.batch_shape)).batch_shape == (
            2,
            *distribution.batch_shape,
        )

    peer.script(run)


def T(t: Any, *numbers: Any) -> Any:
    return t.tensor(numbers)


BAD: dict[str, Any] = {
    "scale": lambda t, d: d.Normal(T(t, 0.0, 1.0), T(t, -1.0, 1.0)),
    "scale 0": lambda t, d: d.Normal(0.0, 0.0),
    "loc": lambda t, d: d.Normal(T(t, 0.0, math.nan), 1.0),
    "shapes": lambda t, d: d.Normal(t.ones(2), t.ones(3)),
    "text": lambda t, d: d.Normal("a", 1.0),
    "ends": lambda t, d: d.Uniform(1.0, 0.0),
    "equal ends": lambda t, d: d.Uniform(T(t, 0.0, 1.0), 1.0),
    "rate": lambda t, d: d.Exponential(-2.0),
    "probability": lambda t, d: d.Bernoulli(1.5),
    "both": lambda t, d: d.Bernoulli(0.3, 0.4),
    "none": lambda t, d: d.Bernoulli(),
    "0-d weights": lambda t, d: d.Categorical(t.tensor(0.5)),
    "0-d logits": lambda t, d: d.Categorical(logits=t.tensor(0.5)),
    "no weights": lambda t, d: d.Categorical(),
    "negative weights": lambda t, d: d.Categorical(T(t, -1.0, 2.0)),
    "no weight at all": lambda t, d: d.Categorical(T(t, 0.0, 0.0)),
    "infinite logits": lambda t, d: d.Categorical(logits=T(t, -math.inf, 0.0)).log_prob(T(t, 2)),
    "nan logits": lambda t, d: d.Categorical(logits=T(t, math.nan, 0.0)),
    "a number as value": lambda t, d: d.Normal(0.0, 1.0).log_prob(0.5),
    "value's shape": lambda t, d: d.Normal(t.zeros(2), 1.0).log_prob(t.ones(3)),
    "value nan": lambda t, d: d.Normal(t.zeros(2), 1.0).log_prob(T(t, 1.0, math.nan)),
    "value outside": lambda t, d: d.Uniform(0.0, 1.0).log_prob(T(t, 0.5, 1.1)),
    "negative value": lambda t, d: d.Exponential(1.0).log_prob(t.tensor(-1.0)),
    "half a bit": lambda t, d: d.Bernoulli(t.tensor(0.3)).log_prob(t.tensor(0.3)),
    "class 2 of 2": lambda t, d: d.Categorical(T(t, 0.2, 0.8)).log_prob(t.tensor(2)),
    "half a class": lambda t, d: d.Categorical(T(t, 0.2, 0.8)).log_prob(t.tensor(0.5)),
    "cdf outside": lambda t, d: d.Uniform(0.0, 2.0).cdf(T(t, -1.0)),
    "sample shape": lambda t, d: d.Normal(0.0, 1.0).sample(3),
    "expand": lambda t, d: d.Normal(t.zeros(2), 1.0).expand((3,)),
    "dimensions": lambda t, d: d.Independent(d.Normal(0.0, 1.0), 1),
    "divergence": lambda t, d: d.kl_divergence(d.Bernoulli(0.5), d.Categorical(t.ones(2))),
    "rsample": lambda t, d: d.Bernoulli(0.5).rsample(),
    "enumerate": lambda t, d: d.Normal(0.0, 1.0).enumerate_support(),
    "default": lambda t, d: d.Distribution.set_default_validate_args(3),
}


@pytest.mark.parametrize("name", BAD)
def test_refusals_in_the_same_words(peer: Any, name: str) -> None:
    errors = []
    for system in (peer.torch, frontend):
        with pytest.raises(Exception) as caught:
            BAD[name](system, system.distributions)
        errors.append(caught.value)
    expected, actual = errors
    assert isinstance(actual, type(expected))
    assert str(actual).startswith(str(expected)[:200])


def test_a_distribution_of_the_users_own(peer: Any) -> None:
    def run(t: Any, log: list[Any]) -> Any:
        d = t.distributions

        class Half(d.Normal):
            def log_prob(self, value: Any) -> Any:
                return super().log_prob(value) + math.log(2)

        class Fixed(d.Distribution):
            arg_constraints = {"at": d.constraints.real}
            support = d.constraints.real

            def __init__(self, at: Any):
                self.at = at
                super().__init__(at.shape)

            def sample(self, sample_shape: Any = ()) -> Any:
                return self.at.expand(self._extended_shape(sample_shape))

        class Loose(d.Distribution):
            pass

        @d.register_kl(Fixed, Fixed)
        def between(p: Any, q: Any) -> Any:
            return (p.at - q.at).abs()

        half, fixed = Half(t.zeros(2), 1.0), Fixed(t.ones(2))
        log.append([half.log_prob(t.ones(2)), repr(half), half.expand((3, 2)).log_prob(t.ones(2))])
        log.append([fixed.sample((3,)), repr(fixed), fixed.batch_shape == (2,)])
        log.append(d.kl_divergence(fixed, Fixed(t.zeros(2))))
        log.append(d.kl_divergence(half, d.Normal(1.0, 1.0)))
        Loose()  # a warning: it says nothing about its parameters
        return isinstance(half, d.Normal)

    peer.script(run)


def test_modules_and_helpers(peer: Any) -> None:
    def run(t: Any, log: list[Any]) -> Any:
        from importlib import import_module

        for name in ("normal", "uniform", "bernoulli", "categorical", "exponential", "kl"):
            import_module(f"{t.__name__}.distributions.{name}")
        utils = import_module(f"{t.__name__}.distributions.utils")
        p = t.tensor([0.0, 0.3, 1.0])
        log.append([utils.probs_to_logits(p), utils.probs_to_logits(p, is_binary=True)])
        log.append([utils.logits_to_probs(p), utils.logits_to_probs(p, is_binary=True)])
        log.append(utils.broadcast_all(t.ones(2), 1.0, t.ones(3, 1)))
        c = t.distributions.constraints
        for text in (
            "real", "positive", "unit_interval", "simplex", "boolean", "integer_interval(0, 3)",
            "nonnegative", "real_vector", "interval(0, 1)", "nonnegative_integer",
            "positive_integer", "greater_than(3)", "less_than(3)", "half_open_interval(0, 1)",
            "independent(boolean, 1)", "one_hot",
        ):  # fmt: skip
            constraint = eval(text, dict(vars(c)))
            log.append(
                [
                    repr(constraint),
                    constraint.is_discrete,
                    constraint.event_dim,
                    c.is_dependent(constraint),
                ]
            )
            log.append(
                constraint.check(t.tensor([[0.0, 1.0], [0.5, 0.5], [-1.0, 3.0], [2.0, 0.25]]))
            )
        log.append([repr(c.dependent), c.is_dependent(c.dependent)])

    peer.script(run)
