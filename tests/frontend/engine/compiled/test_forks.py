"""Forks while another thread traces or imports."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc import system

RECORDING = """
import sys, traceback
import frontend as torch
from frontend import nn
from graphc.system import IMPORTING

class Finder:
    def find_spec(self, name, path=None, target=None):
        if not IMPORTING._is_owned():
            sys.exit(f"{name} is imported without the lock\\n" + "".join(traceback.format_stack()))

sys.meta_path.insert(0, Finder())
x = torch.ones(8, 8)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(net.parameters())
def step(x):
    loss = torch.nn.functional.cross_entropy(net(x), torch.zeros(8, dtype=torch.int64))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
step(x)
torch.compile(step)(x)
torch.compile(net)(x).sum().backward()
with torch.no_grad():
    compiled = torch.compile(net)
    for rows in (8, 3, 4): compiled(torch.ones(rows, 8))
torch.set_eager_backend("native")
step(x)
torch.compile(lambda x: torch.linalg.inv(x + torch.eye(8) * 9))(x)
str(compiled), repr(x)
"""


@pytest.mark.slow
def test_what_is_imported_late_is_imported_where_forks_wait(tmp_path: Any) -> None:
    environment = {**os.environ, "GRAPHC_CACHE": str(tmp_path)}
    for _ in range(2):  # what was compiled before takes other modules
        done = subprocess.run(
            [sys.executable, "-c", RECORDING], env=environment, capture_output=True, text=True
        )
        assert not done.returncode, done.stderr


def in_child(check: Callable[[], bool]) -> bool:
    """Whether it holds in a forked child."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            code = 0 if check() else 2
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1] == 0


@pytest.fixture
def traced() -> Any:
    """A tensor, a list and a Module that another thread is tracing, in the middle of it."""
    x, kept, layer = torch.ones(3), [1], torch.nn.Linear(3, 3)
    inside, go_on = threading.Event(), threading.Event()

    def f(x: Any) -> Any:
        kept.append(2)
        y = layer(x) * 2
        layer.last = y
        inside.set()
        go_on.wait(60)
        kept.pop()
        return y

    thread = threading.Thread(target=lambda: torch.compile(f)(x))
    thread.start()
    inside.wait(60)
    yield x, kept, layer
    go_on.set()
    thread.join()
    assert torch.compile(lambda x: x + 1)(x).tolist() == [2.0, 2.0, 2.0]


def test_a_trace_of_another_thread_is_given_up_in_the_child(traced: Any) -> None:
    x, kept, layer = traced

    def as_before() -> bool:
        assert x.tolist() == [1.0, 1.0, 1.0] and kept == [1] and not hasattr(layer, "last")
        layer(x).sum().backward()
        assert isinstance(layer.weight.grad.numpy(), np.ndarray)
        return bool(torch.compile(lambda a: a * 3)(x).tolist() == [3.0, 3.0, 3.0])

    assert in_child(as_before)


def test_a_thread_that_forks_in_its_own_trace_goes_on() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        held.append(in_child(lambda: y.shape == (3,) and (y + 1).shape == (3,)))
        return y

    held: list[bool] = []
    assert torch.compile(f, fullgraph=True)(torch.ones(3)).tolist() == [2.0, 2.0, 2.0] and held == [
        True
    ]


def test_a_fork_waits_for_a_lock_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "PATIENCE", 0.05)
    taken, release = threading.Event(), threading.Event()

    def hold() -> None:
        with system.IMPORTING:
            taken.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(60)
    assert in_child(lambda: system.IMPORTING.acquire(blocking=False))  # its own, anew
    release.set()
    thread.join()
    assert in_child(lambda: system.IMPORTING.acquire(blocking=False))
