"""What looking costs those who do not look: no Python call of a compiled call, and at most 3 % of
those of a compile. Counted by `sys.setprofile`, not timed."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
from frontend import nn, optim

LOOKING = (
    os.path.join("graphc", "debug") + os.sep,
    os.path.join("graphc", "passes", "recorder.py"),
    os.path.join("graphc", "ir", "recording.py"),
    os.path.join("codegen", "program", "profiling_driver.py"),
    os.path.join("tracing", "scope.py"),
    os.path.join("compiled", "inspection.py"),
)
"""Files that are there to be looked with."""
LOCATION_METHODS = ("within", "kept_in")
MOST = 0.03


def entered(function: Callable[[], Any]) -> Counter[str]:
    """How often Python functions of each file are entered while `function` runs; calls of methods
    that exist for looking alone count as of a file `looking`."""
    entries: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            entries["looking" if name in LOCATION_METHODS else file] += 1

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return entries


def looking(entries: Counter[str]) -> int:
    """Of these, how often one that looks."""
    files = [file for file in entries if file == "looking" or any(p in file for p in LOOKING)]
    return sum(entries[file] for file in files)


@pytest.fixture(scope="module")
def call() -> Callable[[], Any]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 4))
    optimizer = optim.Adam(net.parameters())

    @torch.compile(threads=1)
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, y = torch.randn(5, 6), torch.tensor([0, 1, 2, 3, 0])
    return lambda: step(x, y)


def test_a_compiled_call_enters_nothing_that_looks(call: Callable[[], Any]) -> None:
    call()
    call()
    entries = entered(call)
    assert looking(entries) == 0


def test_a_compile_spends_at_most_a_thirtieth_on_it(call: Callable[[], Any]) -> None:
    call()  # what is imported and made once is there
    net = nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, 3))
    optimizer = optim.Adam(net.parameters())

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    compiled, x = torch.compile(step, threads=1), torch.randn(5, 7)
    entries = entered(lambda: compiled(x))
    assert entries.total() > 10_000 and 0 < looking(entries) <= MOST * entries.total(), (
        looking(entries), entries.total(),
    )  # fmt: skip
