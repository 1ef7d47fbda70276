"""Reports on memory, and its limit."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch
import graphc
from graphc.ops.elementwise import tanh
from graphc.schedule.build import plan_graph
from graphc.schedule.memory import report


def three_products() -> graphc.Graph:
    g = graphc.GraphBuilder("products")
    x = g.input("x", "f32[64,64]")
    w = g.input("w", "f32[64,64]")
    return g.finish(tanh(x @ w) @ w @ w)


def test_a_report_names_the_largest_buffers_where_most_is_alive() -> None:
    plan = plan_graph(three_products())[1]
    text = report(plan)
    assert text.startswith(f"memory: {plan.arena_bytes:,} bytes, 1.00 of")
    assert "most is alive at step 1 (test_memory.py:" in text
    assert "16,384 bytes f32[64,64], steps 0 to 1, made at test_memory.py:" in text


def test_too_little_memory_is_an_error_when_compiling() -> None:
    needed = graphc.compile(three_products(), threads=1).memory_bytes
    graphc.compile(three_products(), threads=1, max_bytes=needed)
    with pytest.raises(graphc.GraphError, match=f"needs {needed:,} bytes.*max_bytes is 100"):
        graphc.compile(three_products(), threads=1, max_bytes=100)


def test_a_function_beyond_its_limit_has_run_nothing() -> None:
    x = torch.ones(64, 64)
    w = torch.ones(64, 64)

    @torch.compile(max_bytes=1000)
    def step(x: torch.Tensor) -> torch.Tensor:
        w.mul_(2.0)
        return torch.tanh(x @ w) @ x @ w

    with pytest.raises(MemoryError, match="max_bytes is 1,000"):
        step(x)
    assert np.array_equal(w.numpy(), np.ones((64, 64)))


def test_explain_tells_phases_threads_and_memory() -> None:
    step = torch.compile(lambda x: torch.tanh(x @ x) @ x)
    step(torch.ones(8, 8))
    text = step.explain()
    assert "memory: " in text and "threads 1: " in text
    assert "plan " in text or "load " in text
