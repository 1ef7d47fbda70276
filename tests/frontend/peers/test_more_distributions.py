"""Distributions beyond the first few against PyTorch's: densities, entropies, moments, gradients;
what is drawn against the moments; and gradients of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend


def f(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.float32)


X, S, P = f(-1.0, 0.3, 2.0), f(0.5, 1.0, 3.0), f(0.1, 0.5, 0.9)
B = f(2.5, 6.0, 9.0)
K = f([0.5, 1.5, 3.0], [2.0, 2.0, 2.0])
PROBS = f([0.1, 0.2, 0.7], [0.3, 0.3, 0.4])
COUNTS = f(0, 1, 3)
CUT = f([0.2, 0.3, 0.5], [0.6, 0.3, 0.1])
TRIL = f([[1.0, 0.0], [0.5, 2.0]], [[2.0, 0.0], [-1.0, 0.5]])
COV = TRIL @ TRIL.transpose(0, 2, 1)

# How it is made, of what parameters, and values it is asked about.
MAKE: dict[str, tuple[Any, tuple[np.ndarray, ...], np.ndarray]] = {
    "gamma": (lambda d, a, b: d.Gamma(a, b), (S, B), S),
    "chi2": (lambda d, a: d.Chi2(a), (B,), S),
    "beta": (lambda d, a, b: d.Beta(a, b), (S, B), P),
    "dirichlet": (lambda d, a: d.Dirichlet(a), (K,), CUT),
    "cauchy": (lambda d, a, b: d.Cauchy(a, b), (X, S), X * 2),
    "laplace": (lambda d, a, b: d.Laplace(a, b), (X, S), X * 2),
    "student": (lambda d, a, b, c: d.StudentT(a, b, c), (B, X, S), X * 2),
    "fisher": (lambda d, a, b: d.FisherSnedecor(a, b), (B, B[::-1] + 3), S),
    "poisson": (lambda d, a: d.Poisson(a), (S,), COUNTS),
    "binomial": (lambda d, a: d.Binomial(5, a), (P,), COUNTS),
    "binomial logits": (lambda d, a: d.Binomial(5, logits=a), (X,), COUNTS),
    "geometric": (lambda d, a: d.Geometric(a), (P,), COUNTS),
    "geometric logits": (lambda d, a: d.Geometric(logits=a), (X,), COUNTS),
    "negative binomial": (lambda d, a, b: d.NegativeBinomial(a, b), (B, P), COUNTS),
    "negative binomial logits": (lambda d, a, b: d.NegativeBinomial(a, logits=b), (B, X), COUNTS),
    "multinomial": (lambda d, a: d.Multinomial(4, a), (PROBS,), f([1, 2, 1], [0, 0, 4])),
    "one-hot": (lambda d, a: d.OneHotCategorical(a), (PROBS,), f([0, 1, 0], [0, 0, 1])),
    "von mises": (lambda d, a, b: d.VonMises(a, b), (X, B), X * 0.7),
    "vectors": (lambda d, a, b: d.MultivariateNormal(a, b), (CUT[:, :2], COV), K[:, :2]),
    "vectors by scale": (
        lambda d, a, b: d.MultivariateNormal(a, scale_tril=b), (CUT[:, :2], TRIL), K[:, :2]
    ),
    "vectors by precision": (
        lambda d, a, b: d.MultivariateNormal(a, precision_matrix=b), (CUT[0, :2], COV), K[:, :2]
    ),
    "mixture": (
        lambda d, a, b, c: d.MixtureSameFamily(d.Categorical(a), d.Normal(b, c)),
        (PROBS, f(X, X + 1), f(S, S * 2)), f(0.5, -2.0),
    ),
}  # fmt: skip
NO_ENTROPY = ("poisson", "negative binomial", "mixture", "fisher", "von mises")
NO_MODE = ("mixture", "multinomial")
DRAWN = {name: case for name, case in MAKE.items() if "cauchy" not in name}


def has(name: str, absent: tuple[str, ...]) -> bool:
    return not any(name.startswith(each) for each in absent)


@pytest.mark.parametrize("name", MAKE)
def test_densities_and_moments(peer: Any, name: str) -> None:
    make, parameters, value = MAKE[name]

    def call(t: Any, *p: Any) -> Any:
        distribution = make(t.distributions, *p)
        wide = distribution.expand((2, *distribution.batch_shape))
        results = [distribution.log_prob(t.tensor(value)), wide.log_prob(t.tensor(value))]
        if has(name, NO_ENTROPY):
            results.append(distribution.entropy())
        if name in ("cauchy", "laplace", "mixture"):
            results.append(distribution.cdf(t.tensor(value)))
        if name in ("cauchy", "laplace"):
            results.append(distribution.icdf(t.tensor(P)))
        return results

    peer.function(call, *parameters)


@pytest.mark.parametrize("name", MAKE)
def test_moments(peer: Any, name: str) -> None:
    make, parameters, _ = MAKE[name]

    def call(t: Any, *p: Any) -> Any:
        distribution = make(t.distributions, *p)
        names = ["mean", "variance", *(["mode"] if has(name, NO_MODE) else [])]
        return [getattr(distribution, each) for each in names]

    peer.function(call, *parameters, gradients=False)


@pytest.mark.parametrize("name", MAKE)
def test_shapes_and_texts_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, parameters, _ = MAKE[name]

    def call(t: Any) -> Any:
        distribution = make(t.distributions, *map(t.tensor, parameters))
        # PyTorch's Beta has none of its parameters there, its mixture logits that follow.
        text = repr(distribution) if name not in ("beta", "mixture") else ""
        drawn = distribution.sample((4, 2))
        return (
            tuple(drawn.shape),
            str(drawn.dtype),
            text,
            distribution.has_rsample,
            tuple(distribution.batch_shape),
            tuple(distribution.event_shape),
        )

    assert call(frontend) == call(torch)


def test_distribution_functions_of_gamma_numbers() -> None:
    torch = pytest.importorskip("torch")
    x, a, b = torch.tensor(S), torch.tensor(B), torch.tensor(X).exp()
    for make in (lambda d, a, b: d.Gamma(a, b), lambda d, a, b: d.Chi2(a)):
        want = make(torch.distributions, a, b).cdf(x).numpy()
        ours = make(frontend.distributions, *(frontend.tensor(p.numpy()) for p in (a, b)))
        np.testing.assert_allclose(ours.cdf(frontend.tensor(S)).numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("name", DRAWN)
def test_samples_have_the_moments(name: str) -> None:
    """Eagerly and compiled: the same numbers, with the declared mean and variance."""
    make, parameters, _ = DRAWN[name]
    count = 10000

    def draw(*p: Any) -> Any:
        return make(frontend.distributions, *p).sample((count,))

    given = [frontend.tensor(p) for p in parameters]
    frontend.manual_seed(1)
    drawn = draw(*given)
    frontend.manual_seed(1)
    np.testing.assert_allclose(
        frontend.compile(draw)(*given).numpy(), drawn.numpy(), rtol=1e-4, atol=1e-6
    )
    distribution = make(frontend.distributions, *given)
    distribution._validate_sample(drawn)
    if name == "von mises":
        return  # its variance is that of the circle
    mean, variance = distribution.mean.numpy(), distribution.variance.numpy()
    seen = drawn.numpy().astype(np.float64)
    known = np.isfinite(variance)
    error = np.sqrt(variance / count)
    assert (np.abs(seen.mean(0) - mean) < 5 * error + 1e-6)[known].all()
    if has(name, ("student", "fisher")):  # whose fourth moments are large
        np.testing.assert_allclose(seen.var(0)[known], variance[known], rtol=0.15)


def test_samples_are_differentiable() -> None:
    """The mean gradient of x and x² over samples is that of their means; compiled as eagerly."""
    d, count = frontend.distributions, 2000
    cases = {
        "gamma": (lambda a, b: d.Gamma(a, b), (S, B)), "beta": (lambda a, b: d.Beta(a, b), (S, B)),
        "chi2": (lambda a: d.Chi2(a), (B,)), "laplace": (lambda a, b: d.Laplace(a, b), (X, S)),
        "student": (lambda a, b, c: d.StudentT(a, b, c), (B + 9, X, S)),
        "dirichlet": (lambda a: d.Dirichlet(a), (K,)),
        "vectors": (lambda a, b: d.MultivariateNormal(a, b), (CUT[:, :2], COV)),
    }  # fmt: skip
    for name, (make, parameters) in cases.items():
        weights = frontend.tensor(f(1.0, -2.0, 3.0)[: 2 if name == "vectors" else 3])

        def total(*p: Any) -> Any:
            x = make(*p).rsample((count,))  # noqa: B023
            return ((x + x**2) * weights).sum() / count  # noqa: B023

        def exact(*p: Any) -> Any:
            distribution = make(*p)  # noqa: B023
            mean = distribution.mean
            return ((mean + distribution.variance + mean**2) * weights).sum()  # noqa: B023

        found = []
        for function in (exact, total, frontend.compile(total)):
            leaves = [frontend.tensor(p, requires_grad=True) for p in parameters]
            frontend.manual_seed(3)
            gradients = frontend.autograd.grad(function(*leaves), leaves)
            found.append(np.concatenate([np.ravel(each.numpy()) for each in gradients]))
        # A covariance counts symmetrically, its factor one triangle.
        scale = np.abs(found[0]).max()
        np.testing.assert_allclose(found[2], found[1], rtol=1e-3, atol=1e-4 * scale)
        if name != "vectors":
            np.testing.assert_allclose(found[1], found[0], rtol=0.2, atol=0.08 * scale)


def test_the_gradient_of_gamma_numbers_by_their_shape() -> None:
    torch = pytest.importorskip("torch")
    from graphc.ops.scalar_functions.drawn_numbers import gamma_shape_gradient

    shape = np.repeat([0.02, 0.3, 0.9, 1.0, 4.0, 50.0, 3000.0], 40)
    x = np.maximum(np.random.default_rng(0).gamma(shape), 1e-30)
    want = torch._standard_gamma_grad(torch.tensor(shape), torch.tensor(x)).numpy()
    least = frontend.full((50,), 1e-3, requires_grad=True)
    drawn = frontend.distributions.Gamma(least, 1.0).rsample()
    assert drawn.min() > 0
    (gradient,) = frontend.autograd.grad(drawn.sum(), least)
    assert gradient.isfinite().all()  # where f32 has no numbers that small, too
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(gamma_shape_gradient.function(shape, x), want, rtol=2e-3)


def test_what_is_refused() -> None:
    d, one = frontend.distributions, frontend.ones(2)
    rates = frontend.tensor([-1.0, 2.0, float("nan")])
    drawn = frontend.compile(frontend.poisson)(rates)
    assert drawn.isnan().tolist() == [True, False, True]
    for call, error in (
        (lambda: d.Gamma(-one, one), "satisfy the constraint"),
        (lambda: d.Dirichlet(frontend.tensor(1.0)), "at least one-dimensional"),
        (lambda: d.Binomial(3, one, one), "Either `probs` or `logits`"),
        (lambda: d.Geometric(one * 0), "to be positive"),
        (lambda: d.MultivariateNormal(one), "Exactly one of"),
        (lambda: d.MultivariateNormal(one, frontend.tensor([[1.0, 2.0], [2.0, 1.0]])), "satisfy"),
        (lambda: d.Multinomial(3, one / 2).log_prob(one * 9), "within the support"),
        (lambda: d.MixtureSameFamily(d.Categorical(one), d.Normal(0.0, frontend.ones(3))), "equal"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=error):
            call()
    with pytest.raises(NotImplementedError, match="Inhomogeneous"):
        d.Binomial(frontend.tensor([1.0, 2.0]), one / 2).entropy()
