"""Small eager calls run few functions: what they cost is what Python runs around the native call.
Bounds are a little above what they are."""

from __future__ import annotations

from typing import Any

import pytest

import frontend as torch
from tests.counted_calls import calls

DRAWS = {
    "torch.rand(16, 16, generator=g)": 30,
    "torch.randn(256, generator=g)": 38,
    "torch.randint(0, 10, (16,), generator=g)": 28,
    "torch.randperm(64, generator=g)": 32,
    "torch.multinomial(v, 1, generator=g)": 120,
    "v.uniform_(generator=g)": 40,
    "v.normal_(generator=g)": 45,
}
CALLS = {
    "a.t()": (15, 19),
    "a.sum()": (17, 22),
    "a.max()": (21, 27),
    "a.chunk(4, 1)": (40, 51),
    "a.split(16)": (41, 52),
    "v + t": (16, 22),
    "torch.topk(a, 3)": (46, 54),
}
"""Without a gradient, and with one."""


def counted(statement: str, gradient: bool = False) -> int:
    """Functions, of Python and C, that run in a call which was seen before."""
    space: dict[str, Any] = {"torch": torch, "g": torch.Generator()}
    for name, shape in (("v", (256,)), ("t", ()), ("a", (64, 64))):
        space[name] = torch.rand(shape, requires_grad=gradient)
    call = eval(f"lambda: {statement}", space)
    for _ in range(3):
        call()
    return calls(call).total()


@pytest.mark.parametrize("statement", DRAWS)
def test_draws(statement: str) -> None:
    assert counted(statement) <= DRAWS[statement]


@pytest.mark.parametrize("statement", CALLS)
def test_calls(statement: str) -> None:
    plain, recorded = CALLS[statement]
    assert counted(statement) <= plain
    assert counted(statement, gradient=True) <= recorded
