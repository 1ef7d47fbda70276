"""A compiled call that raises has done nothing; an interrupt comes before it or after it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.tensors.state import STATE
from graphc.errors import GraphError, TraceError
from tests.fuzz.interrupts import interrupted

LOG: list[Any] = []
COUNTS = {"n": 0}
SEEN: set[int] = {1, 2}
OUTSIDE = "index 9 is out of bounds for dimension 0 with size 4"


class Step:
    """A training step with everything that could be left half done."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.x = torch.randn(4, 3)

    def __call__(self, index: Any, fail: bool) -> Any:
        LOG.append(1)
        self.optimizer.zero_grad()
        y = torch.nn.functional.dropout(self.model(self.x)) + torch.randn(1)
        y.sum().backward()
        self.optimizer.step()
        if fail:
            raise ValueError("in the middle")
        return y[index]

    def state(self) -> Any:
        held = [*self.model.parameters(), *self.model.buffers()]
        held += torch.random.default_generator.tensors
        return (
            [(x._value.tobytes(), x._counter[0], x.requires_grad, x._grad is None) for x in held],
            len(self.optimizer.state), list(LOG), dict(COUNTS), set(SEEN), STATE.grad_enabled,
        )  # fmt: skip


def _refuses(call: Any, step: Step, kind: type[BaseException], words: str) -> None:
    before = step.state()
    with pytest.raises(kind, match=words):
        call()
    assert step.state() == before and STATE.mode is None


def test_nothing_is_done_where_a_call_raises() -> None:
    step = Step()
    compiled = torch.compile(step.__call__)
    good, bad = torch.tensor([1]), torch.tensor([9])
    _refuses(lambda: compiled(good, True), step, ValueError, "in the middle")  # in the trace
    _refuses(lambda: compiled(bad, False), step, GraphError, OUTSIDE)  # in the first native call
    compiled(good, False)
    assert LOG == [1] and len(step.optimizer.state) == 4
    _refuses(lambda: compiled(bad, False), step, GraphError, OUTSIDE)  # in a later one
    compiled(good, False)
    del LOG[:]


def test_a_trace_that_changed_what_it_relies_on_is_undone_and_not_kept() -> None:
    def counting(x: Any) -> Any:
        COUNTS["n"] += 1
        SEEN.add(9)
        LOG.append(x * 2)
        return x + COUNTS["n"]

    compiled = torch.compile(counting, fullgraph=True)
    for _ in range(2):
        with pytest.raises(TraceError, match="global 'LOG' keeps a tensor"):
            compiled(torch.ones(2))
        assert COUNTS == {"n": 0} and len(SEEN) == 2 and LOG == []


def test_grad_mode_is_as_before() -> None:
    def failing(x: Any) -> Any:
        torch.set_grad_enabled(False)
        raise ValueError("after the change")

    with pytest.raises(ValueError, match="after the change"):
        torch.compile(failing)(torch.ones(2))
    assert torch.is_grad_enabled()


def test_an_interrupt_while_native_code_runs_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python raises it when the native call returns: what is updated is counted, gradients are
    there."""
    w = torch.nn.Parameter(torch.ones(3))

    def step(x: Any) -> Any:
        w.grad = None
        (w * x).sum().backward()
        with torch.no_grad():
            w.sub_(w.grad)

    compiled = torch.compile(step)
    compiled(torch.full((3,), 0.25))
    (executable,) = compiled.specializations[0].executables
    enter = executable._frames[-1].enter

    def entered(arrays: Any) -> int:
        enter(arrays)
        raise KeyboardInterrupt

    monkeypatch.setattr(executable._frames[-1], "enter", entered)
    version = w._version
    with pytest.raises(KeyboardInterrupt):
        compiled(torch.full((3,), 0.5))
    assert w.tolist() == [0.25] * 3 and w.grad.tolist() == [0.5] * 3 and w._version > version
    compiled(torch.full((3,), 0.125))
    assert w.tolist() == [0.125] * 3


def test_an_interrupt_when_a_trace_is_left() -> None:
    """The lines of leaving, each in turn: the one place where weights could be lost."""
    from frontend.engine.tracing.leaving import leaving
    from frontend.engine.tracing.session import Session

    w = torch.nn.Parameter(torch.ones(2))
    outside = w._instance_state
    functions = [Session.__enter__, Session.__exit__, Session.leave, leaving.__exit__]
    for code in [function.__code__ for function in functions]:
        for number in sorted({line for *_, line in code.co_lines() if line})[1:]:
            _interrupt_at((code, number), w)
            assert w._instance_state is outside and isinstance(w._value, np.ndarray)
            assert STATE.mode is None and not STATE.watched


def _interrupt_at(line: Any, w: Any) -> None:
    """Interrupt a first call; the next one works, in another thread too."""
    compiled = torch.compile(lambda x: w * x)
    x = torch.ones(2)
    interrupted(lambda: compiled(x), line, 1)
    assert isinstance(w._value, np.ndarray)
    thread = threading.Thread(target=lambda: compiled(x))
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), line
    assert compiled(x).tolist() == [1.0, 1.0]
