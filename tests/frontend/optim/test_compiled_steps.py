"""Whole training steps, compiled: the numbers of eager mode, one trace, state updated in place."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn, optim

X = torch.tensor(np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32))
Y = torch.arange(8) % 3


class Job:
    """A network, an optimizer and a step; `traces` counts how often its Python code ran."""

    def __init__(self, kind: Any, compiled: bool, dropout: float = 0.0, **options: Any):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Dropout(dropout), nn.Linear(6, 3))
        self.opt = kind(self.model.parameters(), **options)
        self.traces = 0
        self.step = torch.compile(self.run) if compiled else self.run

    def run(self, x: Any, y: Any) -> Any:
        self.count()
        loss = nn.CrossEntropyLoss()(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss

    def count(self) -> None:
        self.traces += 1

    def losses(self, count: int) -> list[float]:
        return [self.step(X, Y).item() for _ in range(count)]


CASES = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    (optim.Adam, {"lr": 0.01}),
    (optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    (optim.AdamW, {"lr": 0.01, "maximize": True}),
]


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_as_eager_in_one_trace(kind: Any, options: dict[str, Any]) -> None:
    eager, compiled = Job(kind, False, **options), Job(kind, True, **options)
    np.testing.assert_allclose(compiled.losses(10), eager.losses(10), rtol=1e-5)
    assert (eager.traces, compiled.traces) == (10, 1)
    for p, q in zip(eager.model.parameters(), compiled.model.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-4, atol=1e-6)
        held, other = eager.opt.state[p], compiled.opt.state[q]
        assert list(held) == list(other)
        for name in held:
            np.testing.assert_allclose(held[name], other[name], rtol=1e-4, atol=1e-6)


def test_dropout_draws_the_same_stream() -> None:
    jobs = [Job(optim.SGD, compiled, dropout=0.5, lr=0.1) for compiled in (False, True)]
    curves = []
    for job in jobs:
        torch.manual_seed(7)
        curves.append(job.losses(6))
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)
    assert len({round(loss, 6) for loss in curves[0]}) == 6


def test_a_changed_learning_rate_needs_no_new_trace() -> None:
    curves = []
    for compiled in (False, True):
        job = Job(optim.Adam, compiled, lr=0.1)
        curves.append([])
        for step in range(6):
            job.opt.param_groups[0]["lr"] = 0.1 / (1 + step)
            curves[-1] += job.losses(1)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)
    assert job.traces == 1


def test_another_changed_option_traces_again() -> None:
    curves = []
    for compiled in (False, True):
        job = Job(optim.SGD, compiled, lr=0.1, momentum=0.9)
        curves.append(job.losses(2))
        job.opt.param_groups[0]["momentum"] = 0.5
        curves[-1] += job.losses(2)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)
    assert job.traces == 2


def test_a_loaded_state_is_what_the_compiled_step_goes_on_with() -> None:
    job = Job(optim.Adam, True, lr=0.05)
    job.losses(2)
    saved = copy.deepcopy((job.model.state_dict(), job.opt.state_dict()))
    expected = job.losses(3)
    job.model.load_state_dict(saved[0])
    job.opt.load_state_dict(saved[1])
    assert job.losses(3) == expected
    assert job.traces == 1


def test_an_error_inside_the_step_leaves_the_state() -> None:
    job = Job(optim.Adam, True, lr=0.05)
    before = copy.deepcopy(job.model.state_dict())
    with pytest.raises(IndexError):
        job.step(X, Y + 1)
    for name, value in job.model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    assert F.relu(X).shape == (8, 5)
