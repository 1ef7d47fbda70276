"""Averages of weights over training: the formulas in NumPy, eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.optim.swa_utils import (
    SWALR,
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    update_bn,
)


def mean(average: Any, new: Any, count: int) -> Any:
    return average + (new - average) / (count + 1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "options, formula",
    [
        ({}, mean),
        ({"multi_avg_fn": get_ema_multi_avg_fn(0.9)}, lambda a, x, n: 0.9 * a + 0.1 * x),
        ({"avg_fn": get_ema_avg_fn(0.5)}, lambda a, x, n: 0.5 * a + 0.5 * x),
        ({"avg_fn": lambda a, x, n: torch.maximum(a, x)}, lambda a, x, n: np.maximum(a, x)),
    ],
)
def test_averages(options: Any, formula: Any, compiled: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    averaged = AveragedModel(model, **options)
    update = torch.compile(averaged.update_parameters) if compiled else averaged.update_parameters
    expected = None
    for count in range(4):
        with torch.no_grad():
            model[0].weight.copy_(torch.randn(2, 3))
        model(torch.randn(5, 3))
        update(model)
        new = model[0].weight.detach().numpy().astype(np.float64)
        expected = new if expected is None else formula(expected, new, count)
        np.testing.assert_allclose(averaged.module[0].weight.detach(), expected, rtol=1e-6)
        assert averaged.n_averaged.item() == count + 1
        np.testing.assert_array_equal(averaged.module[1].running_mean, model[1].running_mean)
    assert averaged.module[1].num_batches_tracked.item() == 4
    assert averaged.state_dict().keys() >= {"n_averaged", "module.0.weight"}


def test_buffers_are_averaged_when_asked() -> None:
    model = nn.BatchNorm1d(2)
    averaged = AveragedModel(model, use_buffers=True)
    for value in (0.0, 4.0):
        model.running_mean.fill_(value)
        averaged.update_parameters(model)
    assert averaged.module.running_mean.tolist() == [2.0, 2.0]


def test_statistics_computed_anew() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3)).eval()
    batches = [torch.randn(6, 2) + i for i in range(3)]
    update_bn([(batch, None) for batch in batches], model)
    expected = np.mean([batch.numpy().mean(0) for batch in batches], 0)
    np.testing.assert_allclose(model[0].running_mean, expected, rtol=1e-5)
    assert model[0].momentum == 0.3 and not model.training


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_learning_rates_reach_the_last(strategy: str) -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = SWALR(optimizer, swa_lr=0.2, anneal_epochs=4, anneal_strategy=strategy)
    rates = []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    way = np.minimum(np.arange(6) / 4, 1)
    share = way if strategy == "linear" else (1 - np.cos(np.pi * way)) / 2
    np.testing.assert_allclose(rates, 1 + (0.2 - 1) * share, rtol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(AssertionError, match="Only one"):
        AveragedModel(model, avg_fn=get_ema_avg_fn(), multi_avg_fn=get_ema_multi_avg_fn())
    with pytest.raises(ValueError, match="decay"):
        get_ema_avg_fn(1.5)
    with pytest.raises(ValueError, match="anneal_strategy"):
        SWALR(optimizer, 0.1, anneal_strategy="steps")
    with pytest.raises(ValueError, match="same length"):
        SWALR(optimizer, [0.1, 0.2])
