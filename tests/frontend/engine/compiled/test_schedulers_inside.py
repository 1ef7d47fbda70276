"""Schedulers that step in a compiled function: each call takes the step once it is over, and what
is read of a scheduler is looked at again at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
from frontend.optim import lr_scheduler
from graphc.errors import TraceError

SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=3), lr_scheduler.StepLR(o, 2)], [3]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5),
}


class Training:
    """A model with an optimizer and a scheduler, and what it prints."""

    def __init__(self, scheduler: str = "exponential"):
        self.weight = torch.tensor([1.0, -2.0], requires_grad=True)
        self.optimizer = torch.optim.SGD([self.weight], lr=0.25, momentum=0.5)
        self.scheduler = SCHEDULERS[scheduler](self.optimizer)

    def backward(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = (x * self.weight).square().mean()
        loss.backward()
        return loss

    def step(self, x: Any) -> Any:
        loss = self.backward(x)
        self.optimizer.step()
        self.scheduler.step()
        return loss

    def step_by_loss(self, x: Any) -> Any:
        loss = self.backward(x)
        self.optimizer.step()
        self.scheduler.step(loss)
        return loss

    def step_and_read(self, x: Any) -> Any:
        return self.step(x) * self.scheduler.get_last_lr()[0]

    def step_and_read_option(self, x: Any) -> Any:
        return self.step(x) * self.optimizer.param_groups[0]["lr"]

    def step_first(self, x: Any) -> Any:
        loss = self.backward(x)
        self.scheduler.step()
        self.optimizer.step()
        return loss

    def read(self, x: Any) -> Any:
        return self.scheduler.get_last_lr()[0] * x

    def state(self) -> list[Any]:
        return [self.weight.tolist(), self.optimizer.param_groups[0]["lr"],
                self.scheduler.state_dict()]  # fmt: skip


X = torch.tensor([0.5, 0.25])


def states(
    compiled: bool, scheduler: str, name: str, **options: Any
) -> tuple[list[Any], Callable[..., Any]]:
    """Results and state after each of some calls."""
    training = Training(scheduler)
    step = getattr(training, name)
    if compiled:
        step = torch.compile(step, **options)
    return [[step(X).tolist(), training.state()] for _ in range(8)], step


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_each_call_of_one_program_takes_the_step(scheduler: str) -> None:
    name = "step_by_loss" if scheduler == "plateau" else "step"
    expected, _ = states(False, scheduler, name)
    found, step = states(True, scheduler, name)
    assert found == expected
    assert "1 program, 1 specialization" in str(step.explain())


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(
    "name, refusal",
    [
        ("step_and_read", "'get_last_lr' of a ExponentialLR is read where its step is taken"),
        ("step_and_read_option", "option 'lr' is read behind a step of its scheduler"),
        ("step_first", "option 'lr' is read behind a step of its scheduler"),
    ],
)
def test_what_reads_behind_the_step_runs_eagerly(name: str, refusal: str) -> None:
    expected, _ = states(False, "exponential", name)
    with pytest.warns(UserWarning, match=refusal):
        found, _ = states(True, "exponential", name)
    assert found == expected


def test_a_whole_graph_has_no_steps_of_schedulers() -> None:
    with pytest.raises(TraceError, match="a scheduler's step"):
        states(True, "exponential", "step", fullgraph=True)


def test_what_is_read_of_a_scheduler_is_read_anew() -> None:
    training = Training()
    read = torch.compile(training.read)
    for rate in (0.25, 0.225, 0.2025):
        assert read(torch.ones(1)).tolist() == pytest.approx([rate])
        training.optimizer.step()
        training.scheduler.step()


def test_a_rate_that_is_a_tensor_runs_eagerly() -> None:
    """It may be read by itself."""
    rate = torch.tensor(0.25)
    optimizer = torch.optim.SGD([torch.tensor([1.0], requires_grad=True)], lr=rate)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()

    def step(x: Any) -> Any:
        scheduler.step()
        return x * rate

    with pytest.warns(UserWarning, match="a scheduler's step"):
        assert torch.compile(step)(torch.ones(1)).tolist() == [0.125]


def test_a_scale_is_one_program_while_a_scaler_counts() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)
    weight = torch.tensor([1.0], requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaled = torch.compile(lambda x: scaler.scale((x * weight).sum()))
    for scale in (4.0, 4.0, 4.0, 8.0, 8.0, 8.0, 16.0):
        optimizer.zero_grad()
        loss = scaled(torch.ones(1))
        assert loss.item() == pytest.approx(scale * weight.item())
        loss.backward()
        scaler.step(optimizer)
        scaler.update()
    assert "2 programs" in str(scaled.explain())


class Doubled(lr_scheduler.ExponentialLR):
    """A step of a user's own, with one of ours in it."""

    steps = 0

    def step(self, epoch: Any = None) -> None:
        self.steps += 1
        super().step()


def test_a_step_of_a_users_own_runs_eagerly() -> None:
    training = Training()
    training.scheduler = Doubled(training.optimizer, 0.5)
    step = torch.compile(training.step)
    with pytest.warns(UserWarning, match="a scheduler's step"):
        step(X)
    step(X)
    assert training.scheduler.steps == 3  # one as it was made
    assert training.scheduler.last_epoch == 2
