"""An `assert` on a tensor in a compiled function: a check that its graph makes when it runs.

PYTEST_DONT_REWRITE: pytest makes branches of the assertions of other tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from graphc.errors import TraceError


def plain(x: Any) -> Any:
    assert (x < 100).all()
    return x * 2


def with_text(x: Any) -> Any:
    assert (x < 100).all(), "too large"
    return x * 2


def negated(x: Any) -> Any:
    assert not (x >= 100).any(), "too large"
    return x * 2


def both(x: Any) -> Any:
    assert x.sum() > 0 and x.max() < 100, "too large"
    return x * 2


def number(x: Any) -> Any:
    assert (x.max() < 100).to(torch.int64), "too large"
    return x * 2


def behind_another(x: Any) -> Any:
    y = x * 2
    if x.shape[0] > 1:
        assert (y < 200).all(), "too large"
    return y


def below(x: Any) -> Any:
    return with_text(x)


ASSERTING = (plain, with_text, negated, both, number, behind_another, below)


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("function", ASSERTING, ids=lambda f: f.__name__)
def test_an_assertion_is_checked_when_the_graph_runs(
    function: Callable[..., Any], fullgraph: bool
) -> None:
    compiled = torch.compile(function, fullgraph=fullgraph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing runs eagerly
        for rows in (3, 4, 5):
            assert compiled(torch.ones(rows)).tolist() == [2.0] * rows
            message = "does not hold" if function is plain else "too large"
            with pytest.raises(AssertionError, match=message) as raised:
                compiled(torch.full((rows,), 100.0))
            assert "test_assertions.py" in str(raised.value)


def test_a_step_whose_assertion_fails_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters())

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        assert torch.isfinite(loss), "not finite"
        loss.backward()
        optimizer.step()
        return loss

    step(torch.randn(4, 3))
    before = [t.clone() for t in model.state_dict().values()]
    with pytest.raises(AssertionError, match="not finite"):
        step(torch.full((4, 3), float("inf")))
    after = model.state_dict().values()
    assert len(before) > 0 and all(map(torch.equal, before, after))


def caught(x: Any) -> Any:
    try:
        assert (x > 0).all()
    except AssertionError:
        return x * 0
    return x


def computed_text(x: Any) -> Any:
    assert (x > 0).all(), f"least {x.min():.0f}"
    return x


def either(x: Any) -> Any:
    assert (x > 0).all() or (x < 0).all()
    return x


def raised_otherwise(x: Any) -> Any:
    if not (x > 0).all():
        raise AssertionError("raised")
    return x


@pytest.mark.parametrize("function", [caught, computed_text, either, raised_otherwise])
def test_what_python_needs_to_know_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(TraceError, match="needs the value of a tensor"):
        torch.compile(function, fullgraph=True)(torch.ones(2))
    compiled = torch.compile(function)
    for x in (torch.ones(2), -torch.ones(2), torch.tensor([-1.0, 1.0])):
        outcomes = []
        for run in (function, compiled):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    outcomes.append(run(x).tolist())
            except AssertionError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def test_an_assertion_of_gradients() -> None:
    x = torch.ones(3, requires_grad=True)
    y = torch.compile(with_text, fullgraph=True)(x)
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
