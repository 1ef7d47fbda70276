"""Kernels of gradients that a second process compiles while forward runs."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.eager import prepared
from frontend.engine.eager.gradients import gradient_worker_main
from frontend.engine.eager.kernels import gradient_worker
from frontend.nn import functional as F
from graphc.codegen.program import compile_worker, link


def rows(*shape: int) -> Any:
    return torch.tensor(np.random.default_rng(3).standard_normal(shape), dtype=torch.float32)


def several() -> list[bytes]:
    """Forward and backward of ops of several kinds."""
    leaves = [rows(2, 3, 8, 8), rows(6, 3, 3, 3), rows(6), rows(4, 6 * 6 * 6).t()]
    x, w, scale, table = [leaf.detach().requires_grad_() for leaf in leaves]
    y = F.layer_norm(F.conv2d(x, w).transpose(1, 3), (6,), scale)
    F.cross_entropy(y.reshape(2, 216) @ table, torch.tensor([1, 3])).backward()
    return [leaf.grad.numpy().tobytes() for leaf in (x, w, scale, table)]


@pytest.fixture
def asked(fresh_native: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What eager mode asks for, in a process that has asked for nothing."""
    state = gradient_worker._Asked()
    monkeypatch.setattr(gradient_worker, "_asked", state)
    return state


