"""Schedules around and in compiled steps; that they follow PyTorch's stands in ../peers."""

from __future__ import annotations

import math
from typing import Any

import pytest

import frontend as torch
from frontend.optim import lr_scheduler as schedules
from graphc import TraceError


def parameter_and_optimizer(**options: Any) -> tuple[torch.Tensor, Any]:
    p = torch.ones(3, requires_grad=True)
    return p, torch.optim.SGD([p], lr=0.1, **options)


def test_a_compiled_step_takes_new_rates_and_momenta_without_a_new_trace() -> None:
    p, optimizer = parameter_and_optimizer(momentum=0.9)
    q, other = parameter_and_optimizer(momentum=0.9)
    one = schedules.OneCycleLR(optimizer, 0.5, total_steps=12)
    two = schedules.OneCycleLR(other, 0.5, total_steps=12)

    def step(p: torch.Tensor, optimizer: Any) -> None:
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()

    compiled = torch.compile(lambda: step(p, optimizer))
    for _ in range(10):
        compiled()
        one.step()
        step(q, other)
        two.step()
    assert len(compiled.specializations) == 1
    assert torch.allclose(p, q, rtol=1e-5)


def test_betas_are_inputs_too() -> None:
    p = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.Adam([p], lr=0.1)

    @torch.compile
    def step() -> None:
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()

    for beta in (0.9, 0.8, 0.7):
        optimizer.param_groups[0]["betas"] = (beta, 0.99)
        step()
    assert len(step.specializations) == 1
    optimizer.param_groups[0]["betas"] = (0.0, 0.99)
    step()
    assert len(step.specializations) == 1


def test_a_schedule_steps_outside_of_traces() -> None:
    _, optimizer = parameter_and_optimizer()
    schedule = schedules.StepLR(optimizer, 2)
    optimizer.step()

    @torch.compile(fullgraph=True)
    def step(x: torch.Tensor) -> torch.Tensor:
        schedule.step()
        return x * 2

    with pytest.raises(TraceError, match="scheduler's step"):
        step(torch.ones(2))
    assert schedule.last_epoch == 0 and optimizer.param_groups[0]["lr"] == 0.1


def test_the_order_of_steps_is_checked() -> None:
    _, optimizer = parameter_and_optimizer()
    schedule = schedules.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        schedule.step()


def _sequence(o: Any) -> Any:
    return schedules.SequentialLR(o, _two(o), [2])


def _two(o: Any) -> list[Any]:
    return [schedules.ConstantLR(o, 0.5, 3), schedules.ExponentialLR(o, 0.5)]


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(
    ("first", "milestones", "rates"),
    [
        (lambda o: [_sequence(o)], [4], [0.5, 1, 0.5, 0.25, 0.25, 0.25, 1]),
        (
            lambda o: [schedules.ChainedScheduler(_two(o))], [4],
            [0.25, 0.125, 0.0625, 0.0625, 0.25, 0.25, 1],
        ),
        (_two, [0, 3], [1, 0.5, 0.25, 0.25, 0.25, 1, 1]),
    ],
    ids=["a sequence inside", "a chain inside", "a milestone at 0"],
)  # fmt: skip
def test_sequences_undo_each_first_step(first: Any, milestones: Any, rates: list[float]) -> None:
    """The rates are PyTorch 2.13's: one epoch is taken back of each scheduler at the leaves, and
    the one that runs at epoch 0 takes the first step."""
    optimizer = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=1.0)
    schedule = schedules.SequentialLR(
        optimizer, [*first(optimizer), schedules.ConstantLR(optimizer, 0.25, 2)], milestones
    )
    course = [optimizer.param_groups[0]["lr"]]
    for _ in range(6):
        optimizer.step()
        schedule.step()
        course.append(optimizer.param_groups[0]["lr"])
    assert course == pytest.approx(rates)


def test_going_to_an_epoch() -> None:
    _, optimizer = parameter_and_optimizer()
    optimizer.step()
    schedule = schedules.ExponentialLR(optimizer, 0.5)
    with pytest.warns(UserWarning, match="epoch parameter"):
        schedule.step(3)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.0125)


def test_asking_outside_of_a_step_warns() -> None:
    _, optimizer = parameter_and_optimizer()
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedules.ExponentialLR(optimizer, 0.5).get_lr()


def test_values_as_tensors_and_nan() -> None:
    _, optimizer = parameter_and_optimizer()
    schedule = schedules.ReduceLROnPlateau(optimizer, patience=0)
    schedule.step(torch.tensor(1.0))
    schedule.step(math.nan)  # NaN is never better
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda o: schedules.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda o: schedules.StepLR(o, 1, last_epoch=3), KeyError, "initial_lr"),
        (lambda o: schedules.LambdaLR(o, [abs, abs]), ValueError, "Expected 1 lr_lambdas"),
        (lambda o: schedules.ConstantLR(o, 2.0), ValueError, "between 0 and 1"),
        (lambda o: schedules.LinearLR(o, 0.0), ValueError, "greater than 0"),
        (lambda o: schedules.CosineAnnealingWarmRestarts(o, 0), ValueError, "positive integer T_0"),
        (lambda o: schedules.OneCycleLR(o, 1.0), ValueError, "total_steps OR"),
        (lambda o: schedules.CyclicLR(o, 0.1, 1.0), ValueError, "must support momentum"),
        (lambda o: schedules.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be"),
        (lambda o: schedules.SequentialLR(o, [], []), ValueError, "at least one scheduler"),
    ],
)  # fmt: skip
def test_impossible_options(make: Any, error: type[Exception], message: str) -> None:
    optimizer = torch.optim.Adagrad([torch.ones(2, requires_grad=True)], lr=0.1)
    with pytest.raises(error, match=message):
        make(optimizer)


def test_too_many_steps_of_one_cycle() -> None:
    _, optimizer = parameter_and_optimizer(momentum=0.9)
    schedule = schedules.OneCycleLR(optimizer, 1.0, total_steps=3)
    optimizer.step()
    for _ in range(3):
        schedule.step()
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        schedule.step()
