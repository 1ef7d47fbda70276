"""Losses of pairs and with margins against their definitions in NumPy and float64; compiled too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from tests.frontend.layer_cases.losses import (
    LOSSES,
    OTHER,
    RANDOM,
    UNIT,
    Loss,
    X,
    Y,
    Z,
    log_sigmoid,
)

REDUCTIONS = {"none": lambda x: x, "mean": np.mean, "sum": np.sum}


@pytest.mark.sampled(20)
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("case", LOSSES, ids=str)
def test_definitions(case: Loss, reduction: str, check: Any) -> None:
    loss = case.make(nn, reduction)
    arguments = [torch.tensor(array) for array in case.arguments]
    expected = np.asarray(REDUCTIONS[reduction](case.definition))
    check(loss(*arguments), expected)
    check(torch.compile(loss)(*arguments), expected)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", LOSSES, ids=str)
def test_gradients(case: Loss, check_gradient: Any) -> None:
    rest = [torch.tensor(array) for array in case.arguments[1:]]
    check_gradient(lambda x: case.make(nn, "none")(x, *rest), case.arguments[0])


def test_weights(check: Any) -> None:
    w = OTHER
    for loss, lost in ((F.mse_loss, (X - Y) ** 2), (F.l1_loss, abs(X - Y))):
        mean = loss(torch.tensor(X), torch.tensor(Y), weight=torch.tensor(w))
        check(mean, np.asarray((lost * w).sum() / w.sum()))
    positive = RANDOM.uniform(0.5, 3, 5)
    weighted = nn.BCEWithLogitsLoss(
        torch.tensor(w[0]), pos_weight=torch.tensor(positive), reduction="none"
    )
    want = -positive * UNIT * log_sigmoid(X) - (1 - UNIT) * log_sigmoid(-X)
    check(weighted(torch.tensor(X), torch.tensor(UNIT)), want * w[0])


def test_batchmean(check: Any) -> None:
    loss = nn.KLDivLoss(reduction="batchmean")
    check(
        loss(torch.tensor(np.log(UNIT)), torch.tensor(OTHER)),
        np.asarray((OTHER * np.log(OTHER / UNIT)).sum() / 4),
    )
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


@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
@pytest.mark.parametrize("flags_first", [False, True])
def test_one_of_both_may_be_flags(loss: Any, flags_first: bool) -> None:
    flags, numbers = torch.tensor([True, False, True]), torch.tensor([0.5, 3.0, -2.0])
    pair = (flags, numbers) if flags_first else (numbers, flags)
    expected = loss(numbers, flags.float(), reduction="none")
    assert loss(*pair, reduction="none").tolist() == expected.tolist()
    with pytest.raises((RuntimeError, NotImplementedError), match=r"bool|not implemented"):
        loss(flags, flags)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("inputs, targets", [("float64", "float32"), ("float32", "float64")])
def test_losses_of_logits_have_the_dtype_of_their_targets(
    inputs: str, targets: str, compiled: bool
) -> None:
    x = torch.tensor([0.5, -1.5, 2.0], dtype=getattr(torch, inputs), requires_grad=True)
    target = torch.tensor([0.0, 1.0, 0.25], dtype=getattr(torch, targets))
    loss = F.binary_cross_entropy_with_logits
    lost = (torch.compile(loss) if compiled else loss)(x, target, reduction="none")
    p = 1 / (1 + np.exp(-x.detach().numpy().astype(np.float64)))
    t = target.numpy().astype(np.float64)
    assert str(lost.dtype) == f"torch.{targets}"
    np.testing.assert_allclose(
        lost.detach().numpy(), -t * np.log(p) - (1 - t) * np.log1p(-p), rtol=1e-6
    )
    lost.sum().backward()
    assert str(x.grad.dtype) == f"torch.{inputs}"
    np.testing.assert_allclose(x.grad.numpy(), p - t, rtol=1e-6)
