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


def counted(statement: str) -> int:
    """Functions, of Python and C, that run in a call which was seen before."""
    space: dict[str, Any] = {
        "torch": torch,
        "g": torch.Generator(),
        "v": torch.rand(256),
        "a": torch.rand(64, 64),
    }
    call = eval(f"lambda: {statement}", space)
    for _ in range(3):
        call()
    return calls(call).total()


@pytest.mark.parametrize("statement", DRAWS)
def test_draws(statement: str) -> None:
    assert counted(statement) <= DRAWS[statement]
