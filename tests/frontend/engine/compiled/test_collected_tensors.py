"""Tensors that a compiled function appends to lists outside: each call appends its own, with the
history that eager mode gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from graphc.errors import TraceError

X = torch.arange(64).reshape(4, 16) / 7


class Collecting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)
        self.outputs: list[Any] = []

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        self.outputs.append(y)
        z = y.relu()
        self.outputs.append(("relu", z))
        return z


def pair() -> tuple[Any, Any]:
    torch.manual_seed(0)
    model, other = Collecting(), Collecting()
    other.load_state_dict(model.state_dict())
    return model, other


def test_each_call_appends_its_own() -> None:
    model, other = pair()
    compiled = torch.compile(model)
    for step in range(1, 4):
        result, reference = compiled(X), other(X)
        assert len(model.outputs) == 2 * step
        assert model.outputs[-1][1] is result
        for source, of in ((model, result), (other, reference)):
            source.zero_grad()
            (of.sum() + source.outputs[-2].square().sum()).backward()
        np.testing.assert_allclose(
            model.linear.weight.grad.numpy(), other.linear.weight.grad.numpy(), rtol=1e-5
        )
    assert compiled.refusals == []
    assert model.outputs[0] is not model.outputs[2]
    with torch.no_grad():
        compiled(X)
    assert not model.outputs[-2].requires_grad


def test_in_a_training_step_they_cannot_be_differentiated_again() -> None:
    model, _ = pair()

    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    compiled = torch.compile(step)
    for _ in range(2):
        compiled(X)
    assert compiled.refusals == []
    assert len(model.outputs) == 4 and model.outputs[2].requires_grad
    with pytest.raises(RuntimeError, match=r"calls backward\(\) itself"):
        model.outputs[2].sum().backward()


def test_one_tensor_is_one_and_changes_come_along() -> None:
    first: list[Any] = []
    second: list[Any] = []

    def collects(x: Any) -> Any:
        y = x * 2
        first.append(y)
        second.append((0, y))
        y.add_(1)
        return x + 1

    compiled = torch.compile(collects)
    for _ in range(2):
        compiled(X)
    assert compiled.refusals == []
    assert first[1] is second[1][1]
    assert first[1].tolist() == (X * 2 + 1).tolist()


@pytest.mark.filterwarnings("ignore:compiled collects runs eagerly")
def test_what_is_not_made_inside_runs_eagerly() -> None:
    kept: list[Any] = []

    def collects(x: Any) -> Any:
        kept.append(x)
        return x + 1

    compiled = torch.compile(collects)
    compiled(X)
    compiled(X)
    assert kept[0] is X and kept[1] is X


def test_in_the_body_of_a_loop_it_is_refused() -> None:
    kept: list[Any] = []

    def body(i: Any, x: Any) -> Any:
        y = x * 2
        kept.append(y)
        return i + 1, y

    def loops(x: Any) -> Any:
        return torch.while_loop(lambda i, x: i < 3, body, (torch.tensor(0), x))[1]

    compiled = torch.compile(loops)
    with pytest.warns(UserWarning, match="'kept' is given what each call would make anew"):
        assert compiled(X).tolist() == (X * 8).tolist()
    assert len(kept) == 3
    with pytest.raises(TraceError, match="'kept'"):
        torch.compile(loops, fullgraph=True)(X)
    assert len(kept) == 3
