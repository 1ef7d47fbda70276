"""Hooks that run in a `backward()` which is called outside of what is compiled: what they do beside
gradients is done at each call, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
from frontend import nn

KEPT: dict[str, Any] = {}


class Hooked(nn.Module):
    """A layer whose output has a hook, a method."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.calls = 0
        self.seen: Any = None

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        y.register_hook(self.hook)
        return y * 2

    def hook(self, gradient: Any) -> Any:
        raise NotImplementedError


class Counts(Hooked):
    def hook(self, gradient: Any) -> Any:
        self.calls += 1


class KeepsGradient(Hooked):
    def hook(self, gradient: Any) -> Any:
        self.seen = gradient


class KeepsOutside(Hooked):
    def hook(self, gradient: Any) -> Any:
        KEPT["gradient"] = gradient


class Prints(Hooked):
    def hook(self, gradient: Any) -> Any:
        print("gradient", gradient.sum())


class Doubles(Hooked):
    def hook(self, gradient: Any) -> Any:
        return gradient * 2


def train(run: Callable[..., Any], model: Hooked, step: int) -> Any:
    model.zero_grad()
    run(torch.ones(2, 3) * (step + 1)).sum().backward()
    return model.layer.weight.grad.clone()


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
@pytest.mark.parametrize("kind", [Counts, KeepsGradient, KeepsOutside, Prints, Doubles])
def test_as_in_eager_mode(kind: type[Hooked], capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, seen = kind(), []
        KEPT.clear()
        run = torch.compile(model) if compiled else model
        for step in range(3):
            gradient = train(run, model, step)
            held = [x for x in (model.seen, *KEPT.values()) if x is not None]
            seen.append([gradient.tolist(), model.calls, [x.tolist() for x in held]])
        outcomes.append((seen, capsys.readouterr().out))
    assert outcomes[0] == outcomes[1]


def test_a_hook_of_gradients_alone_is_compiled() -> None:
    model = Doubles()
    run = torch.compile(model)
    for step in range(3):
        train(run, model, step)
    assert len(run.specializations) == 1


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
def test_a_backward_hook_of_a_module_counts() -> None:
    model = nn.Linear(3, 3)
    model.calls = 0

    def count(module: Any, given: Any, gradients: Any) -> None:
        module.calls += 1

    model.register_full_backward_hook(count)
    run = torch.compile(model)
    for _ in range(3):
        run(torch.ones(2, 3, requires_grad=True)).sum().backward()
    assert model.calls == 3
