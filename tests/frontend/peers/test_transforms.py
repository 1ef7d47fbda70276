"""Transforms of distributions against PyTorch's: both directions, volumes, shapes, texts; and which
transform leads to which constraint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend


def f(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.float32)


X = f([0.3, -1.2, 2.0], [0.0, 0.5, -0.7])
ABOVE = np.abs(X) + 0.5
SQUARES = f([[0.3, -1.0], [0.5, 0.2]], [[-0.4, 2.0], [1.0, 0.1]])

# How it is made, and values to transform.
MAKE: dict[str, tuple[Any, np.ndarray]] = {
    "exp": (lambda d, t: d.ExpTransform(), X),
    "log": (lambda d, t: d.ExpTransform().inv, ABOVE),
    "power": (lambda d, t: d.PowerTransform(t.tensor(2.5)), ABOVE),
    "sigmoid": (lambda d, t: d.SigmoidTransform(), X),
    "softplus": (lambda d, t: d.SoftplusTransform(), X),
    "tanh": (lambda d, t: d.TanhTransform(), X),
    "affine": (lambda d, t: d.AffineTransform(t.tensor(f(1, 2, 3)), t.tensor(f(-1, 2, 3))), X),
    "affine numbers": (lambda d, t: d.AffineTransform(1.0, -3, event_dim=1), X),
    "cumulative": (lambda d, t: d.CumulativeDistributionTransform(d.Normal(0.5, 2.0)), X),
    "composed": (
        lambda d, t: d.ComposeTransform([d.AffineTransform(1.0, 0.5), d.StickBreakingTransform()]),
        X,
    ),
    "stick": (lambda d, t: d.StickBreakingTransform(), X),
    "independent": (lambda d, t: d.IndependentTransform(d.ExpTransform(), 1), X),
    "reshape": (lambda d, t: d.ReshapeTransform((3,), (1, 3)), X),
    "correlations": (lambda d, t: d.CorrCholeskyTransform(), X),
    "cat": (
        lambda d, t: d.CatTransform([d.ExpTransform(), d.TanhTransform()], dim=-1, lengths=[2, 1]),
        X,
    ),
    "stack": (lambda d, t: d.StackTransform([d.ExpTransform(), d.TanhTransform()], dim=0), X),
}
ONE_WAY: dict[str, tuple[Any, np.ndarray]] = {
    "abs": (lambda d, t: d.AbsTransform(), X),
    "softmax": (lambda d, t: d.SoftmaxTransform(), X),
    "lower": (lambda d, t: d.LowerCholeskyTransform(), SQUARES),
    "definite": (lambda d, t: d.PositiveDefiniteTransform(), SQUARES),
}


@pytest.mark.parametrize("name", [*MAKE, *ONE_WAY])
def test_values_and_gradients(peer: Any, name: str) -> None:
    make, value = (MAKE | ONE_WAY)[name]

    def call(t: Any, x: Any) -> Any:
        transform = make(t.distributions, t)
        y = transform(x)
        results = [y, transform.inv(y)] if name != "softmax" else [y]
        if name in MAKE:
            results.append(transform.log_abs_det_jacobian(x, y))
            results.append(transform.inv.log_abs_det_jacobian(y, x))
        return results

    peer.function(call, value)


@pytest.mark.parametrize("name", [*MAKE, *ONE_WAY])
def test_texts_shapes_and_constraints(peer: Any, name: str) -> None:
    make, value = (MAKE | ONE_WAY)[name]

    def run(t: Any, log: list[Any]) -> Any:
        d = t.distributions
        transform = make(d, t)
        again = transform.with_cache()
        x = t.tensor(value)
        y = again(x)
        log.append([repr(transform), transform.bijective, again.inv(y) is x, again(x) is y])
        if name not in ("cat", "stack"):
            log.append([repr(transform.domain), repr(transform.codomain)])
        log.append([transform.domain.event_dim, transform.codomain.event_dim])
        if name not in ("cat", "stack"):
            log.append(transform.codomain.check(y))
        log.append([transform.inv.inv == transform, transform == d.AffineTransform(7.0, 1.0)])
        shape = tuple(x.shape)
        log.append(tuple(transform.forward_shape(shape)))
        log.append(tuple(transform.inverse_shape(transform.forward_shape(shape))))
        return True

    peer.script(run)


CONSTRAINTS = (
    "real", "positive", "nonnegative", "greater_than(2.0)", "greater_than_eq(-1.0)",
    "less_than(2.0)", "interval(-1.0, 3.0)", "unit_interval", "half_open_interval(0.0, 2.0)",
    "real_vector", "independent(positive, 1)", "simplex", "lower_cholesky", "positive_definite",
    "positive_semidefinite", "corr_cholesky", "cat([positive, unit_interval], -1, [1, 2])",
    "stack([positive, unit_interval], 0)",
)  # fmt: skip


@pytest.mark.parametrize("text", CONSTRAINTS)
@pytest.mark.parametrize("way", ["biject_to", "transform_to"])
def test_transforms_to_constraints(peer: Any, text: str, way: str) -> None:
    value = X[0] if "corr" in text else SQUARES if "lower" in text or "definite" in text else X

    def run(t: Any, log: list[Any]) -> Any:
        d = t.distributions
        constraint = eval(text, dict(vars(d.constraints)))
        transform = getattr(d, way)(constraint)
        x = t.tensor(value)
        y = transform(x)
        log.append([repr(transform), y, transform.codomain.event_dim])
        log.append([bool(constraint.check(y).all()), constraint.event_dim, constraint.is_discrete])
        return True

    if way == "biject_to" and ("lower" in text or "definite" in text):
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            run(frontend, [])
    else:
        peer.script(run)


def test_all_constraints_of_the_table_are_there(peer: Any) -> None:
    for way in ("biject_to", "transform_to"):
        theirs, ours = (getattr(t.distributions, way)._registry for t in (peer.torch, frontend))
        assert len(ours) == len(theirs)
    theirs = peer.torch.distributions.constraints.__all__
    assert set(theirs) <= set(frontend.distributions.constraints.__all__)
    for module in ("transforms", "utils"):
        theirs = getattr(peer.torch.distributions, module).__all__
        assert set(theirs) <= set(getattr(frontend.distributions, module).__all__)


def test_constraints_of_matrices_and_parts(peer: Any) -> None:
    def run(t: Any, log: list[Any]) -> Any:
        c, utils = t.distributions.constraints, t.distributions.utils
        matrices = t.tensor(
            f([[1, 0], [0.6, 0.8]], [[2, 1], [1, 2]], [[1, 2], [2, 1]], [[1, 3], [0, 1]])
        )
        for name in ("corr_cholesky", "symmetric", "square"):
            log.append([repr(getattr(c, name)), getattr(c, name).check(matrices)])
        # PyTorch looks at eigenvalues only where all of a batch are symmetric.
        log.append(c.positive_semidefinite.check(matrices[1:3]))
        log.append(c.positive_definite.check(matrices[1:3]))
        log.append([c.square.check(t.ones(3, 2, 4)), c.is_dependent(c.dependent(event_dim=1))])
        log.append(c.stack([c.positive, c.boolean], -1).check(matrices))
        log.append(c.cat([c.positive, c.boolean], -1).check(matrices))
        log.append(c.MixtureSameFamilyConstraint(c.positive).check(matrices))
        log.append([utils.tril_matrix_to_vec(matrices), utils.tril_matrix_to_vec(matrices, -1)])
        log.append(utils.vec_to_tril_matrix(t.tensor(X)))
        log.append(utils.vec_to_tril_matrix(t.tensor(X), -1))
        return True

    peer.script(run)


def test_transformed_distributions(peer: Any) -> None:
    def call(t: Any, loc: Any, scale: Any, x: Any) -> Any:
        d = t.distributions
        one = d.TransformedDistribution(
            d.Normal(loc, scale), [d.ExpTransform(), d.AffineTransform(0.0, -2.0)]
        )
        parts = d.TransformedDistribution(d.Normal(loc, scale), d.StickBreakingTransform())
        wide = d.TransformedDistribution(d.Normal(0.0, 1.0), d.AffineTransform(loc, scale))
        y, share = -2.0 * x.exp(), d.StickBreakingTransform()(x)
        return [
            one.log_prob(y), one.cdf(y), one.icdf(t.tensor(f(0.1, 0.5, 0.9))),
            one.expand((2, 3)).log_prob(y), parts.log_prob(share), wide.log_prob(x),
            parts.expand((4,)).log_prob(share), wide.cdf(x),
        ]  # fmt: skip

    peer.function(call, X[0], ABOVE[0], X[1])


def test_refusals_of_transforms() -> None:
    d = frontend.distributions
    for call, error in (
        (lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), [3]), "list of Transforms"),
        (lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), 3), "must be a Transform or list"),
        (
            lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform()),
            "size at least 1",
        ),
        (lambda: d.ExpTransform(3), "cache_size must be 0 or 1"),
        (lambda: d.ReshapeTransform((2,), (3,)), "different numbers of elements"),
        (lambda: d.CorrCholeskyTransform().forward_shape((4,)), "flattened lower-diagonal"),
        (lambda: d.IndependentTransform(d.ExpTransform(), 1)(frontend.ones(())), "Too few"),
        (lambda: d.utils.vec_to_tril_matrix(frontend.ones(4)), "cannot be expressed"),
        (lambda: d.utils.tril_matrix_to_vec(frontend.ones(2, 2), 3), "outside"),
    ):
        with pytest.raises(ValueError, match=error):
            call()
    with pytest.raises(TypeError, match="Expected constraint"):
        d.biject_to.register(3, None)(lambda c: c)
