"""Bodies of loops whose second step is not their first: Python keeps something between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from graphc.errors import TraceError

XS = torch.arange(15.0).reshape(5, 3)


def cached(x: Any) -> Any:
    kept: list[Any] = []

    def step(carry: Any, x: Any) -> Any:
        if not kept:
            kept.append(x * 2)
        return carry + kept[0], None

    return torch.scan(step, torch.zeros(3), x)[0]


def counted(x: Any) -> Any:
    steps = [0]

    def step(carry: Any, x: Any) -> Any:
        steps[0] += 1
        return carry * steps[0] + x, None

    return torch.scan(step, torch.zeros(3), x)[0]


def one_weight_after_the_other(x: Any) -> Any:
    weights = iter(WEIGHTS)

    def step(carry: Any, x: Any) -> Any:
        return carry * next(weights) + x, None

    return torch.scan(step, torch.zeros(3), x)[0]


def counted_rounds(x: Any) -> Any:
    rounds = [0]

    def body(i: Any, value: Any) -> Any:
        rounds[0] += 1
        return i + 1, value * rounds[0]

    return torch.while_loop(lambda i, value: i < 3, body, (torch.tensor(0), x))[1]


def counted_in_the_inner_loop(x: Any) -> Any:
    steps = [0]

    def inner(carry: Any, x: Any) -> Any:
        steps[0] += 1
        return carry * steps[0] + x, None

    def outer(carry: Any, _: Any) -> Any:
        return torch.scan(inner, carry, x)[0], None

    return torch.scan(outer, torch.zeros(3), length=2)[0]


WEIGHTS = [torch.full((3,), float(i)) for i in range(5)]


@pytest.mark.parametrize(
    "function",
    [cached, counted, one_weight_after_the_other, counted_rounds, counted_in_the_inner_loop],
)
def test_what_python_keeps_between_steps_is_an_error(function: Callable[..., Any]) -> None:
    function(XS)  # eager, it is what Python makes of it
    with pytest.raises(TraceError, match="something else in its second step") as caught:
        torch.compile(function, fullgraph=True)(XS)
    assert "test_steady_bodies.py" in str(caught.value)


def test_a_log_of_what_happened_changes_nothing() -> None:
    log: list[str] = []

    def f(x: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            log.append("step")
            return carry + x, carry

        return torch.scan(step, torch.zeros(3), x)

    last, seen = torch.compile(f)(XS)
    assert last.tolist() == f(XS)[0].tolist() and seen.shape == (5, 3)


def test_random_numbers_differ_from_step_to_step_without_help() -> None:
    def f(x: Any) -> Any:
        return torch.scan(lambda c, x: (c, torch.rand(3)), torch.zeros(3), x)[1]

    torch.manual_seed(3)
    eager = f(XS)
    torch.manual_seed(3)
    assert torch.compile(f)(XS).tolist() == eager.tolist()
    assert len({tuple(row) for row in eager.tolist()}) == 5


def test_running_statistics_are_carried() -> None:
    norm = nn.BatchNorm1d(3)
    x = torch.randn(4, 2, 3)

    def f(x: Any) -> Any:
        return torch.scan(lambda c, x: (c + norm(x).sum(), None), torch.zeros(()), x)[0]

    torch.compile(f)(x)
    after = norm.running_mean.clone()
    norm.reset_running_stats()
    f(x)
    assert torch.allclose(after, norm.running_mean)
    assert int(norm.num_batches_tracked) == 4


def test_a_detached_view_stays_detached_where_a_body_changes_what_it_shows() -> None:
    def gradient(compiled: bool) -> list[float]:
        w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

        def f(xs: Any) -> Any:
            h = w * 2
            d = h.detach()[0]

            def step(c: Any, x: Any) -> Any:
                h.add_(x * w)
                return c + d * 2, None

            c, _ = torch.scan(step, torch.zeros(()), xs)
            (c + (h * h).sum()).backward()
            return c

        (torch.compile(f) if compiled else f)(torch.ones(3, 3))
        slopes: list[float] = w.grad.tolist()
        return slopes

    assert gradient(compiled=True) == gradient(compiled=False) == [50.0, 100.0, 150.0]
