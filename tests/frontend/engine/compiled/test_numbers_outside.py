"""Numbers that a compiled function reads from outside and that differ from call to call:
attributes, globals, closure variables, items of dicts. The bits of eager mode, from one trace where
the number is not needed. And what training loops of one's own are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn

X = torch.arange(64).reshape(4, 16) / 7
RATE = 0.5


class Holder:
    def __init__(self) -> None:
        self.t = 0
        self.rate = 0.5
        self.options = {"momentum": 0.9, "name": "a"}


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)
        self.t = 0

    def forward(self, x: Any) -> Any:
        return self.linear(x) * 0.9**self.t


def traces(compiled: Any) -> int:
    return sum(line.startswith("traced ") for line in compiled.explain().splitlines())


def same_bits(function: Callable[..., Any], change: Callable[[int], None], expected: int) -> Any:
    compiled = torch.compile(function)
    for step in range(1, 9):
        change(step)
        assert compiled(X).numpy().tobytes() == function(X).numpy().tobytes(), step
    assert traces(compiled) == expected, compiled.explain()
    return compiled


def test_an_attribute() -> None:
    holder = Holder()

    def change(step: int) -> None:
        holder.t, holder.rate = step, 1 / step

    def corrected(x: Any) -> Any:
        return x * holder.rate / (1 - 0.9**holder.t)

    compiled = same_bits(corrected, change, 2)
    assert (holder.t, holder.rate) == (8, 1 / 8)
    assert len(compiled.specializations) == 2


def test_an_item_of_a_dict() -> None:
    holder = Holder()

    def change(step: int) -> None:
        holder.options["momentum"] = 1 / step

    compiled = same_bits(lambda x: x * holder.options["momentum"], change, 2)
    holder.options["name"] = "b"  # others are looked at as ever
    compiled(X)
    assert traces(compiled) == 3


def test_a_global_and_a_closure_variable() -> None:
    scale = 1

    def change(step: int) -> None:
        nonlocal scale
        global RATE
        scale, RATE = step, step / 3

    same_bits(lambda x: x * scale + RATE, change, 2)


def test_a_module() -> None:
    model = Layer()

    def change(step: int) -> None:
        model.t = step

    with torch.no_grad():
        same_bits(model, change, 2)
        same_bits(lambda x: x[:, : model.t] * model.t, change, 2)


def test_a_module_that_is_differentiated() -> None:
    model = Layer()
    compiled = torch.compile(model)
    for step in range(1, 7):
        model.t = step
        grads = []
        for each in (compiled, model):
            model.zero_grad()
            each(X).sum().backward()
            grads.append(model.linear.weight.grad.clone())
        np.testing.assert_allclose(*[grad.numpy() for grad in grads], rtol=1e-6)
    assert traces(compiled) == 2


def test_what_is_asked_of_it_is_a_guard_and_what_needs_it_says_so() -> None:
    holder = Holder()

    def change(step: int) -> None:
        holder.t = step

    same_bits(lambda x: x * 2 if holder.t > 4 else x * holder.t, change, 3)
    compiled = torch.compile(lambda x: x * math.cos(holder.t))
    for step in range(1, 5):
        change(step)
        np.testing.assert_array_equal(compiled(X).numpy(), (X * math.cos(step)).numpy())
    assert traces(compiled) == 4
    assert compiled.explain().count("made a number at test_numbers_outside.py") == 1
    assert "float(), which functions of `math` call" in compiled.explain().replace("\n      ", " ")


def test_another_type_or_bool_is_another_trace() -> None:
    holder = Holder()
    values: list[Any] = [1, 2, 3, True, 2.0, 2.5, 1 << 40, 0, -3]
    same_bits(lambda x: x * holder.rate, lambda step: setattr(holder, "rate", values[step]), 7)


def test_the_number_is_put_back_where_the_trace_fails() -> None:
    holder, fails = Holder(), [False]

    def scaled(x: Any) -> Any:
        if fails[0]:
            raise OSError("now")
        return x * holder.t * holder.options["momentum"]

    compiled = torch.compile(scaled)
    for step in (1, 2, 3):
        holder.t, holder.options["momentum"] = step, 1 / step
        compiled(X)
    holder.t, holder.options["momentum"], fails[0] = 4, 0.25, True
    with pytest.raises(OSError, match="now"):
        compiled(X)
    assert type(holder.t) is int and holder.t == 4
    assert repr(holder.options) == "{'momentum': 0.25, 'name': 'a'}"


def test_dynamic_false_takes_each_alone() -> None:
    holder = Holder()
    compiled = torch.compile(lambda x: x * holder.rate, dynamic=False)
    for step in range(1, 5):
        holder.rate = step / 2
        assert compiled(X).numpy().tobytes() == (X * holder.rate).numpy().tobytes()
    assert traces(compiled) == 4


# -- training loops of one's own ------------------------------------------------------------------


class Adam:
    def __init__(self, parameters: Any):
        self.parameters = list(parameters)
        self.m = [torch.zeros_like(p) for p in self.parameters]
        self.v = [torch.zeros_like(p) for p in self.parameters]
        self.t = 0
        self.rate = 0.0

    @torch.no_grad()
    def update(self, grads: Any) -> None:
        for p, g, m, v in zip(self.parameters, grads, self.m, self.v):
            m.mul_(0.9).add_(g, alpha=1 - 0.9)
            v.mul_(0.999).addcmul_(g, g, value=1 - 0.999)
            denominator = (v.sqrt() / (1 - 0.999**self.t) ** 0.5).add_(1e-8)
            p.addcdiv_(m, denominator, value=-self.rate / (1 - 0.9**self.t))


def rate_of(step: int) -> float:
    if step < 5:
        return 0.01 * step / 5
    return 0.005 * (1 + math.cos(math.pi * (step - 5) / 15))


def test_adam_with_a_schedule_clipping_and_an_average() -> None:
    def run(compile: Any) -> tuple[list[float], list[Any], Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = Adam(model.parameters())
        average = [p.detach().clone() for p in model.parameters()]

        def step(x: Any, t: int, limit: float) -> Any:
            model.zero_grad()
            loss = (model(x) - 1).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.update([p.grad for p in optimizer.parameters])
            decay = min(0.9, (1 + t) / (10 + t))
            with torch.no_grad():
                for p, kept in zip(model.parameters(), average):
                    kept.mul_(decay).add_(p, alpha=1 - decay)
            return loss

        function, losses = compile(step), []
        for t in range(1, 21):
            optimizer.t, optimizer.rate = t, rate_of(t)
            losses.append(function(X, t, 1 / t).item())
        return losses, [*model.parameters(), *average], function

    losses, state, _ = run(lambda step: step)
    compiled_losses, compiled_state, step = run(torch.compile)
    np.testing.assert_allclose(losses, compiled_losses, atol=1e-4)
    for one, other in zip(state, compiled_state):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), atol=1e-4)
    assert traces(step) <= 3
