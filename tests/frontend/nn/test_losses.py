"""Losses against their formulas in NumPy and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn

Array = np.ndarray
RNG = np.random.default_rng(0)
WEIGHT = np.array([1.0, 0.5, 2.0, 0.25])


def log_softmax(x: Array) -> Array:
    """Over axis 1."""
    shifted = x - x.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def reduced(lost: Array, reduction: str, count: Any) -> Array:
    if reduction == "none":
        return lost
    return np.asarray(lost.sum() / (count if reduction == "mean" else 1))


def nll(scores: Array, target: Array, weight: Array, ignore: int, reduction: str, smooth: float):
    """The definition, one target at a time; scores [N, C, ...]."""
    lost, counted = np.zeros(target.shape), np.zeros(target.shape)
    for at in np.ndindex(*target.shape):
        if target[at] == ignore:
            continue
        row = scores[(at[0], slice(None), *at[1:])]
        counted[at] = weight[target[at]]
        lost[at] = -row[target[at]] * counted[at] * (1 - smooth)
        lost[at] -= (row * weight).sum() * smooth / len(row)
    return reduced(lost, reduction, counted.sum())


@pytest.mark.sampled(40)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 2])
@pytest.mark.parametrize("smooth", [0.0, 0.1])
@pytest.mark.parametrize("extra", [(), (3,), (2, 3)])
def test_cross_entropy(
    reduction: str, weighted: bool, ignore: int, smooth: float, extra: tuple[int, ...], check: Any
) -> None:
    x, target = RNG.standard_normal((5, 4, *extra)), RNG.integers(0, 4, (5, *extra))
    weight = WEIGHT if weighted else np.ones(4)
    expected = nll(log_softmax(x), target, weight, ignore, reduction, smooth)
    layer = nn.CrossEntropyLoss(
        torch.tensor(WEIGHT) if weighted else None,
        ignore_index=ignore, reduction=reduction, label_smoothing=smooth,
    )  # fmt: skip
    check(layer(torch.tensor(x), torch.tensor(target)), expected)
    if not smooth:
        rest = {"ignore_index": ignore, "reduction": reduction}
        other = nn.NLLLoss(torch.tensor(WEIGHT) if weighted else None, **rest)
        check(other(F.log_softmax(torch.tensor(x), 1), torch.tensor(target)), expected)


@pytest.mark.parametrize("options", [{}, {"weight": WEIGHT}, {"label_smoothing": 0.2}], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_probabilities(options: dict[str, Any], reduction: str) -> None:
    x = RNG.standard_normal((5, 4, 3))
    target = RNG.dirichlet(np.ones(4), (5, 3)).transpose(0, 2, 1)
    smooth = options.get("label_smoothing", 0.0)
    mixed = target * (1 - smooth) + smooth / 4
    weight = options.get("weight", np.ones(4))[:, None]
    expected = reduced(-(log_softmax(x) * mixed * weight).sum(1), reduction, 15)
    tensors = {k: torch.tensor(v) if k == "weight" else v for k, v in options.items()}
    lost = F.cross_entropy(torch.tensor(x), torch.tensor(target), reduction=reduction, **tensors)
    np.testing.assert_allclose(lost.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"weight": WEIGHT}, {"label_smoothing": 0.2}], ids=str)
def test_cross_entropy_gradient(options: dict[str, Any]) -> None:
    x, target = RNG.standard_normal((5, 4)), np.array([0, 1, -100, 3, 2])
    weight = options.get("weight", np.ones(4))
    smooth = options.get("label_smoothing", 0.0)
    tensors = {k: torch.tensor(v) if k == "weight" else v for k, v in options.items()}
    leaf = torch.tensor(x, requires_grad=True)
    F.cross_entropy(leaf, torch.tensor(target), **tensors).backward()
    step = 1e-6
    for at in np.ndindex(*x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            ends.append(nll(log_softmax(moved), target, weight, -100, "mean", smooth))
        assert leaf.grad[at].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)


def test_a_single_row_of_scores() -> None:
    scores = RNG.standard_normal(4)
    lost = F.cross_entropy(torch.tensor(scores), torch.tensor(2))
    assert lost.shape == ()
    assert lost.item() == pytest.approx(-log_softmax(scores[None])[0, 2], rel=1e-12)


def test_nothing_to_average_is_nan() -> None:
    none = torch.tensor([-100, -100])
    assert np.isnan(F.cross_entropy(torch.zeros(2, 3), none).item())
    assert np.isnan(F.nll_loss(torch.zeros(2, 3), none).item())
    assert np.isnan(F.cross_entropy(torch.zeros(0, 3), torch.zeros(0).long()).item())
    assert F.cross_entropy(torch.zeros(2, 3), none, reduction="sum").item() == 0


def test_mse() -> None:
    x, y = RNG.standard_normal((2, 3)), RNG.standard_normal((2, 3))
    for reduction in ("mean", "sum", "none"):
        leaf = torch.tensor(x, requires_grad=True)
        lost = nn.MSELoss(reduction=reduction)(leaf, torch.tensor(y))
        expected = reduced((x - y) ** 2, reduction, x.size)
        np.testing.assert_allclose(lost.detach().numpy(), expected, rtol=1e-12)
        lost.sum().backward()
        scale = x.size if reduction == "mean" else 1
        np.testing.assert_allclose(leaf.grad.numpy(), 2 * (x - y) / scale, rtol=1e-12)
    with pytest.warns(UserWarning, match=r"target size \(torch.Size\(\[3\]\)\) that is different"):
        F.mse_loss(torch.zeros(2, 3), torch.zeros(3))


def test_errors() -> None:
    x, target = torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(
        ValueError, match=r"input batch_size \(4\) to match target batch_size \(5\)"
    ):
        F.cross_entropy(x, torch.zeros(5, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="expected target dtype to be Long or Byte, but got Int"):
        F.cross_entropy(x, target.int())
    with pytest.raises(RuntimeError, match=r"Expected target size \[4, 2\], got \[4, 5\]"):
        F.cross_entropy(torch.zeros(4, 3, 2), torch.zeros(4, 5, dtype=torch.int64))
    with pytest.raises(IndexError, match=r"Target 3 is out of bounds\.\n  at: test_losses"):
        F.cross_entropy(x, target + 3)
    with pytest.raises(IndexError, match=r"Target -1 is out of bounds\.\n  at: test_losses"):
        torch.compile(lambda x, y: F.cross_entropy(x, y, torch.ones(3)))(x, target - 1)
    with pytest.raises(ValueError, match="foo is not a valid value for reduction"):
        F.cross_entropy(x, target, reduction="foo")
    with pytest.raises(RuntimeError, match="for all 3 classes or no classes"):
        F.cross_entropy(x, target, weight=torch.ones(4))
    with pytest.raises(RuntimeError, match=r"must be between 0.0 and 1.0. Got: 2"):
        F.cross_entropy(x, target, label_smoothing=2)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.cross_entropy(x.long(), target)
    with pytest.raises(RuntimeError, match=r"at: test_losses.py:\d+"):
        F.nll_loss(x, target.int())


def test_a_soft_margin_takes_a_target_that_broadcasts() -> None:
    x = torch.randn(2, 3)
    each = F.soft_margin_loss(x, torch.tensor([1.0, -1.0, 1.0]), reduction="none")
    want = np.log1p(np.exp(-x.numpy() * [1, -1, 1]))
    np.testing.assert_allclose(each.numpy(), want, 1e-5)
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match .* \[1, 3\]"):
        F.soft_margin_loss(torch.ones(3), torch.ones(1, 3))
    for reduction in ("none", "mean"):
        half = F.soft_margin_loss(torch.ones(3).half(), torch.ones(3), reduction=reduction)
        assert half.dtype is torch.float16
