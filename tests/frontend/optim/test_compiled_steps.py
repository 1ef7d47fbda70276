"""Whole training steps, compiled: the numbers of eager mode, one trace, state updated in place."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn, optim
from graphc import TraceError

X = torch.tensor(np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32))
Y = torch.arange(8) % 3


class Job:
    """A network, an optimizer and a step; `traces` counts how often its Python code ran."""

    def __init__(self, kind: Any, compiled: bool, dropout: float = 0.0, **options: Any):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Dropout(dropout), nn.Linear(6, 3))
        self.opt = kind(self.model.parameters(), **options)
        self.log: list[str] = []
        self.step = torch.compile(self.run, fullgraph=True) if compiled else self.run

    def run(self, x: Any, y: Any) -> Any:
        self.log.append("Python")
        loss = nn.CrossEntropyLoss()(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss

    @property
    def traces(self) -> int:
        return len(self.log)

    def losses(self, count: int) -> list[float]:
        return [self.step(X, Y).item() for _ in range(count)]


CASES = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    (optim.Adam, {"lr": 0.01}),
    (optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    (optim.AdamW, {"lr": 0.01, "maximize": True}),
    (optim.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.5}),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    (optim.Adadelta, {"lr": 1.0}),
    (optim.Adamax, {"lr": 0.01}),
    (optim.NAdam, {"lr": 0.01}),
    (optim.RAdam, {"lr": 0.05, "betas": (0.9, 0.99)}),
    (optim.ASGD, {"lr": 0.05, "lambd": 0.1, "t0": 3, "weight_decay": 0.1}),
    (optim.Rprop, {"lr": 0.01, "maximize": True}),
]


@pytest.mark.sampled(8)
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


NUMBERS = [
    (optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "dampening": 0.2}, {"momentum": 0.5}),
    (optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}, {"weight_decay": 0.2}),
    (optim.SGD, {"momentum": 0.9, "dampening": 0.2}, {"dampening": 0.1}),
    (optim.Adam, {}, {"betas": (0.5, 0.99)}),
    (optim.AdamW, {}, {"weight_decay": 0.5}),
    (optim.RMSprop, {}, {"alpha": 0.9}),
    (optim.Adagrad, {"lr_decay": 0.1}, {"lr_decay": 0.2}),
    (optim.Adadelta, {}, {"rho": 0.8}),
    (optim.NAdam, {}, {"betas": [0.5, 0.99]}),
    (optim.ASGD, {}, {"lambd": 0.2, "alpha": 0.5, "t0": 1}),
    (optim.Rprop, {}, {"etas": (0.3, 1.5), "step_sizes": (0.01, 0.05)}),
    (optim.Rprop, {}, {"lr": 7.0}),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "options", "change"), NUMBERS, ids=str)
def test_changed_numbers_are_inputs(kind: Any, options: Any, change: Any) -> None:
    curves = []
    for compiled in (False, True):
        job = Job(kind, compiled, lr=0.1, **options)
        curves.append(job.losses(2))
        job.opt.param_groups[0].update(change)
        curves[-1] += job.losses(2)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)
    assert job.traces == 1


@pytest.mark.parametrize(("name", "value", "reason"), [
    ("nesterov", True, "option 'nesterov' was False, is True"),
    ("maximize", True, "option 'maximize' was False, is True"),
    ("weight_decay", 0.1, "option 'weight_decay' was 0, is 0.1"),
    ("momentum", 0, "option 'momentum' was 0.9, is 0"),
])  # fmt: skip
def test_other_changed_options_trace_again(name: str, value: Any, reason: str) -> None:
    curves = []
    for compiled in (False, True):
        job = Job(optim.SGD, compiled, lr=0.1, momentum=0.9)
        curves.append(job.losses(2))
        job.opt.param_groups[0][name] = value
        curves[-1] += job.losses(2)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)
    assert job.traces == 2 and reason in job.step.explain()


def test_a_tensor_rate_is_captured_and_another_one_traces_again() -> None:
    curves = []
    for compiled in (False, True):
        job = Job(optim.SGD, compiled, lr=torch.tensor(0.1))
        curves.append(job.losses(2))
        job.opt.param_groups[0]["lr"].fill_(0.01)
        curves[-1] += job.losses(2)
        assert job.traces == (1 if compiled else 4)
        job.opt.param_groups[0]["lr"] = torch.tensor(0.2)
        curves[-1] += job.losses(2)
        job.opt.param_groups[0]["lr"] = 0.1
        curves[-1] += job.losses(2)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)
    assert job.traces == 3


def test_new_parameters_groups_and_hooks_trace_again() -> None:
    job = Job(optim.SGD, True, lr=0.1)
    job.losses(1)
    extra = torch.ones(2, requires_grad=True)
    job.opt.add_param_group({"params": [extra], "lr": 0.5})
    extra.grad = torch.ones(2)
    job.losses(1)
    assert job.traces == 2 and "parameters, state or hooks of SGD changed" in job.step.explain()
    handle = job.opt.register_step_post_hook(lambda o, args, kwargs: None)
    job.losses(2)
    assert job.traces == 3
    handle.remove()
    job.losses(1)
    assert job.traces == 3  # the second specialization holds again


def test_state_that_is_gone_traces_again() -> None:
    job, eager = (Job(optim.Adam, compiled, lr=0.05) for compiled in (True, False))
    for each in (job, eager):
        each.losses(3)
        fresh = {"state": {}, "param_groups": each.opt.state_dict()["param_groups"]}
        each.opt.load_state_dict(fresh)
    np.testing.assert_allclose(job.losses(3), eager.losses(3), rtol=1e-5)
    assert job.traces == 2


def test_writing_options_or_state_in_a_trace_is_an_error() -> None:
    job = Job(optim.SGD, False, lr=0.1, momentum=0.9)
    job.losses(1)
    group, p = job.opt.param_groups[0], next(job.model.parameters())

    def changes(write: Any) -> Any:
        def step(x: Any) -> Any:
            write()
            return x * 2

        return torch.compile(step, fullgraph=True)

    for write in (
        lambda: group.__setitem__("lr", 0.5),
        lambda: group.update(lr=0.5),
        lambda: group.pop("lr"),
        lambda: job.opt.state[p].__setitem__("count", [3]),
        lambda: job.opt.load_state_dict(job.opt.state_dict()),
        lambda: job.opt.add_param_group({"params": [torch.ones(1)]}),
    ):
        with pytest.raises(TraceError, match="while tracing") as caught:
            changes(write)(X)
        assert caught.value.location is not None
    assert group["lr"] == 0.1
    changes(lambda: group.__setitem__("lr", group["lr"]))(X)  # nothing changes
    counts = changes(lambda: job.opt.state[p].__setitem__("count", 3))
    counts(X)
    assert job.opt.state[p].pop("count") == 3
    counts(X)  # each call assigns plain values
    assert job.opt.state[p]["count"] == 3


def test_options_that_users_code_reads_are_guarded() -> None:
    p = torch.ones(3, requires_grad=True)
    opt = optim.SGD([p], lr=0.5)

    @torch.compile
    def step() -> Any:
        with torch.no_grad():
            return p * opt.param_groups[0]["lr"]

    assert step().tolist() == [0.5] * 3
    opt.param_groups[0]["lr"] = 0.25
    assert step().tolist() == [0.25] * 3 and len(step.specializations) == 2


class Plain(optim.Optimizer):
    """An optimizer with a step of its own, written for eager mode."""

    def __init__(self, params: Any, lr: float = 0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad, alpha=-group["lr"])


def test_an_optimizer_of_the_users_own_compiles() -> None:
    curves = []
    for compiled in (False, True):
        job = Job(Plain, compiled, lr=0.1)
        curves.append(job.losses(2))
        job.opt.param_groups[0]["lr"] = 0.05
        curves[-1] += job.losses(2)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)
    assert job.traces == 2


def test_two_steps_in_one_trace() -> None:
    curves = []
    for compiled in (False, True):
        p = torch.ones(3, requires_grad=True)
        opt = optim.Adam([p], lr=0.1)

        def twice(p: Any = p, opt: Any = opt) -> Any:
            for _ in range(2):
                opt.zero_grad()
                (p * p).sum().backward()
                opt.step()
            return p * 1

        step = torch.compile(twice) if compiled else twice
        curves.append([step().tolist() for _ in range(3)])
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)
    assert len(step.specializations) == 1


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
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        job.step(X, Y + 1)
    for name, value in job.model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    assert F.relu(X).shape == (8, 5)
