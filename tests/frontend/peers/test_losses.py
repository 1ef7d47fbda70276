"""Losses against PyTorch over their arguments: values, gradients, second derivatives, special
values, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.layer_cases.losses import LOSSES, Loss

REDUCTIONS = ("mean", "sum", "none")
RANDOM = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def unit(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.02, 0.98, shape).astype(np.float32)


def signs(*shape: int) -> np.ndarray:
    return (RANDOM.integers(0, 2, shape) * 2 - 1).astype(np.float32)


def labels(classes: int, *shape: int) -> np.ndarray:
    return RANDOM.integers(0, classes, shape)


X, Y, SIGNS = normal(4, 5), normal(4, 5), signs(4, 5)
# Where inf - inf or inf / inf would be NaN, PyTorch has NaN and we have the limit.
FINITE = [-1e30, -88.0, -30.0, -1.0, 0.0, 1e-6, 0.5, 1.0, 30.0, 88.0, 1e30, np.nan]


# PyTorch has no gradient of a soft margin by its target: that loss is in `test_weights`.
DIFFERENTIABLE = [case for case in LOSSES if case.layer != "SoftMarginLoss"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_losses(peer: Any, case: Loss, reduction: str) -> None:
    peer.module(lambda nn: case.make(nn, reduction), *case.single(), training=(True,))


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_second_derivatives(peer: Any, case: Loss) -> None:
    if case.layer in ("MultiMarginLoss", "MultiLabelMarginLoss"):
        pytest.skip("PyTorch has no second derivative")

    def twice(system: Any, x: Any, *rest: Any) -> Any:
        lost = case.make(system.nn, "sum")(x, *rest)
        return system.autograd.grad(lost**2, [x], create_graph=True)[0]

    peer.function(twice, *case.arguments, modes=("eager",))


# -- classes -------------------------------------------------------------------------------------

SCORES = {
    "[N,C]": (normal(6, 4), labels(4, 6)),
    "[C]": (normal(4), labels(4)),
    "[N,C,L]": (normal(3, 4, 5), labels(4, 3, 5)),
    "[N,C,H,W]": (normal(2, 4, 3, 2), labels(4, 2, 3, 2)),
}
WEIGHT = [0.3, 2.0, 0.0, 1.1]
CHOICES = [
    {},
    {"weight": WEIGHT},
    {"ignore_index": 1},
    {"label_smoothing": 0.2},
    {"weight": WEIGHT, "ignore_index": 2, "label_smoothing": 0.3},
]


def loss_of(nn: Any, name: str, options: dict[str, Any], reduction: str) -> Any:
    system = __import__(nn.__name__.partition(".")[0])
    weight = {"weight": system.tensor(options["weight"])} if "weight" in options else {}
    return getattr(nn, name)(reduction=reduction, **{**options, **weight})


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("options", CHOICES, ids=str)
@pytest.mark.parametrize("shape", SCORES)
def test_cross_entropy(peer: Any, shape: str, options: dict[str, Any], reduction: str) -> None:
    x, y = SCORES[shape]
    peer.module(
        lambda nn: loss_of(nn, "CrossEntropyLoss", options, reduction), x, y, training=(True,)
    )
    if "label_smoothing" not in options:
        peer.module(lambda nn: loss_of(nn, "NLLLoss", options, reduction), x, y, training=(True,))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("options", [{}, {"weight": WEIGHT}, {"label_smoothing": 0.2}], ids=str)
@pytest.mark.parametrize("shape", SCORES)
def test_class_probabilities(peer: Any, shape: str, options: Any, reduction: str) -> None:
    x = SCORES[shape][0]
    y = np.exp(normal(*x.shape))
    axis = 0 if x.ndim == 1 else 1
    y /= y.sum(axis, keepdims=True)
    peer.module(
        lambda nn: loss_of(nn, "CrossEntropyLoss", options, reduction), x, y, training=(True,)
    )


def test_all_rows_ignored(peer: Any) -> None:
    y = np.full(6, -100)
    for reduction in REDUCTIONS:
        for name in ("CrossEntropyLoss", "NLLLoss"):
            peer.module(lambda nn, n=name, r=reduction: loss_of(nn, n, {}, r), normal(6, 4), y)


def test_an_infinite_score_of_an_ignored_row(peer: Any) -> None:
    x = normal(3, 4)
    x[1] = [-np.inf, 0, 1, 2]
    y = np.array([0, -100, 2])
    for name in ("CrossEntropyLoss", "NLLLoss"):
        for options in ({}, {"weight": WEIGHT}):
            peer.module(lambda nn, n=name, o=options: loss_of(nn, n, o, "sum"), x, y)


def test_double_backward_of_cross_entropy(peer: Any) -> None:
    def twice(system: Any, x: Any, y: Any) -> Any:
        lost = system.nn.functional.cross_entropy(x, y)
        return system.autograd.grad(lost, [x], create_graph=True)[0]

    peer.function(twice, *SCORES["[N,C,L]"])


# -- weights and other arguments -----------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weights(peer: Any, reduction: str) -> None:
    w, wide = unit(5), unit(4, 5)
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        peer.function(
            lambda t, x, y, w, n=name: getattr(t.nn.functional, n)(
                x, y, weight=w, reduction=reduction
            ),
            X, Y, wide,
        )  # fmt: skip
    peer.function(
        lambda t, x, y: t.nn.functional.binary_cross_entropy(
            x, y, t.tensor(w), reduction=reduction
        ),
        unit(4, 5), unit(4, 5),
    )  # fmt: skip
    peer.function(
        lambda t, x: t.nn.functional.soft_margin_loss(x, t.tensor(SIGNS), reduction=reduction),
        X * 3,
    )
    peer.function(
        lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(
            x, y, t.tensor(w), pos_weight=t.tensor(w) * 4, reduction=reduction
        ),
        X * 4, unit(4, 5),
    )  # fmt: skip
    peer.module(
        lambda nn: loss_of(nn, "MultiMarginLoss", {"weight": [0.3, 2.0, 0.0, 1.1, 1.0]}, reduction),
        X, labels(5, 4), training=(True,),
    )  # fmt: skip
    peer.function(
        lambda t, x, y, w: t.nn.functional.multilabel_soft_margin_loss(
            x, y, w, reduction=reduction
        ),
        X, unit(4, 5), w,
    )  # fmt: skip


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
def test_kl_div(peer: Any, reduction: str) -> None:
    target = unit(4, 5)
    target[1, 2] = 0
    call = lambda t, x, y, log: t.nn.functional.kl_div(  # noqa: E731
        x, y, reduction=reduction, log_target=log
    )
    peer.function(lambda t, x: call(t, x, t.tensor(target), False), np.log(unit(4, 5)))
    peer.function(lambda t, x, y: call(t, x, y, False), np.log(unit(4, 5)), unit(4, 5))
    peer.function(lambda t, x, y: call(t, x, y, True), np.log(unit(4, 5)), np.log(unit(4, 5)))


def test_gaussian_variances(peer: Any) -> None:
    for var in (unit(4), unit(4, 1), unit(4, 5) * 1e-7):
        peer.function(lambda t, *a: t.nn.functional.gaussian_nll_loss(*a), X, Y, var)
    peer.function(lambda t, *a: t.nn.functional.gaussian_nll_loss(*a, 0.7), X, Y)
    for var in ((2,), (5,), (4, 2), (3, 4, 5)):
        peer.refusal(
            lambda t, v=var: t.nn.functional.gaussian_nll_loss(
                t.zeros(4, 5), t.zeros(4, 5), t.ones(v)
            )
        )


def test_alone_and_empty(peer: Any) -> None:
    peer.function(lambda t, x: t.nn.functional.multi_margin_loss(x, t.tensor(1)), X[0])
    peer.function(lambda t, x: t.nn.functional.multi_margin_loss(x, t.tensor([1])), X[0])
    peer.function(
        lambda t, x: t.nn.functional.multilabel_margin_loss(x, t.tensor([1, 0, -1, 3, 3])), X[0]
    )
    peer.function(
        lambda t, x, y: t.nn.functional.cosine_embedding_loss(x, y, t.tensor(-1)), X[0], Y[0]
    )
    peer.function(lambda t, x, y: t.nn.functional.triplet_margin_loss(x, y, x), X[0], Y[0])
    peer.function(lambda t, x, y: t.nn.functional.mse_loss(x, y), X[:0], Y[:0])
    peer.function(lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([], dtype=t.int64)), X[:0])
    peer.function(lambda t, x, y: t.nn.functional.mse_loss(x, y), X, Y[0])
    peer.function(
        lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([1, 2, 0, 3], dtype=t.uint8)), X
    )


@pytest.mark.parametrize("name", ["MSELoss", "CrossEntropyLoss", "BCEWithLogitsLoss", "KLDivLoss"])
def test_the_older_arguments(peer: Any, name: str) -> None:
    import frontend.nn

    for options in ({"size_average": False}, {"reduce": False}, {"size_average": True},
                    {"size_average": False, "reduce": False}):  # fmt: skip
        with pytest.warns(UserWarning, match="size_average and reduce args will be deprecated"):
            mine = getattr(frontend.nn, name)(**options)
        with pytest.warns(UserWarning):
            theirs = getattr(peer.torch.nn, name)(**options)
        assert mine.reduction == theirs.reduction
    with pytest.warns(UserWarning, match="reduction='sum'"):
        frontend.nn.functional.mse_loss(frontend.ones(2), frontend.zeros(2), size_average=False)


# -- special values ------------------------------------------------------------------------------

GRID = np.array([-np.inf, -1e30, -88.0, -1.0, 0.0, 1e-6, 0.5, 1.0, 88.0, 1e30, np.inf, np.nan])
SPECIAL = {
    "mse_loss": (None, None),
    "l1_loss": (None, None),
    "smooth_l1_loss": (None, None),
    "huber_loss": (None, None),
    "binary_cross_entropy_with_logits": (FINITE, [0.0, 0.3, 1.0]),
    "binary_cross_entropy": ([0.0, 1e-30, 1e-6, 0.3, 0.999, 1.0], [0.0, 0.3, 1.0]),
    "hinge_embedding_loss": (None, [-1.0, 1.0]),
    "soft_margin_loss": ([-30.0, -1.0, 0.0, 1.0, 30.0, np.nan], [-1.0, 1.0]),
    "poisson_nll_loss": (None, [0.0, 1.0, 3.0]),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(peer: Any, name: str) -> None:
    inputs, targets = (GRID if grid is None else np.array(grid) for grid in SPECIAL[name])
    x, y = (part.ravel() for part in np.meshgrid(inputs, targets))
    y = y.astype(np.float32)
    peer.function(
        lambda t, x: getattr(t.nn.functional, name)(x, t.tensor(y), reduction="none"),
        x.astype(np.float32),
    )


def test_cross_entropy_of_special_values(peer: Any) -> None:
    inf = np.inf
    rows = [[0, -inf, 1], [-inf, 0, 0], [inf, 0, 0], [np.nan, 0, 0], [1e30, 0, 0], [-inf] * 3]
    x = np.array(rows, np.float32)
    for label in range(3):
        peer.function(
            lambda t, x, c=label: t.nn.functional.cross_entropy(
                x, t.tensor([c] * 6), reduction="none"
            ),
            x,
        )


# -- refusals ------------------------------------------------------------------------------------

REFUSED = [
    lambda t, F: F.mse_loss(t.zeros(2), t.zeros(3)),
    lambda t, F: F.mse_loss(t.zeros(2), t.zeros(2), reduction="x"),
    lambda t, F: F.mse_loss(t.zeros(2).long(), t.zeros(2).long()),
    lambda t, F: F.l1_loss(t.zeros(2).long(), t.zeros(2).long()),
    lambda t, F: F.smooth_l1_loss(t.zeros(2), t.zeros(2), beta=-1),
    lambda t, F: F.huber_loss(t.zeros(2), t.zeros(2), delta=0),
    lambda t, F: F.huber_loss(t.zeros(2), t.zeros(2), weight=t.zeros(3)),
    lambda t, F: F.binary_cross_entropy(t.zeros(2), t.zeros(3)),
    lambda t, F: F.binary_cross_entropy(t.zeros(2), t.zeros(2).long()),
    lambda t, F: F.binary_cross_entropy(t.zeros(2) + 1.5, t.zeros(2)),
    lambda t, F: F.binary_cross_entropy(t.zeros(2) - 0.1, t.zeros(2)),
    lambda t, F: F.binary_cross_entropy_with_logits(t.zeros(2), t.zeros(3)),
    lambda t, F: F.binary_cross_entropy_with_logits(t.zeros(2), t.zeros(2).long()),
    lambda t, F: F.margin_ranking_loss(t.zeros(2, 1), t.zeros(2), t.zeros(2)),
    lambda t, F: F.multi_margin_loss(t.zeros(2, 3), t.zeros(3).long()),
    lambda t, F: F.multi_margin_loss(t.zeros(2, 3), t.tensor([3, 1])),
    lambda t, F: F.multi_margin_loss(t.zeros(2, 3), t.zeros(2).long(), p=3),
    lambda t, F: F.multi_margin_loss(t.zeros(2, 3), t.zeros(2).long(), weight=t.zeros(2)),
    lambda t, F: F.multilabel_margin_loss(t.zeros(2, 3), t.zeros(2, 2).long()),
    lambda t, F: F.multilabel_margin_loss(t.zeros(1, 3), t.tensor([[3, 1, 1]])),
    lambda t, F: F.triplet_margin_loss(t.zeros(2, 3), t.zeros(2, 3), t.zeros(3)),
    lambda t, F: F.triplet_margin_loss(t.zeros(2, 3), t.zeros(2, 3), t.zeros(2, 3), margin=-1),
    lambda t, F: t.nn.TripletMarginLoss(margin=-1),
    lambda t, F: t.nn.MultiMarginLoss(p=3),
    lambda t, F: t.nn.MultiMarginLoss(weight=t.zeros(2, 2)),
    lambda t, F: F.cosine_embedding_loss(t.zeros(3), t.zeros(3), t.tensor([1])),
    lambda t, F: F.cosine_embedding_loss(t.zeros(2, 3), t.zeros(2, 3), t.tensor(1)),
    lambda t, F: F.poisson_nll_loss(t.zeros(2), t.zeros(2), reduction="x"),
    lambda t, F: F.gaussian_nll_loss(t.zeros(2), t.zeros(2), -t.ones(2)),
    lambda t, F: F.gaussian_nll_loss(t.zeros(2), t.zeros(2), -1.0),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.tensor([0, 5, 1, 2])),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.tensor([0, -5, 1, 2])),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.zeros(4)),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.zeros(4).int()),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.zeros(4, 3).long()),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.zeros(5).long()),
    lambda t, F: F.cross_entropy(t.zeros(4, 3, 2), t.zeros(4, 5).long()),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.zeros(4, 3), ignore_index=2),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.zeros(4).long(), t.zeros(3).double()),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.zeros(4).long(), t.zeros(4)),
    lambda t, F: F.cross_entropy(t.zeros(4, 3), t.zeros(4).long(), label_smoothing=2.0),
    lambda t, F: F.nll_loss(t.zeros(4, 3), t.zeros(4)),
    lambda t, F: F.nll_loss(t.zeros(4, 3), t.tensor([0, 5, 1, 2])),
    lambda t, F: F.nll_loss(t.zeros(4, 3, 2), t.zeros(4).long()),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals(peer: Any, number: int) -> None:
    peer.refusal(lambda t: REFUSED[number](t, t.nn.functional))
