"""Losses of pairs and with margins against their definitions in NumPy and float64; compiled too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn

Array = np.ndarray
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape)


def log_sigmoid(x: Array) -> Array:
    return np.minimum(x, 0) - np.log1p(np.exp(-abs(x)))


def distance(x: Array, y: Array, p: float = 2) -> Array:
    return (abs(x - y + 1e-6) ** p).sum(-1) ** (1 / p)


def huber(x: Array, y: Array, bound: float) -> Array:
    d = abs(x - y)
    return np.where(d < bound, d**2 / 2, bound * (d - bound / 2))


def multi_margin(x: Array, y: Array, p: int, margin: float) -> Array:
    lost = np.maximum(0, margin - x[np.arange(len(y)), y][:, None] + x) ** p
    lost[np.arange(len(y)), y] = 0
    return lost.sum(1) / x.shape[1]


def multilabel_margin(x: Array, y: Array) -> Array:
    lost = np.zeros(len(x))
    for row, (scores, listed) in enumerate(zip(x, y, strict=True)):
        labels = listed[: list(listed).index(-1)] if -1 in listed else listed
        others = [c for c in range(len(scores)) if c not in labels]
        pairs = [max(0, 1 - (scores[y] - scores[c])) for y in labels for c in others]
        lost[row] = sum(pairs) / len(scores)
    return lost


X, Y, Z = normal(4, 5), normal(4, 5), normal(4, 5)
UNIT, OTHER = RANDOM.uniform(0.05, 0.95, (4, 5)), RANDOM.uniform(0.05, 0.95, (4, 5))
SIGNS = np.where(normal(4, 5) > 0, 1.0, -1.0)
CLASSES = np.array([0, 4, 2, 2])
LISTED = np.array([[0, 2, -1, 4, 1], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0], [1, -1, -1, 0, 0]])
COUNTS = np.array([0.0, 1, 2, 5, 3] * 4).reshape(4, 5)
COSINE = (X * Y).sum(1) / np.sqrt((X**2).sum(1) * (Y**2).sum(1))

Case = tuple[Callable[..., Any], tuple[Array, ...], Array]
CASES: dict[str, Case] = {
    "mse": (F.mse_loss, (X, Y), (X - Y) ** 2),
    "l1": (F.l1_loss, (X, Y), abs(X - Y)),
    "smooth l1": (
        lambda x, y, **o: F.smooth_l1_loss(x, y, beta=0.5, **o), (X, Y), huber(X, Y, 0.5) / 0.5
    ),
    "smooth l1 of 0": (lambda x, y, **o: F.smooth_l1_loss(x, y, beta=0, **o), (X, Y), abs(X - Y)),
    "huber": (lambda x, y, **o: F.huber_loss(x, y, delta=0.7, **o), (X, Y), huber(X, Y, 0.7)),
    "bce": (
        F.binary_cross_entropy, (UNIT, OTHER),
        -OTHER * np.log(UNIT) - (1 - OTHER) * np.log(1 - UNIT),
    ),
    "bce of logits": (
        F.binary_cross_entropy_with_logits, (X * 50, OTHER),
        -OTHER * log_sigmoid(X * 50) - (1 - OTHER) * log_sigmoid(X * -50),
    ),
    "kl": (F.kl_div, (np.log(UNIT), OTHER), OTHER * (np.log(OTHER) - np.log(UNIT))),
    "hinge": (
        lambda x, y, **o: F.hinge_embedding_loss(x, y, 0.5, **o), (X, SIGNS),
        np.where(SIGNS > 0, X, np.maximum(0, 0.5 - X)),
    ),
    "ranking": (
        lambda x, y, t, **o: F.margin_ranking_loss(x, y, t, 0.3, **o), (X, Y, SIGNS),
        np.maximum(0, -SIGNS * (X - Y) + 0.3),
    ),
    "soft margin": (F.soft_margin_loss, (X * 50, SIGNS), -log_sigmoid(X * 50 * SIGNS)),
    "cosine": (
        lambda x, y, t, **o: F.cosine_embedding_loss(x, y, t, 0.1, **o), (X, Y, SIGNS[:, 0]),
        np.where(SIGNS[:, 0] > 0, 1 - COSINE, np.maximum(0, COSINE - 0.1)),
    ),
    "multi margin": (
        lambda x, y, **o: F.multi_margin_loss(x, y, 2, 0.7, **o), (X, CLASSES),
        multi_margin(X, CLASSES, 2, 0.7),
    ),
    "multilabel margin": (F.multilabel_margin_loss, (X, LISTED), multilabel_margin(X, LISTED)),
    "multilabel soft margin": (
        F.multilabel_soft_margin_loss, (X, OTHER),
        -(OTHER * log_sigmoid(X) + (1 - OTHER) * log_sigmoid(-X)).mean(1),
    ),
    "triplet": (
        lambda x, y, z, **o: F.triplet_margin_loss(x, y, z, 0.4, swap=True, **o), (X, Y, Z),
        np.maximum(0, 0.4 + distance(X, Y) - np.minimum(distance(X, Z), distance(Y, Z))),
    ),
    "poisson": (F.poisson_nll_loss, (X, COUNTS), np.exp(X) - COUNTS * X),
    "gaussian": (
        lambda x, y, v, **o: F.gaussian_nll_loss(x, y, v, full=True, **o), (X, Y, UNIT),
        (np.log(UNIT) + (X - Y) ** 2 / UNIT + math.log(2 * math.pi)) / 2,
    ),
}  # fmt: skip
REDUCED = {"none": lambda x: x, "mean": np.mean, "sum": np.sum}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", REDUCED)
@pytest.mark.parametrize("name", CASES)
def test_definitions(name: str, reduction: str, check: Any) -> None:
    loss, arrays, want = CASES[name]
    given = [torch.tensor(array) for array in arrays]
    expected = np.asarray(REDUCED[reduction](want))
    check(loss(*given, reduction=reduction), expected)
    compiled = torch.compile(lambda *tensors: loss(*tensors, reduction=reduction))
    check(compiled(*given), expected)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, check_gradient: Any) -> None:
    loss, arrays, _ = CASES[name]
    rest = [torch.tensor(array) for array in arrays[1:]]
    check_gradient(lambda x: loss(x, *rest, reduction="none"), arrays[0])


def test_weights(check: Any) -> None:
    w = OTHER
    for loss, lost in ((F.mse_loss, (X - Y) ** 2), (F.l1_loss, abs(X - Y))):
        made = loss(torch.tensor(X), torch.tensor(Y), weight=torch.tensor(w))
        check(made, np.asarray((lost * w).sum() / w.sum()))
    positive = RANDOM.uniform(0.5, 3, 5)
    made = nn.BCEWithLogitsLoss(
        torch.tensor(w[0]), pos_weight=torch.tensor(positive), reduction="none"
    )(torch.tensor(X), torch.tensor(UNIT))
    want = -positive * UNIT * log_sigmoid(X) - (1 - UNIT) * log_sigmoid(-X)
    check(made, want * w[0])


def test_batchmean(check: Any) -> None:
    made = nn.KLDivLoss(reduction="batchmean")(torch.tensor(np.log(UNIT)), torch.tensor(OTHER))
    check(made, np.asarray((OTHER * np.log(OTHER / UNIT)).sum() / 4))
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(torch.zeros(2, 2), torch.ones(2, 2))


def test_a_distance_of_your_own(check: Any) -> None:
    loss = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda x, y: (x - y).abs().sum(-1), margin=2.0, reduction="none"
    )
    want = np.maximum(0, 2 + abs(X - Y).sum(1) - abs(X - Z).sum(1))
    check(loss(*[torch.tensor(a) for a in (X, Y, Z)]), want)


def test_an_infinite_difference_has_a_bounded_slope() -> None:
    for loss in (F.huber_loss, F.smooth_l1_loss):
        x = torch.tensor([math.inf, -math.inf], requires_grad=True)
        loss(x, torch.zeros(2), reduction="sum").backward()
        assert x.grad.tolist() == [1, -1]


def test_certain_probabilities() -> None:
    x = torch.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    lost = F.binary_cross_entropy(x, torch.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none")
    assert lost.tolist() == [0, 0, 100, 100]
    lost.sum().backward()
    assert np.isfinite(x.grad.numpy()).all() and x.grad[0] == 0


BAD = {
    "a probability": (
        lambda x: F.binary_cross_entropy(x, torch.ones(2)),
        RuntimeError, "all elements of input should be between 0 and 1",
    ),
    "a variance": (
        lambda x: F.gaussian_nll_loss(x, x, -x), ValueError, "var has negative entry/entries"
    ),
    "a class": (
        lambda x: F.multi_margin_loss(x.reshape(1, 2), (x[:1] * 2).long()),
        RuntimeError, "target out of range",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", BAD)
def test_bad_content_is_refused_at_the_users_line(name: str, mode: str) -> None:
    call, kind, message = BAD[name]
    run = call if mode == "eager" else torch.compile(call)
    with pytest.raises(kind, match=rf"{message}[^$]*at: test_losses_of_pairs.py:\d+"):
        run(torch.tensor([1.5, 0.5]))


def test_shape_warnings_name_the_callers_line() -> None:
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        with pytest.warns(UserWarning, match=r"target size \(torch.Size\(\[3\]\)\)") as caught:
            loss(torch.zeros(2, 3), torch.zeros(3))
        assert caught[0].filename == __file__
