"""Every scheduler over 20 steps against PyTorch's: learning rates and momenta, from the start and
resumed, disturbed, combined; state dicts, warnings, errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import frontend

SCHEDULES: dict[str, Any] = {
    "lambda": lambda s, o, **k: s.LambdaLR(o, lambda epoch: 0.9**epoch, **k),
    "lambdas": lambda s, o, **k: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)], **k),
    "multiplicative": lambda s, o, **k: s.MultiplicativeLR(
        o, lambda epoch: 0.95 if epoch % 2 else 1.01, **k
    ),
    "step": lambda s, o, **k: s.StepLR(o, 3, 0.5, **k),
    "multi-step": lambda s, o, **k: s.MultiStepLR(o, [2, 2, 5, 9], 0.7, **k),
    "constant": lambda s, o, **k: s.ConstantLR(o, 0.25, 4, **k),
    "linear": lambda s, o, **k: s.LinearLR(o, 0.3, 0.8, 6, **k),
    "exponential": lambda s, o, **k: s.ExponentialLR(o, 0.9, **k),
    "cosine": lambda s, o, **k: s.CosineAnnealingLR(o, 5, 0.01, **k),
    "warm restarts": lambda s, o, **k: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01, **k),
    "even restarts": lambda s, o, **k: s.CosineAnnealingWarmRestarts(o, 4, **k),
    "polynomial": lambda s, o, **k: s.PolynomialLR(o, 8, 2.0, **k),
    "one cycle": lambda s, o, **k: s.OneCycleLR(o, 1.0, total_steps=40, **k),
    "one cycle in three phases": lambda s, o, **k: s.OneCycleLR(
        o, [1.0, 0.5], epochs=5, steps_per_epoch=9, three_phase=True, anneal_strategy="linear",
        base_momentum=[0.8, 0.7], max_momentum=[0.9, 0.99], **k
    ),
    "one cycle of lr alone": lambda s, o, **k: s.OneCycleLR(
        o, 0.3, total_steps=40, cycle_momentum=False, **k
    ),
    "triangular": lambda s, o, **k: s.CyclicLR(o, 0.1, 1.0, 4, **k),
    "triangular2": lambda s, o, **k: s.CyclicLR(
        o, [0.1, 0.2], 1.0, 4, 3, mode="triangular2", **k
    ),
    "exp range": lambda s, o, **k: s.CyclicLR(
        o, 0.1, 1.0, 4, mode="exp_range", gamma=0.97, cycle_momentum=False, **k
    ),
    "scaled": lambda s, o, **k: s.CyclicLR(
        o, 0.1, 1.0, 4, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations", **k
    ),
}  # fmt: skip


def two_groups(system: Any, optimizer: str, tensor: bool = False) -> Any:
    p, q = system.ones(2, requires_grad=True), system.ones(3, requires_grad=True)
    rates = [system.tensor(lr, dtype=system.float64) if tensor else lr for lr in (0.1, 0.05)]
    options = {"momentum": 0.9} if optimizer == "SGD" else {}
    built = getattr(system.optim, optimizer)(
        [{"params": [p]}, {"params": [q], "lr": rates[1]}], lr=rates[0], **options
    )
    p.grad, q.grad = system.ones(2), system.ones(3)
    return built


def values(optimizer: Any) -> list[float]:
    rates: list[Any] = []
    for group in optimizer.param_groups:
        rates += [group["lr"], group.get("momentum"), *group.get("betas", ())]
        rates.append(group.get("initial_lr"))
    return [float(x) for x in rates if x is not None]


def course(system: Any, optimizer: str, make: Any, manner: Any) -> list[Any]:
    """What a schedule does in 20 steps, taken in a certain manner."""
    schedules = system.optim.lr_scheduler
    groups = two_groups(system, optimizer, manner == "tensor rates")
    schedule, other = make(schedules, groups), None
    log: list[Any] = [values(groups)]
    for i in range(20):
        groups.step()
        if manner == "disturbed" and i in (4, 7):
            for group in groups.param_groups:
                group["lr"] = group["lr"] * 2
        if manner == "to epochs" and i % 3 == 2:
            schedule.step(i + 2)
        else:
            schedule.step()
        if manner == "two at once" and i >= 3:
            other = other or schedules.ExponentialLR(groups, 0.9)
            other.step()
        log += [values(groups), [schedule.last_epoch, *map(float, schedule.get_last_lr())]]
        if manner == f"resumed at {i}":
            schedule = make(schedules, groups, last_epoch=schedule.last_epoch)
            log.append(values(groups))
    return [*log, list(schedule.state_dict())]


MANNERS = [
    "plain", "disturbed", "to epochs", "two at once", "tensor rates", "resumed at 2",
    "resumed at 5", "resumed at 11",
]  # fmt: skip


def compare(optimizer: str, make: Any, manner: str, peer: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = (course(t, optimizer, make, manner) for t in (peer.torch, frontend))
    assert sorted(ours.pop()) == sorted(theirs.pop())
    for i, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15, err_msg=f"entry {i}")


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(peer: Any, name: str, manner: str) -> None:
    for optimizer in ("SGD", "Adam"):
        compare(optimizer, SCHEDULES[name], manner, peer)


COMBINED: dict[str, Any] = {
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [4, 9]
    ),
    "warm-up, then cosine": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 10)], [5]
    ),
    "restarts in sequence": lambda s, o: s.SequentialLR(
        o, [s.CosineAnnealingWarmRestarts(o, 3), s.PolynomialLR(o, 6)], [7]
    ),
    "sequence in a sequence": lambda s, o: s.SequentialLR(
        o, [s.SequentialLR(o, [s.ConstantLR(o), s.StepLR(o, 2)], [2]), s.ExponentialLR(o, 0.9)], [6]
    ),
    "a chain in a sequence": lambda s, o: s.SequentialLR(
        o,
        [s.ChainedScheduler([s.ConstantLR(o), s.StepLR(o, 2)]), s.ExponentialLR(o, 0.9)],
        [6],
    ),
    "a sequence that starts with the second": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [0, 5]
    ),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
    "chained with optimizer": lambda s, o: s.ChainedScheduler([s.StepLR(o, 2)], o),
}


def combined_course(system: Any, make: Any, tensor: bool) -> list[Any]:
    groups = two_groups(system, "SGD", tensor)
    schedule = make(system.optim.lr_scheduler, groups)
    log = [values(groups)]
    for _ in range(20):
        groups.step()
        schedule.step()
        log += [values(groups), list(map(float, schedule.get_last_lr()))]
    return [*log, sorted(schedule.state_dict())]


@pytest.mark.parametrize("name", COMBINED)
def test_combined_schedules(peer: Any, name: str) -> None:
    for tensor in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a sequence inside another steps before the optimizer
            courses = [combined_course(t, COMBINED[name], tensor) for t in (frontend, peer.torch)]
        keys = [log.pop() for log in courses]
        assert keys[0] == keys[1]
        for x, y in zip(*courses, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)


PLATEAUS: list[dict[str, Any]] = [
    {}, {"mode": "max", "patience": 1}, {"threshold_mode": "abs", "patience": 0, "cooldown": 2},
    {"mode": "max", "threshold_mode": "abs", "patience": 0, "threshold": 0.2},
    {"factor": 0.5, "patience": 2, "min_lr": [0.01, 0.02], "threshold": 0.1},
    {"factor": 0.5, "patience": 0, "min_lr": 0.03, "eps": 0.01},
]  # fmt: skip


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_plateau(peer: Any, options: dict[str, Any]) -> None:
    measured = np.random.default_rng(3).random(20) * np.linspace(1, 0.2, 20)

    def run(system: Any, log: list[Any]) -> Any:
        groups = two_groups(system, "SGD")
        schedule = system.optim.lr_scheduler.ReduceLROnPlateau(groups, **options)
        for i, value in enumerate(measured):
            groups.step()
            schedule.step(system.tensor(value) if i % 2 else float(value))
            log.append([f"{x:.12g}" for x in values(groups)])
            log.append([schedule.num_bad_epochs, schedule.cooldown_counter, schedule.last_epoch])
        return [sorted(schedule.state_dict()), [f"{x:.12g}" for x in schedule.get_last_lr()]]

    peer.script(run)


def sgd(system: Any) -> Any:
    return system.optim.SGD([system.ones(2, requires_grad=True)], lr=0.1)


def two_of(system: Any, kind: str) -> Any:
    s = system.optim.lr_scheduler
    both = [s.StepLR(sgd(system), 1), s.StepLR(sgd(system), 1)]
    return s.ChainedScheduler(both) if kind == "chained" else s.SequentialLR(sgd(system), both, [1])


def with_plateau(system: Any, kind: str) -> Any:
    s, o = system.optim.lr_scheduler, sgd(system)
    both = [s.StepLR(o, 1), s.ReduceLROnPlateau(o)]
    return s.ChainedScheduler(both) if kind == "chained" else s.SequentialLR(o, both, [1])


def exhausted(system: Any) -> None:
    optimizer = system.optim.SGD([system.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)
    schedule = system.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=3)
    optimizer.step()
    for _ in range(4):
        schedule.step()


def adagrad(system: Any) -> Any:
    return system.optim.Adagrad([system.ones(2, requires_grad=True)], lr=0.1)


BAD: dict[str, Any] = {
    "no optimizer": lambda t, s: s.StepLR(3, 1),
    "no optimizer for a plateau": lambda t, s: s.ReduceLROnPlateau(3),
    "no initial rate": lambda t, s: s.StepLR(sgd(t), 1, last_epoch=3),
    "functions": lambda t, s: s.LambdaLR(sgd(t), [abs, abs]),
    "constant": lambda t, s: s.ConstantLR(sgd(t), 2.0),
    "linear start": lambda t, s: s.LinearLR(sgd(t), 0),
    "linear end": lambda t, s: s.LinearLR(sgd(t), 0.1, 2),
    "T_0": lambda t, s: s.CosineAnnealingWarmRestarts(sgd(t), 0),
    "T_mult": lambda t, s: s.CosineAnnealingWarmRestarts(sgd(t), 1, 0),
    "negative epoch": lambda t, s: s.CosineAnnealingWarmRestarts(sgd(t), 1).step(-1),
    "no length": lambda t, s: s.OneCycleLR(sgd(t), 1.0),
    "negative length": lambda t, s: s.OneCycleLR(sgd(t), 1.0, total_steps=-1),
    "half a step": lambda t, s: s.OneCycleLR(sgd(t), 1.0, total_steps=1.5),
    "epochs": lambda t, s: s.OneCycleLR(sgd(t), 1.0, epochs=0, steps_per_epoch=1),
    "pct_start": lambda t, s: s.OneCycleLR(sgd(t), 1.0, total_steps=3, pct_start=2),
    "strategy": lambda t, s: s.OneCycleLR(sgd(t), 1.0, total_steps=3, anneal_strategy="x"),
    "no momentum to cycle": lambda t, s: s.OneCycleLR(adagrad(t), 1.0, total_steps=3),
    "two maxima": lambda t, s: s.OneCycleLR(sgd(t), [1.0, 1.0], total_steps=3),
    "cyclic without momentum": lambda t, s: s.CyclicLR(adagrad(t), 1.0, 3),
    "cyclic mode": lambda t, s: s.CyclicLR(sgd(t), 1.0, 3, mode="x"),
    "two bases": lambda t, s: s.CyclicLR(sgd(t), [1.0, 1], 3),
    "factor": lambda t, s: s.ReduceLROnPlateau(sgd(t), factor=1.0),
    "mode": lambda t, s: s.ReduceLROnPlateau(sgd(t), mode="x"),
    "threshold mode": lambda t, s: s.ReduceLROnPlateau(sgd(t), threshold_mode="x"),
    "two minima": lambda t, s: s.ReduceLROnPlateau(sgd(t), min_lr=[1, 2]),
    "empty sequence": lambda t, s: s.SequentialLR(sgd(t), [], []),
    "milestones": lambda t, s: s.SequentialLR(sgd(t), [s.StepLR(sgd(t), 1)], [1]),
    "numbers in sequence": lambda t, s: s.SequentialLR(sgd(t), [3, 4], [1]),
    "empty chain": lambda t, s: s.ChainedScheduler([]),
    "chain of two optimizers": lambda t, s: two_of(t, "chained"),
    "sequence of two optimizers": lambda t, s: two_of(t, "sequential"),
    "chain with a plateau": lambda t, s: with_plateau(t, "chained"),
    "sequence with a plateau": lambda t, s: with_plateau(t, "sequential"),
    "too many steps": lambda t, s: exhausted(t),
    "epoch for a sequence": lambda t, s: COMBINED["sequential"](s, sgd(t)).step(3),
}


@pytest.mark.parametrize("name", BAD)
def test_refusals(peer: Any, name: str) -> None:
    errors = []
    for system in (peer.torch, frontend):
        with pytest.raises(Exception) as caught, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            BAD[name](system, system.optim.lr_scheduler)
        errors.append(caught)
    assert errors[0].type is errors[1].type
    # The words are PyTorch's too, up to where it prints optimizers.
    ours, theirs = (str(error.value).partition(" at index")[0] for error in reversed(errors))
    assert ours[:60] == theirs[:60]


def _own(system: Any) -> Any:
    class Halving(system.optim.lr_scheduler.LRScheduler):
        def get_lr(self) -> list[Any]:
            return [group["lr"] * 0.5 for group in self.optimizer.param_groups]

    return Halving


def test_warnings_and_a_schedule_of_the_users_own(peer: Any) -> None:
    def run(system: Any, log: list[Any]) -> Any:
        optimizer = two_groups(system, "SGD")
        schedule = _own(system)(optimizer)
        schedule.step()  # before the optimizer's: a warning
        optimizer.step()
        schedule.step()
        schedule.step(5)  # a warning, and no closed form
        log.append(schedule.get_last_lr())
        step = system.optim.lr_scheduler.StepLR(optimizer, 2)
        step.get_lr()  # a warning
        return [schedule.last_epoch, schedule._step_count, schedule.base_lrs]

    peer.script(run)


def test_callable_objects_are_saved_with_their_attributes(peer: Any) -> None:
    class Falling:
        def __init__(self, by: float):
            self.by = by

        def __call__(self, epoch: int) -> float:
            return self.by**epoch

    def run(system: Any, log: list[Any]) -> Any:
        schedulers = [
            system.optim.lr_scheduler.LambdaLR(sgd(system), [Falling(by)]) for by in (0.5, 0.25)
        ]
        schedulers[0].load_state_dict(schedulers[1].state_dict())
        schedulers[0].optimizer.step()
        schedulers[0].step()
        return [schedulers[0].get_last_lr(), schedulers[0].state_dict()["lr_lambdas"]]

    peer.script(run)
