"""Ints among the arguments of a compiled function that differ from call to call, and sizes that it
returns: the values of code for the number alone, from one trace where the number is not needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch

X = torch.arange(64).reshape(4, 16) / 7


def written(cache: Any, x: Any, place: int) -> Any:
    cache = cache.clone()
    cache[:, place] = x[:, 0]
    cache[:, place : place + 1] += 1
    return cache, cache[:, : place + 1].sum(1)


ONE_TRACE: dict[str, Callable[..., Any]] = {
    "scaled": lambda x, k: x * k + k,
    "divided": lambda x, k: x / k + 1.5 / k,
    "exact in integers": lambda x, k: torch.arange(3) * k + (1 << 40),
    "an element": lambda x, k: x[:, k],
    "a part": lambda x, k: x[:, k : k + 1] * 2,
    "the first": lambda x, k: x[:, :k].sum(1),
    "the last": lambda x, k: x[:, -k:] * 2,
    "written": lambda x, k: written(x, x, k),
    "below a position": lambda x, k: torch.where(torch.arange(16) <= k, x, -1.0),
    "counted": lambda x, k: torch.arange(k).float() + torch.zeros(k, 2).sum(),
    "filled": lambda x, k: torch.full((2, 3), k) + torch.tensor(k),
    "returned": lambda x, k: (x, k, k + 1, k / 4, [k, {"a": 2 * k}], x.shape[0] * k),
    "repeated": lambda x, k: x.repeat(k, 1),
    "the greatest": lambda x, k: x.topk(k, 1)[0],
    "in bounds": lambda x, k: x[:, : min(k, 20)] * max(k, 2),
    "a power": lambda x, k: x * 0.9**k + (1 - 0.999**k) ** 0.5,
    "powers of it": lambda x, k: x * k**2 + k**-0.5 + k**0.5 + k**-2 + k**1.5 + k**7,
    "to minus it": lambda x, k: x * 2**-k + 2.0**k,
    "a high power": lambda x, k: x ** (k + 14),
    "floats of it": lambda x, k: x * ((k + 0.5) // 2) + k * 1.5 % 2 + abs(k - 7.5) + -(k / 3),
    "by NumPy": lambda x, k: x * (0.5 + 0.5 * np.cos(np.pi * k / 10)) + np.sqrt(k),
    "to integers": lambda x, k: torch.arange(3) * k + torch.arange(3) ** 2 * 0.5**k,
    "huge": lambda x, k: x * k**16,
    "returned floats": lambda x, k: (x * 0.5**k, 0.5**k, [k**-0.5, np.cos(k / 3).item()]),
    "in a region": lambda x, k: torch.cond(
        x.sum() > 0, lambda x: x * 0.9**k, lambda x: x / 0.9**k, (x,)
    ),
}

A_TRACE_EACH: dict[str, Callable[..., Any]] = {
    "a loop": lambda x, k: sum(x * i for i in range(k)),
    "one round more": lambda x, k: sum(x * i for i in range(k + 1)),
    "an axis": lambda x, k: x.reshape(1, 1, 1, 1, 4, 1, 1, 1, 16, 1).sum(k),
    "its text": lambda x, k: x * {"4": 2.0, "9": 3.0}.get(str(k), 1.0),
    "formatted": lambda x, k: x * {"4": 2.0, "9": 3.0}.get(f"{k:d}", 1.0),
    "an item": lambda x, k: x * list(range(20))[k],
    "a key": lambda x, k: x * {4: 2.0, 9: 3.0}.get(k, 1.0),
    "a root": lambda x, k: x * math.sqrt(k),
    "a power of a tensor": lambda x, k: x**k,
    "an integer power": lambda x, k: x * 2**k,
    "a cosine": lambda x, k: x * math.cos(k / 10),
    "rounded": lambda x, k: x * round(k * 1.5),
}


def same(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())
    elif isinstance(expected, tuple | list):
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
    else:
        assert actual == expected


def traces(compiled: Any) -> int:
    return sum(line.startswith("traced ") for line in compiled.explain().splitlines())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ONE_TRACE)
def test_one_trace_for_all_from_the_second(name: str) -> None:
    compiled, alone = torch.compile(ONE_TRACE[name]), torch.compile(ONE_TRACE[name], dynamic=False)
    for k in (3, 4, 9, 15, 4):
        same(compiled(X, k), alone(X, k))
    assert traces(compiled) == 2


@pytest.mark.parametrize("name", A_TRACE_EACH)
def test_a_trace_each_where_the_number_is_needed(name: str) -> None:
    function = A_TRACE_EACH[name]
    compiled = torch.compile(function)
    for k in (3, 4, 9, 4):
        same(compiled(X, k), function(X, k))
    assert traces(compiled) == 3
    # At the second value it was seen that the number is needed: the third was not left open.
    assert sum(each.program.sizes is not None for each in compiled.specializations) == 1


def test_what_is_asked_of_a_number_is_a_guard() -> None:
    def branch(x: Any, k: int) -> Any:
        return x * 2 if k % 2 == 0 else x + k

    compiled = torch.compile(branch)
    for k in range(2, 12):
        same(compiled(X, k), branch(X, k))
    assert traces(compiled) == 3


def test_numbers_below_one_and_huge_ones_stand_alone() -> None:
    compiled = torch.compile(lambda x, k: torch.arange(2) + k)
    for k in (5, 6, 0, 1, -3, 1 << 40, True):
        same(compiled(X, k), torch.arange(2) + k)
    assert traces(compiled) == 6


def test_a_number_that_always_is_a_size_is_that_size() -> None:
    compiled = torch.compile(lambda x, n: x.sum(0) / n + x[:n].mean(0))
    for rows in (5, 6, 7, 8):
        x = torch.ones(rows, 3)
        same(compiled(x, rows), x.sum(0) / rows + x.mean(0))
    assert traces(compiled) == 2 and "n left open" in compiled.explain()
    same(compiled(torch.ones(8, 3), 4), torch.full((3,), 3.0))
    assert traces(compiled) == 3


def test_floats_among_the_arguments() -> None:
    compiled = torch.compile(lambda x, lr, k: (x - lr * 0.9**k * x, lr / 2))
    alone = torch.compile(lambda x, lr, k: (x - lr * 0.9**k * x, lr / 2), dynamic=False)
    values = [(0.1, 1), (0.2, 2), (1 / 3, 3), (0.0, 4), (-0.0, 5), (float("inf"), 6), (1e-300, 7)]
    for lr, k in values:
        for kind in (float, np.float64):
            same(compiled(X, kind(lr), k), alone(X, kind(lr), k))
    assert traces(compiled) == 4
    for flag in (True, False, True, None, "text"):
        compiled_flag = torch.compile(lambda x, k: x * 2 if k else x)
        same(compiled_flag(X, flag), X * 2 if flag else X)


def test_a_further_value_of_a_factor_keeps_nothing() -> None:
    compiled = torch.compile(lambda x, lr, k: x * lr / (1 - 0.9**k))
    for k in range(1, 50):
        compiled(X, 1 / k, k)
    assert traces(compiled) == 2 and len(compiled.specializations) == 2


def test_errors_of_numbers_are_those_of_python() -> None:
    def f(x: Any, k: Any) -> Any:
        try:
            scale = 1 / (k - 5)
        except ZeroDivisionError:
            scale = 7.0
        return x * scale * 10.0 ** (k * 3)

    compiled = torch.compile(f)
    for k in (3, 4, 5, 6, 5, 7, 3):
        same(compiled(X, k), torch.compile(f, dynamic=False)(X, k))
    state = torch.ones(2)

    def adds(k: Any) -> Any:
        return state.add_(1 / (k - 5))

    compiled = torch.compile(adds)
    for k in (7, 8, 9):
        compiled(k)
    before = state.tolist()
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        compiled(5)
    with pytest.raises(OverflowError, match="Numerical result out of range"):
        torch.compile(lambda x, k: x * 10.0 ** (k * 100), dynamic=True)(X, 4)
    assert state.tolist() == before
    compiled(11)
    assert traces(compiled) == 2


def test_numbers_inside_of_containers() -> None:
    def f(x: Any, options: dict[str, Any]) -> Any:
        first, last = options["part"]
        return x[:, first:last] * options["scale"]

    compiled = torch.compile(f)
    for first, last, scale in ((2, 9, 3), (3, 8, 4), (4, 14, 5), (2, 3, 7)):
        options = {"part": (first, last), "scale": scale}
        same(compiled(X, options), f(X, options))
    assert traces(compiled) == 2


def test_dynamic_false_takes_each_alone_and_true_the_first() -> None:
    for dynamic, expected in ((False, 3), (True, 1)):
        compiled = torch.compile(lambda x, k: x * k, dynamic=dynamic)
        for k in (3, 4, 5):
            same(compiled(X, k), X * k)
        assert traces(compiled) == expected


def test_a_training_step_with_a_number() -> None:
    model = torch.nn.Linear(16, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: Any, k: int) -> Any:
        optimizer.zero_grad()
        loss = (model(x) * k).square().mean() / k
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch.compile(step)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    losses = [compiled(X, k).item() for k in (3, 4, 5, 6)]
    assert traces(compiled) == 2
    model.load_state_dict(state)
    np.testing.assert_allclose(losses, [step(X, k).item() for k in (3, 4, 5, 6)], rtol=1e-5)


def test_sizes_that_are_returned_are_those_of_the_call() -> None:
    def f(x: Any) -> Any:
        return x.sum(), x.shape[0], 1 / x.shape[0], x.shape, [x.shape[0] * 2], f"{len(x.shape)}"

    compiled = torch.compile(f)
    for rows in (5, 6, 7, 8):
        x = torch.ones(rows, 3)
        same(compiled(x), f(x))
    assert traces(compiled) == 2


def test_instances_are_bounded_and_drop_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontend.engine.compiled.specializations.MOST_INSTANCES", 20)
    compiled = torch.compile(lambda x, k: x[:k].sum())
    for k in [1, *range(3, 60), 1]:
        assert compiled(torch.ones(64), k).item() == k
    assert len(compiled.specializations) == 21 and traces(compiled) == 2