@pytest.fixture
def helps(asked: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Any compiling is worth a worker, and there is a cache and a processor for it."""
    monkeypatch.setattr(gradient_worker, "WORTH", 0.0)
    monkeypatch.setattr(link, "_native", {})
    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(compile_worker, "processors", lambda: 2)
    monkeypatch.delenv("GRAPHC_PROCESSES")


def test_what_it_compiles_is_what_backward_runs(
    fresh_native: None, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the last reshape's layout: forward alone, then its ops on the worker's side."""
    messages: list[Any] = []

    def ask(op: Any, attributes: Any, operands: Any, wanted: Any) -> None:
        layouts = tuple([gradient_worker.layout_of(x._value) for x in operands])
        types = tuple([x.tensor_type for x in operands])
        messages.append((op.name, attributes, types, layouts, wanted))

    monkeypatch.setattr(prepared, "ask_ahead", ask)
    x, w = rows(2, 3, 8, 8).requires_grad_(), rows(6, 3, 3, 3).requires_grad_()
    table = rows(4, 216).t().requires_grad_()
    loss = F.log_softmax(F.gelu(F.conv2d(x, w)).reshape(2, 216) @ table, 1).sum()
    forward = len(programs)
    for message in pickle.loads(pickle.dumps(messages)):
        gradient_worker_main.compile_gradients(*message)
    ahead = len(programs)
    loss.backward()
    assert {"conv", "matmul", "gelu"} <= {message[0] for message in messages}
    assert ahead - forward >= 4
    # What is left spreads the loss's gradient of one number, which is not known ahead.
    assert len(programs) - ahead <= 2, programs[ahead:]


def test_gradients_have_the_same_bits_with_one(
    helps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[str] = []
    finish = gradient_worker._Asked.finish

    def noted(self: Any, key: Any) -> None:
        served.append(key[0].name)
        finish(self, key)

    monkeypatch.setattr(gradient_worker._Asked, "finish", noted)
    monkeypatch.setattr(gradient_worker, "IDLE", 0.2)
    ready = threading.Event()
    hand_over = gradient_worker._hand_over

    def handed(worker: Any) -> None:
        hand_over(worker)
        ready.set()

    monkeypatch.setattr(gradient_worker, "_hand_over", handed)
    # Forward alone is left to the worker, then all runs here.
    (rows(5, 7).requires_grad_() @ rows(7, 3)).sum()
    F.conv2d(rows(2, 3, 8, 8).requires_grad_(), rows(6, 3, 3, 3).requires_grad_())
    assert ready.wait(60)
    assert "conv" in served
    with_one = several()
    monkeypatch.setenv("GRAPHC_PROCESSES", "1")
    monkeypatch.setenv("GRAPHC_CACHE", "off")
    assert with_one == several()


@pytest.mark.parametrize("program", ["pass", "import sys; sys.stdout.write('no pickle')"])
def test_a_worker_that_dies(
    program: str, helps: None, asked: Any, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Nobody waits for it, the log says so, and none is started again."""
    started: list[int] = []

    def start(asked_for: str) -> Any:
        started.append(1)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen([sys.executable, "-c", program], **pipes)  # type: ignore[call-overload]

    monkeypatch.setattr(compile_worker, "start_worker", start)
    with caplog.at_level(logging.WARNING, "graphc.compile"):
        gradients = several()
        for thread in threading.enumerate():
            if thread.name == gradient_worker.THREAD:
                thread.join()
        gradients = several()
    assert len(started) == 1 and "the gradient worker failed" in caplog.text
    assert not asked.waiting and not asked.working
    monkeypatch.setenv("GRAPHC_PROCESSES", "1")
    assert gradients == several()


def test_one_that_is_ended_with_the_process_is_no_failure(
    helps: None, asked: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = "import sys; sys.stdin.read()"
    at_exit: list[Any] = []
    there = threading.Event()
    monkeypatch.setattr(gradient_worker, "PROGRAM", program)
    monkeypatch.setattr(
        gradient_worker.atexit, "register", lambda end: (at_exit.append(end), there.set())
    )
    rows(5, 7).requires_grad_() @ rows(7, 3)
    assert there.wait(60)
    with caplog.at_level(logging.DEBUG):
        (end,) = at_exit
        end()
        for thread in threading.enumerate():
            if thread.name == gradient_worker.THREAD:
                thread.join()
    assert not caplog.text and not asked.waiting and not asked.working


@pytest.mark.parametrize("ends", [False, True])
def test_where_no_thread_can_be_started_nobody_waits(
    ends: bool, helps: None, asked: Any, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Of too many threads the log says it; while Python ends nothing does."""

    def refused(thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    if ends:
        monkeypatch.setattr(type(threading.main_thread()), "is_alive", lambda thread: False)
    with caplog.at_level(logging.WARNING, "graphc.compile"):
        gradients = several()
    assert ("can't start new thread" in caplog.text) == (not ends)
    assert gradients == several()


def test_nothing_is_asked_where_nothing_is_computed(helps: None, asked: Any) -> None:
    """Ops of a trace and ops on "meta" are recorded, too."""
    asked.spent, gradient_worker.WORTH = 1.0, float("inf")
    w = rows(3, 4).requires_grad_()
    torch.compile(lambda x: (x @ w).sum().backward())(rows(2, 3))
    (torch.empty(5, 3, device="meta") @ torch.empty(3, 2, device="meta", requires_grad=True)).sum()
    assert not asked.waiting
    rows(5, 3) @ w
    assert [key[0].name for key in asked.waiting] == ["matmul"]


@pytest.mark.parametrize("setting", ["GRAPHC_CACHE", "GRAPHC_PROCESSES"])
def test_there_is_none_without_a_cache_or_a_processor(
    setting: str, helps: None, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting, {"GRAPHC_CACHE": "off", "GRAPHC_PROCESSES": "1"}[setting])
    monkeypatch.setattr(compile_worker, "start_worker", lambda program: pytest.fail("started"))
    several()
    assert not asked.waiting and not asked.feeds


def test_what_is_settled_is_not_handed_over(asked: Any) -> None:
    asked.waiting = {"one": gradient_worker._Request(1), "other": gradient_worker._Request(2)}
    key, request = asked.next()
    assert key == "one" and list(asked.waiting) == ["other"]
    asked.finish(key)
    assert request.done.is_set() and not asked.working


def test_a_trace_asks_for_nothing(helps: None, asked: Any) -> None:
    asked.spent = 1.0
    leaf = rows(3, 5).requires_grad_()
    compiled = torch.compile(lambda x: torch.autograd.grad((x @ leaf).sum(), leaf)[0])
    assert compiled(rows(7, 3)).shape == (3, 5) and not asked.waiting
