"""Small eager calls run few functions: what they cost is what Python runs around the native call.
Bounds are a little above what they are. They are counted in a process of their own, where no class
of tensors with `__torch_function__` has been made: from then on every call asks for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import frontend as torch
from tests.counted_calls import calls

ROOT = Path(__file__).resolve().parents[4]

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
    "F.conv2d(image, kernel, bias)": (76, 93),
    "F.max_pool2d(image, 2)": (37, 43),
    "F.linear(a, a, v[:64])": (36, 53),
}
"""Without a gradient, and with one."""


def counted(statement: str, gradient: bool = False) -> int:
    """Functions, of Python and C, that run in a call which was seen before."""
    space: dict[str, Any] = {"torch": torch, "g": torch.Generator()}
    space["F"] = torch.nn.functional
    shapes = {"v": (256,), "t": (), "a": (64, 64), "image": (1, 1, 28, 28), "kernel": (6, 1, 5, 5)}
    for name, shape in {**shapes, "bias": (6,)}.items():
        space[name] = torch.rand(shape, requires_grad=gradient)
    call = eval(f"lambda: {statement}", space)
    for _ in range(3):
        call()
    return calls(call).total()


@pytest.fixture(scope="module")
def counts() -> dict[str, list[int]]:
    """Of each statement what it runs, without a gradient and with one."""
    script = f"""
import json
from {__name__} import CALLS, DRAWS, counted
counts = {{each: [counted(each)] for each in DRAWS}}
counts |= {{each: [counted(each), counted(each, gradient=True)] for each in CALLS}}
print(json.dumps(counts))
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, list[int]] = json.loads(ran.stdout)
    return told


@pytest.mark.parametrize("statement", DRAWS)
def test_draws(statement: str, counts: dict[str, list[int]]) -> None:
    (count,) = counts[statement]
    assert 0 < count <= DRAWS[statement]


@pytest.mark.parametrize("statement", CALLS)
def test_calls(statement: str, counts: dict[str, list[int]]) -> None:
    plain, recorded = counts[statement]
    assert 0 < plain <= CALLS[statement][0]
    assert 0 < recorded <= CALLS[statement][1]
