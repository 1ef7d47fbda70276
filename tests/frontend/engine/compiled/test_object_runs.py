"""A function that is run again and again says what its ops did."""

from __future__ import annotations

from typing import Any

import pytest

import frontend as torch
from frontend.engine.compiled.object_runs import object_run
from frontend.engine.compiled.options import Options
from frontend.engine.eager import dispatch
from frontend.engine.tensors.state import STATE
from graphc.debug.traced import WayToRun


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_ops_are_counted_with_the_bytes_they_read_and_write(backend: str) -> None:
    def step(x: Any) -> Any:
        return (x + x).t().softmax(0)

    before = torch.get_eager_backend()
    try:
        run = object_run(step, (torch.ones(4, 8),), Options(), WayToRun(backend))
        assert run.counted() == (2, (3 + 2) * 4 * 8 * 4)  # the transpose is a view
        assert run.watched is not None
        assert [name for name, *_ in run.watched()] == ["add", "transpose", "softmax"]
    finally:
        torch.set_eager_backend(before)
    assert STATE.observer is None


def test_counting_leaves_the_way_of_ops_alone_and_runs_what_is_compiled_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of `dispatch` is put in place of something else meanwhile; a compiled call among the
    ops runs as ever."""
    doubled = torch.compile(lambda x: x * 2)
    seen: list[Any] = []

    def step(x: Any) -> Any:
        seen.append((dispatch._computed, dispatch._computed_plainly))
        with torch.profiler.record_function("inside"):
            return doubled(x.exp())

    before = torch.get_eager_backend()
    try:
        run = object_run(step, (torch.ones(4),), Options(), WayToRun("native"))
        run.step()
        ops, moved = run.counted()
        assert run.watched is not None
        assert [name for name, *_ in run.watched()] == ["inside"]
    finally:
        torch.set_eager_backend(before)
    assert (ops, moved) == (1, 2 * 4 * 4)
    assert {*seen} == {(dispatch._computed, dispatch._computed_plainly)}
