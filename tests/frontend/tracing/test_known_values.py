"""In a trace a tensor that depends on no input has a value, and rows can be iterated over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError

X = torch.arange(12.0).reshape(3, 4)


def upper() -> Any:
    return torch.ones(3, 4).triu(1) > 0


def changed(x: Any) -> Any:
    constant = torch.zeros(3)
    constant[1] = 2
    return x * constant[1].item() + constant.sum()


def unpacked(x: Any) -> Any:
    first, *rest = x
    return torch.stack([first * i + row for i, row in enumerate(rest)]) + sum(
        a * b for a, b in zip(x, x)
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[upper()],
        lambda x: x.flatten()[upper().flatten().nonzero()[:, 0]],
        lambda x: x[:, torch.unique(torch.tensor([1, 1, 2]))],
        lambda x: torch.repeat_interleave(x, torch.tensor([1, 2, 3]), dim=0),
        lambda x: x * int(torch.tensor(3) + 1),
        lambda x: sum(x[i] for i in torch.arange(3)),
        lambda x: x[torch.tensor(1) : torch.tensor(1) + 2],
        lambda x: x if torch.linspace(0, 1, 5)[2] > 0.4 else -x,
        changed, unpacked,
    ],
)  # fmt: skip
def test_compiled_as_eager(function: Any) -> None:
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(torch.compile(function)(x).sum(), x)
    (expected,) = torch.autograd.grad(function(x).sum(), x)
    np.testing.assert_allclose(torch.compile(function)(X).numpy(), function(X).numpy(), rtol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-6)


def test_what_depends_on_an_input_has_none() -> None:
    for function in (lambda x: x[x > 5], lambda x: int(torch.ones(3) @ x[:, 0])):
        with pytest.raises(TraceError, match="needs the value"):
            torch.compile(function)(X)


def test_a_known_value_cannot_be_written_past_the_trace() -> None:
    with pytest.raises(ValueError, match="read-only"):
        torch.compile(lambda x: x + torch.zeros(3, 1).numpy().__setitem__(0, 1))(X)
