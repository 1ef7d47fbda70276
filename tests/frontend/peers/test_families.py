"""Families that come of transforms, relaxed ones, matrices, against PyTorch's; and the divergence
of every pair that PyTorch's table has."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import frontend


def f(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.float32)


X, S, B, P = f(-1.0, 0.3, 2.0), f(0.5, 1.0, 3.0), f(2.5, 6.0, 9.0), f(0.1, 0.5, 0.9)
PROBS = f([0.1, 0.2, 0.7], [0.3, 0.3, 0.4])
CUT = f([0.2, 0.3, 0.5], [0.6, 0.3, 0.1])
WARM = np.array(0.7, np.float32)
TRIL = f([[1.0, 0.0], [0.5, 2.0]], [[2.0, 0.0], [-1.0, 0.5]])
COV = TRIL @ TRIL.transpose(0, 2, 1)
FACTOR = f([[1.0], [0.5]], [[0.3], [-2.0]])
CORR = f([[1, 0, 0], [0.6, 0.8, 0], [0.5, -0.5, 0.5**0.5]])

MAKE: dict[str, tuple[Any, tuple[np.ndarray, ...], np.ndarray]] = {
    "log normal": (lambda d, a, b: d.LogNormal(a, b), (X, S), S),
    "half normal": (lambda d, a: d.HalfNormal(a), (S,), B),
    "half cauchy": (lambda d, a: d.HalfCauchy(a), (S,), B),
    "gumbel": (lambda d, a, b: d.Gumbel(a, b), (X, S), X * 2),
    "weibull": (lambda d, a, b: d.Weibull(a, b), (S, B), S),
    "pareto": (lambda d, a, b: d.Pareto(a, b), (S, B), S * 2),
    "generalized pareto": (
        lambda d, a, b, c: d.GeneralizedPareto(a, b, c), (X, S, f(0.3, -0.2, 0.1)), X + S
    ),
    "inverse gamma": (lambda d, a, b: d.InverseGamma(a, b), (B, S), S),
    "kumaraswamy": (lambda d, a, b: d.Kumaraswamy(a, b), (S + 1, B), P),
    "logistic normal": (
        lambda d, a, b: d.LogisticNormal(a, b), (f([0.2, 1.0], [0.0, -1.0]), f(1.0, 0.5)), CUT
    ),
    "relaxed bernoulli": (lambda d, t, p: d.RelaxedBernoulli(t, p), (WARM, P), P[::-1].copy()),
    "relaxed bernoulli logits": (
        lambda d, t, p: d.RelaxedBernoulli(t, logits=p), (WARM, X), P
    ),
    "relaxed one-hot": (lambda d, t, p: d.RelaxedOneHotCategorical(t, p), (WARM, PROBS), CUT),
    "continuous bernoulli": (
        lambda d, p: d.ContinuousBernoulli(p), (f(0.1, 0.3, 0.9),), f(0.3, 0.9, 0.6)
    ),
    "continuous bernoulli logits": (
        lambda d, p: d.ContinuousBernoulli(logits=p), (f(-1.0, 2e-3, 2.0),), P
    ),
    "low rank": (
        lambda d, a, b, c: d.LowRankMultivariateNormal(a, b, c),
        (CUT[:, :2], FACTOR, f([1.0, 0.5], [2.0, 0.3])), PROBS[:, :2],
    ),
    "wishart": (lambda d, a, b: d.Wishart(a, b), (f(3.5, 6.0), COV), COV[::-1] * 2 + COV),
    "wishart by scale": (
        lambda d, a, b: d.Wishart(a, scale_tril=b.tril()), (f(3.5, 6.0), TRIL), COV[::-1] * 2 + COV
    ),
    "correlations": (lambda d, a: d.LKJCholesky(3, a), (f(0.7, 2.0),), CORR),
}  # fmt: skip
NO_MOMENTS = ("logistic", "relaxed", "correlations")
NO_MODE = ("continuous", "kumaraswamy")  # PyTorch's is NaN where there is one
NO_ENTROPY = ("logistic", "relaxed", "correlations")
SHARES = ("log normal", "half", "gumbel", "weibull", "pareto", "continuous", "kumar", "generalized")


def among(name: str, names: tuple[str, ...]) -> bool:
    return any(name.startswith(each) for each in names)


@pytest.mark.parametrize("name", MAKE)
def test_densities_entropies_and_shares(peer: Any, name: str) -> None:
    make, parameters, value = MAKE[name]

    def call(t: Any, *p: Any) -> Any:
        distribution = make(t.distributions, *p)
        x = t.tensor(value.copy())
        results = [distribution.log_prob(x)]
        if not name.startswith("wishart"):  # PyTorch's own does not expand with its df
            wide = distribution.expand((2, *distribution.batch_shape))
            results.append(wide.log_prob(x))
        if not among(name, NO_ENTROPY):
            results.append(distribution.entropy())
        if among(name, SHARES):
            results += [distribution.cdf(x), distribution.icdf(t.tensor(P))]
        return results

    peer.function(call, *parameters, bound=3e-5)


@pytest.mark.parametrize("name", [name for name in MAKE if not among(name, NO_MOMENTS)])
def test_moments_of_families(peer: Any, name: str) -> None:
    make, parameters, _ = MAKE[name]

    def call(t: Any, *p: Any) -> Any:
        distribution = make(t.distributions, *p)
        names = ["mean", "variance", *([] if among(name, NO_MODE) else ["mode"])]
        return [getattr(distribution, each) for each in names]

    peer.function(call, *parameters, gradients=False, bound=3e-5)


@pytest.mark.parametrize("name", MAKE)
def test_shapes_and_support_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, parameters, _ = MAKE[name]

    def call(t: Any) -> Any:
        distribution = make(t.distributions, *map(t.tensor, parameters))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Wishart's samples
            drawn = distribution.sample((4, 2))
        assert bool(distribution.support.check(drawn).all())
        return (
            tuple(drawn.shape), str(drawn.dtype), distribution.has_rsample,
            tuple(distribution.batch_shape), tuple(distribution.event_shape),
            distribution.support.event_dim, distribution.support.is_discrete,
            sorted(distribution.arg_constraints),
        )  # fmt: skip

    assert call(frontend) == call(torch)


@pytest.mark.parametrize("name", [name for name in MAKE if "half cauchy" not in name])
def test_samples_of_families(name: str) -> None:
    """Eagerly and compiled: the same numbers, with the declared mean."""
    make, parameters, _ = MAKE[name]
    count = 4000

    def draw(*p: Any) -> Any:
        return make(frontend.distributions, *p).sample((count,))

    given = [frontend.tensor(p) for p in parameters]
    frontend.manual_seed(1)
    drawn = draw(*given)
    frontend.manual_seed(1)
    compiled = frontend.compile(draw)(*given)
    np.testing.assert_allclose(compiled.numpy(), drawn.numpy(), rtol=1e-3, atol=1e-5)
    if among(name, NO_MOMENTS):
        return
    distribution = make(frontend.distributions, *given)
    mean, variance = distribution.mean.numpy(), distribution.variance.numpy()
    seen = drawn.numpy().astype(np.float64).mean(0)
    known = np.isfinite(variance)
    assert (np.abs(seen - mean) < 5 * np.sqrt(variance / count) + 1e-6)[known].all()


@pytest.mark.parametrize(
    "name", ["log normal", "gumbel", "weibull", "relaxed one-hot", "relaxed bernoulli", "low rank"]
)
def test_samples_of_families_have_gradients(name: str) -> None:
    """By the formula, against small differences of the parameters under one seed."""
    make, parameters, _ = MAKE[name]

    def total(*p: Any) -> Any:
        frontend.manual_seed(2)
        drawn = make(frontend.distributions, *p).rsample((3,))
        weights = frontend.arange(drawn.numel(), dtype=drawn.dtype).reshape(drawn.shape) % 5
        return (drawn * weights).sum()

    wide = [np.asarray(p, np.float64) for p in parameters]
    leaves = [frontend.tensor(p, requires_grad=True) for p in wide]
    gradients = frontend.autograd.grad(total(*leaves), leaves)
    for i, p in enumerate(wide):
        for at in np.ndindex(p.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [np.array(each) for each in wide]
                moved[i][at] += step
                ends.append(float(total(*map(frontend.tensor, moved))))
            known = float(gradients[i][at])
            assert abs((ends[0] - ends[1]) / 2e-6 - known) < 1e-4 * (1 + abs(known)), (i, at)


# One of each family that PyTorch's table of divergences knows, twice.
LOW, HIGH = f(0.1, 0.2, 0.3), f(0.5, 0.7, 0.9)
ONE: dict[str, tuple[Any, tuple[np.ndarray, ...], tuple[np.ndarray, ...]]] = {
    "Bernoulli": (lambda d, a: d.Bernoulli(a), (P,), (f(0.3, 0.4, 0.2),)),
    "Beta": (lambda d, a, b: d.Beta(a, b), (S, B), (B, S)),
    "Binomial": (lambda d, a: d.Binomial(5, a), (P,), (f(0.3, 0.4, 0.2),)),
    "Categorical": (lambda d, a: d.Categorical(a), (PROBS,), (CUT,)),
    "Cauchy": (lambda d, a, b: d.Cauchy(a, b), (X, S), (S, B)),
    "ContinuousBernoulli": (
        lambda d, a: d.ContinuousBernoulli(a), (f(0.1, 0.3, 0.9),), (f(0.3, 0.7, 0.2),)
    ),
    "Dirichlet": (lambda d, a: d.Dirichlet(a), (PROBS * 5,), (CUT * 9,)),
    "Exponential": (lambda d, a: d.Exponential(a), (S,), (B,)),
    "Gamma": (lambda d, a, b: d.Gamma(a, b), (S, B), (B, S)),
    "Geometric": (lambda d, a: d.Geometric(a), (P,), (f(0.3, 0.4, 0.2),)),
    "Gumbel": (lambda d, a, b: d.Gumbel(a, b), (X, S), (S, B)),
    "HalfNormal": (lambda d, a: d.HalfNormal(a), (S,), (B,)),
    "Independent": (lambda d, a, b: d.Independent(d.Normal(a, b), 1), (X, S), (S, B)),
    "Laplace": (lambda d, a, b: d.Laplace(a, b), (X, S), (S, B)),
    "LowRankMultivariateNormal": (
        lambda d, a, b, c: d.LowRankMultivariateNormal(a, b, c),
        (CUT[:, :2], FACTOR, f([1.0, 0.5], [2.0, 0.3])),
        (PROBS[:, :2], FACTOR * 2 + 1, f([0.7, 0.5], [0.2, 1.3])),
    ),
    "MultivariateNormal": (
        lambda d, a, b: d.MultivariateNormal(a, scale_tril=b), (CUT[:, :2], TRIL),
        (PROBS[:, :2], TRIL[::-1].copy()),
    ),
    "Normal": (lambda d, a, b: d.Normal(a, b), (X, S), (S, B)),
    "OneHotCategorical": (lambda d, a: d.OneHotCategorical(a), (PROBS,), (CUT,)),
    "Pareto": (lambda d, a, b: d.Pareto(a, b), (S, B), (S / 2, B + 1)),
    "Poisson": (lambda d, a: d.Poisson(a), (S,), (B,)),
    "TransformedDistribution": (lambda d, a, b: d.LogNormal(a, b), (X, S), (S, B)),
    "Uniform": (lambda d, a, b: d.Uniform(a, b), (LOW, HIGH), (LOW - 1, HIGH + 2)),
    "ExponentialFamily": (
        lambda d, a, b: d.Wishart(a, b), (np.array(3.5, np.float32), COV[0]),
        (np.array(6, np.float32), COV[1]),
    ),
}  # fmt: skip


def pairs() -> list[tuple[str, str]]:
    torch = pytest.importorskip("torch")
    return sorted((p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY)


@pytest.mark.parametrize("names", pairs(), ids="-".join)
def test_divergences_of_all_pairs(peer: Any, names: tuple[str, str]) -> None:
    (make, parameters, _), (other, _, others) = (ONE[name] for name in names)
    if names == ("Uniform", "Pareto"):
        others = (LOW / 2, others[1])
    count = len(parameters)

    def call(t: Any, *p: Any) -> Any:
        d = t.distributions
        return d.kl_divergence(make(d, *p[:count]), other(d, *p[count:]))

    infinite = bool(call(frontend, *map(frontend.tensor, (*parameters, *others))).isinf().any())
    # PyTorch's has no gradients of the first of an exponential family.
    gradients = not infinite and names[0] != "ExponentialFamily"
    peer.function(call, *parameters, *others, gradients=gradients, bound=1e-4)
